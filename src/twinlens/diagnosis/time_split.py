"""Partitions of time from rows, and what of a part was spent waiting: for a processor, a device, or other requests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from twinlens.diagnosis.phase import Partition, absent, partition_of
from twinlens.record.estimate import Estimate
from twinlens.record.request import Requests
from twinlens.record.run import Run
from twinlens.record.step import Steps
from twinlens.spec.precision import AS_SERVED
from twinlens.stats.estimator.dependence import too_dependent
from twinlens.stats.estimator.interval import mean_interval
from twinlens.stats.summary.group import Summary
from twinlens.units import COUNT, RATIO, SECONDS

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


# Remedies that a run has in use already, so that nobody is told to try them: by their key, with their value.

_WIDE = {"fp32", "tf32", AS_SERVED.name}
_WIDE_KV = {"fp32", "fp16", "bf16"}


def in_use(run: Run) -> dict[str, Any]:
    """ "compiled", "narrow" (the precision), "kv-format", "batch", "accumulation" (parts), "recompute", "threads" and
    "workers" (of a data loader): those that this run was asked for, or that its record shows."""
    spec, facts = run.spec, run.facts.executor if run.facts else None
    options = spec.executor.options
    kv = facts.value("precision.kv") if facts else None
    cores = facts.value("host.cpu.usable_threads") if facts else None
    training = spec.workload.kind == "training"
    whole = spec.workload.global_batch if spec.workload.kind == "training" else None
    part = (spec.point.microbatch or whole) if whole else None
    batch = part if training else spec.point.batch
    found: dict[str, Any] = {
        "compiled": options.get("graph") == "compiled" or (facts.value("serving.graphs") == "captured" if facts else 0),
        "narrow": None if spec.point.precision in _WIDE else spec.point.precision,
        "kv-format": kv if isinstance(kv, str) and kv not in _WIDE_KV else None,
        "batch": batch if batch and batch > 1 else None,
        "accumulation": whole // part if whole and part and whole > part else None,
        "recompute": training and getattr(spec.workload, "checkpointing", False),
        "threads": spec.executor.threads if cores and (spec.executor.threads or 0) >= int(cores) else None,
        "workers": _workers(options),
    }
    return {key: value for key, value in found.items() if value}


def _workers(options: Mapping[str, Any]) -> int | None:
    """Workers of a data loader, by what executors call them."""
    named = (options.get(name) for name in ("workers", "num_workers", "dataloader_num_workers"))
    return next((int(each) for each in named if isinstance(each, int) and each > 0), None)


# Pressure on the host over the steady window, from telemetry: what may have kept the program from running at all.

_METHODS = {
    "waited_cpu": (COUNT, "threads ready without a processor, mean (Linux schedstat)"),
    "steal_cpu": (RATIO, "processor time that a hypervisor gave to others, of all (/proc/stat)"),
    "quota_cpu": (RATIO, "time held back by a container's quota (cgroup cpu.stat)"),
    "gc_share": (RATIO, "time in Python's garbage collection"),
    "foreign_cpu": (RATIO, "processor time of other programs, of all"),
}
"""Telemetry column of the host to its unit and where it comes from."""


def host_pressure(telemetry: pa.Table, begin_s: float, end_s: float) -> Mapping[str, Estimate]:
    """Means of what the host's rows say between two moments of the run, and major page faults in all; a column that
    this system does not tell is left out. Each row is about the time since the one before."""
    if not telemetry.num_rows:
        return {}
    host = telemetry.filter(pc.equal(telemetry["source"], "host"))
    at_s = host["time_ns"].to_numpy() / 1e9
    inside = (at_s > begin_s) & (at_s <= end_s)
    found = {}
    for name, (unit, method) in _METHODS.items():
        values = _known(host, name, inside)
        if values.size:
            found[name] = Estimate(float(values.mean()), unit, method, "measured", n=values.size)
    faults = _known(host, "major_faults", inside)
    if faults.size:
        method = "page faults that waited for storage, in the window (/proc/PID/stat)"
        found["major_faults"] = Estimate(float(faults.sum()), COUNT, method, "measured", n=faults.size)
    return found


def _known(host: pa.Table, name: str, inside: np.ndarray) -> np.ndarray:
    values = host[name].to_numpy(zero_copy_only=False).astype(float)[inside]
    return np.asarray(values[~np.isnan(values)])


# The wait for the first token of a served run, and the same at a lower load: what other requests add to it.
#
# A server without metrics does not say how long a request was in its queue. The same server at a lower load has a
# shorter queue, so what the wait grows by is due to other requests, and is at least this long.


@dataclass(frozen=True, slots=True)
class LowerLoad:
    """A run of the same work at a lower load. `load`: "1/s" or "1 in flight"; `wait`: its mean first-token wait."""

    run: str
    load: str
    wait: Estimate


def first_token_wait(run: Run, summary: Summary) -> Estimate:
    """Mean time from sending to the first token, of the requests of the steady window that ended well."""
    own = run.requests.own_time()
    rows = np.argsort(own.intended_ns, kind="stable")[summary.verdict.begin_row : summary.verdict.end_row]
    good = rows[own.outcome[rows] == "ok"]
    waited = (own.first_chunk_ns()[good] - own.sent_ns[good]) / 1e9
    known = waited[np.isfinite(waited)]
    return mean_interval(known, unit=SECONDS, method_suffix=", sent → first token", why_not=too_dependent(known)[0])


def added_wait(here: Estimate, lower: LowerLoad) -> Estimate | None:
    """How much longer the wait is here, with an interval that counts both of theirs at their worst; None where it is
    not shown to be longer."""
    other = lower.wait
    if None in (here.value, here.low, here.high, other.value, other.low, other.high):
        return None
    low, high = (here.low or 0.0) - (other.high or 0.0), (here.high or 0.0) - (other.low or 0.0)
    if low <= 0:
        return None
    method = f"mean first-token wait less that at {lower.load} ({lower.run}); bounds: of both at their worst"
    value = (here.value or 0.0) - (other.value or 0.0)
    return Estimate(value, SECONDS, method, "derived", low, high, here.level, here.n)
