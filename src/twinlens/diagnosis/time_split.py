"""Partitions from rows: phases of training steps, and stretches of requests between their own timestamps."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from twinlens.diagnosis.partition import Partition, absent, partition_of
from twinlens.record.estimate import Estimate
from twinlens.record.request import Requests
from twinlens.record.step import Steps

_NS = 1e9
_OF_OTHER_REQUESTS = 0.1
_TOLD = {"queue": "server_queue_s_mean", "prefill": "server_prefill_s_mean"}


def of_steps(window: Steps) -> Partition:
    """From the optimizer steps of the steady window, the time of evaluations and other points' turns taken out.

    The clock runs from the first step's begin to the last one's end; time between two steps is "between-steps".
    """
    if not len(window):
        return absent("step", "the run has no step")
    total = float(window.end_ns[-1] - window.begin_ns[0]) / _NS
    inside = float((window.end_ns - window.begin_ns).sum()) / _NS
    spent = {
        phase: float(np.nansum(values)) / _NS
        for phase, values in window.phases_ns.items()
        if not np.isnan(values).all()  # a phase that does not exist here is no part
    }
    if sum(spent.values()) > inside * (1 + 1e-9):
        return absent("step", "the phases overlap: together they are more than the time of the steps")
    return partition_of("step", total, spent | {"between-steps": total - inside}, len(window))


def of_lockstep(requests: Requests, rows: np.ndarray) -> Partition:
    """From one request of each batch (`rows`: indexes): due → sent → first token → last token → end."""
    good = rows[requests.ok[rows]]
    first, last = requests.first_chunk_ns()[good], requests.last_chunk_ns()[good]
    known = ~np.isnan(first)
    good, first, last = good[known], first[known], last[known]
    total = _sum(requests.end_ns[good] - requests.intended_ns[good])
    is_text = bool(requests.output_tokens[good].any())
    spent = {
        "before-sending": _sum(requests.sent_ns[good] - requests.intended_ns[good]),
        "prefill" if is_text else "forward": _sum(first - requests.sent_ns[good]),
        **({"decode": _sum(last - first)} if is_text else {}),
        "after-last-token": _sum(requests.end_ns[good] - last),
    }
    return partition_of("request", total, spent, len(good))


def of_served(
    requests: Requests,
    rows: np.ndarray,
    metrics: Mapping[str, Estimate],
    read_ns: tuple[float, float] | None = None,
) -> Partition:
    """From requests under load. Between sending and the first token only the server knows what it did.

    Its mean time in queue and in prefill are taken from its own metrics; what both leave there is "transport" (network,
    HTTP, tokenising). What it does not say of that stretch is unattributed. `read_ns`: the first and the last reading
    of its page. Its means are of the requests that left its queue, or ended, between them: under overload these waited
    less than the ones that `rows` sent meanwhile, and what they waited less is no transport.
    """
    good = rows[requests.ok[rows]]
    first, last = requests.first_chunk_ns()[good], requests.last_chunk_ns()[good]
    known = ~np.isnan(first)
    good, first, last = good[known], first[known], last[known]
    intended, sent = requests.intended_ns[good], requests.sent_ns[good]
    released = np.where(np.isnan(requests.released_ns[good]), intended, requests.released_ns[good])
    before: dict[str, float] = {"held": _sum(released - intended)} if (released > intended).any() else {}
    before["before-sending"] = _sum(sent - released)
    waited = _sum(first - sent)
    total = _sum(requests.end_ns[good] - intended)
    others = _others_waited_s(requests, read_ns) if read_ns else ()
    spent = before | _of_server(waited, len(good), metrics, others) | {
        "decode": _sum(last - first),
        "after-last-token": _sum(requests.end_ns[good] - last),
    }  # fmt: skip
    return partition_of("request", total, spent, len(good))


def _others_waited_s(requests: Requests, read_ns: tuple[float, float]) -> tuple[float, ...]:
    """Mean time from sending to the first token of the requests that had it, and of those that ended, meanwhile."""
    first, end, begin = requests.first_chunk_ns(), requests.end_ns, read_ns[0]
    good = requests.ok & ~np.isnan(first)
    of_each = [good & (moment >= begin) & (moment <= read_ns[1]) for moment in (first, end)]
    return tuple(float(np.mean((first - requests.sent_ns)[mine])) / _NS for mine in of_each if mine.any())


def _of_server(
    waited_s: float, count: int, metrics: Mapping[str, Estimate], others_s: tuple[float, ...] = ()
) -> dict[str, float]:
    """Queue, prefill and transport of what passed before the first token: those that the server says, and transport
    where it says both of the others. `others_s`: mean waits of the requests that its means may be of; transport is the
    least that any of them leaves, and what the rows waited longer than these is queue. What the server says up to a
    tenth too much is cut back in proportion; beyond that nothing is taken from it."""
    means = {part: metrics[name].value if name in metrics else None for part, name in _TOLD.items()}
    told = {part: value * count for part, value in means.items() if value is not None}
    if others_s and len(told) == len(_TOLD):
        said_s = sum(told.values()) / count
        transport = max(0.0, min(waited_s / count, *others_s) - said_s) * count
        longer = waited_s - sum(told.values()) - transport
        told["queue"] += max(0.0, longer)
    left = waited_s - sum(told.values())
    if left < 0:
        fits = sum(told.values()) <= waited_s * (1 + _OF_OTHER_REQUESTS)
        scale = waited_s / sum(told.values())
        told, left = ({part: value * scale for part, value in told.items()} if fits else {}), 0.0
    return told | ({"transport": left} if len(told) == len(_TOLD) else {})


def _sum(values_ns: np.ndarray) -> float:
    return float(np.sum(values_ns)) / _NS
