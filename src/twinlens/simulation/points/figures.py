"""Figures of simulated points: of each repeat from its rows, and over repeats with a band."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from twinlens.record.estimate import Estimate
from twinlens.record.request import Requests
from twinlens.schedule.admission import held
from twinlens.simulation.points.played import Played
from twinlens.simulation.work import Floats
from twinlens.spec.slo import Slo
from twinlens.units import JOULES, RATIO, SECONDS, WATTS

LEVEL = 0.9
QUANTILES = (0.5, 0.95, 0.99)
TIMES = ("ttft_s", "tpot_s", "e2e_latency_s")
UNITS = {
    "requests_per_s": "requests/s", "output_tokens_per_s": "tokens/s", "busy_share": RATIO, "full_share": RATIO,
    "queue_s": SECONDS, "preemptions_per_request": "", "slo_attainment": RATIO, "cached_share": RATIO,
    "prefill_busy_share": RATIO, "decode_busy_share": RATIO,
    "energy_per_output_token_j": JOULES, "energy_per_request_j": JOULES, "mean_power_w": WATTS,
}  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class Times:
    """Seconds of each request (requests,): to its first token, between two, to its last. Infinite where it never came,
    NaN where there is none (one token has no gap)."""

    ttft_s: Floats
    tpot_s: Floats
    e2e_latency_s: Floats


def times_of(requests: Requests) -> Times:
    """Seconds from the moment when a request was due, as `stats/serving/latency.py` counts them."""
    first, last = requests.first_chunk_ns(), requests.last_chunk_ns()
    tokens = requests.output_tokens
    with np.errstate(divide="ignore", invalid="ignore"):
        gap_s = (last - first) / 1e9 / (tokens - 1)
    gap_s[tokens < 2] = np.nan
    lost = ~requests.ok
    ttft_s, whole_s = (first - requests.intended_ns) / 1e9, (last - requests.intended_ns) / 1e9
    ttft_s[lost & np.isnan(ttft_s)], whole_s[lost], gap_s[lost] = math.inf, math.inf, math.inf
    return Times(ttft_s, gap_s, whole_s)


def figures_of(played: Played, slo: Slo | None, batch: int | None = None) -> dict[str, float]:
    """Figures of one repeat by the id of the metric. Infinite: more never ended than the quantile leaves out.

    `batch`: the size of a full batch of requests held back in front; then what they waited for is told apart.
    """
    requests = Requests.from_table(played.table)
    times = times_of(requests)
    found = {f"{name}_p{round(100 * q)}": _quantile(getattr(times, name), q) for name in TIMES for q in QUANTILES} | {
        f"{name}_mean": float(np.nanmean(getattr(times, name))) if len(requests) else math.nan for name in TIMES
    }
    due_s = float(requests.intended_ns.max(initial=0)) / 1e9
    inside = requests.ok & (requests.end_ns <= due_s * 1e9)
    if due_s:
        found["requests_per_s"] = float(inside.sum()) / due_s
        found["output_tokens_per_s"] = float(requests.chunk_tokens[requests.chunk_ns <= due_s * 1e9].sum()) / due_s
    found["busy_share"] = played.busy_s / played.span_s if played.span_s else 0.0
    found["full_share"] = played.full
    found["queue_s"] = math.nan if played.queue_s is None else played.queue_s
    found["preemptions_per_request"] = played.preemptions / max(1, len(requests))
    found["cached_share"] = played.cached_tokens / max(1, int(requests.input_tokens.sum()))
    if slo is not None and slo.itl_s is None:
        found["slo_attainment"] = float(_met(times, slo).mean()) if len(requests) else math.nan
    return found | dict(played.pools) | (_held(requests, batch) if batch is not None else {})


def _held(requests: Requests, batch: int) -> dict[str, float]:
    """Mean seconds in front of the engine: for a batch to fill, for an answer that keeps a batch, for every slot."""
    known = requests.ok & np.isfinite(requests.released_ns)
    if not known.any():
        return {}
    released_ns = requests.released_ns[known].astype(np.int64)
    found = held(
        requests.group[known], requests.intended_ns[known], released_ns, requests.end_ns[known], batch
    )  # fmt: skip
    return {"gathering_s": float(found.gathering_ns.mean()) / 1e9, "blocked_s": float(found.blocked_ns.mean()) / 1e9,
            "slots_s": float(found.queued_ns.mean()) / 1e9}  # fmt: skip


def _met(times: Times, slo: Slo) -> Floats:
    met = np.isfinite(times.e2e_latency_s)
    for name, limit in (("ttft_s", slo.ttft_s), ("tpot_s", slo.tpot_s), ("e2e_latency_s", slo.e2e_latency_s)):
        if limit is not None:
            seconds = getattr(times, name)
            met &= np.isnan(seconds) | (seconds <= limit)
    return met


def _quantile(values: Floats, q: float) -> float:
    """The nearest rank from above: an infinite value is one that never came."""
    known = np.sort(values[~np.isnan(values)])
    return float(known[max(0, math.ceil(q * len(known)) - 1)]) if len(known) else math.nan


def over_repeats(found: Sequence[dict[str, float]], of_draws: bool) -> dict[str, Estimate]:
    """The median of each figure over repeats, and the band that holds nine of ten."""
    names = list(dict.fromkeys(name for each in found for name in each))
    return {name: band([each[name] for each in found if name in each], unit_of(name), of_draws) for name in names}


def band(values: Sequence[float], unit: str, of_draws: bool) -> Estimate:
    """The median of one figure over repeats, and the band that holds nine of ten; NaN, infinite: there is none."""
    method = f"median of {len(values)} simulations, each of its own seed{' and constants' if of_draws else ''}"
    if any(map(math.isnan, values)):
        return Estimate(None, unit, method, "simulated", reason="a simulation had no value of it")
    middle = float(np.quantile(values, 0.5, method="nearest"))
    if not math.isfinite(middle):
        return Estimate(None, unit, method, "simulated", reason="too many requests never ended: it is overloaded")
    if len(values) < 2:
        return Estimate(middle, unit, method, "simulated", n=len(values), no_interval="one simulation has no spread")
    low, high = (float(np.quantile(values, q, method="nearest")) for q in ((1 - LEVEL) / 2, (1 + LEVEL) / 2))
    if not math.isfinite(high):
        return Estimate(middle, unit, method, "simulated", n=len(values),
                        no_interval="in some simulations too many requests never ended")  # fmt: skip
    return Estimate(middle, unit, method, "simulated", low, high, LEVEL, n=len(values))


def unit_of(name: str) -> str:
    """The unit of a figure by its id."""
    return UNITS.get(name, SECONDS)


def spread(values: Iterable[float], unit: str, method: str) -> Estimate:
    """Values of laws that are equally likely, as their median and the band that holds nine of ten."""
    known = np.fromiter(values, float)
    low, middle, high = (float(np.quantile(known, q)) for q in ((1 - LEVEL) / 2, 0.5, (1 + LEVEL) / 2))
    if len(known) < 2:
        return Estimate(middle, unit, method, "simulated", n=1, no_interval="its constants are taken as they are")
    return Estimate(middle, unit, method, "simulated", low, high, LEVEL, n=len(known))
