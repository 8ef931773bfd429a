"""Differences of latencies of two addresses by turns: what a gateway adds, and what its process costs per token.

Rounds are joined to stretches of at least `_LEAST_ROWS` requests a side, the quantile of both is taken in each, and the
difference is the median over stretches, then the mean over repeats: what slows the machine for longer than a stretch
meets both, and what is shorter spoils few.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from twinlens.record.estimate import Estimate
from twinlens.record.request import Requests
from twinlens.record.run import Run
from twinlens.stats.estimator.quantile import interval_ranks, needed_for_quantile
from twinlens.stats.paired.ratio import mean_over
from twinlens.stats.serving.latency import gaps_s, latency
from twinlens.stats.summary.group import Group
from twinlens.stats.summary.serving import is_served
from twinlens.units import SECONDS

_LEAST_ROWS = 60
"""Of a stretch and a side: the slowest of 69 is as likely above p99 as below it."""
_SIGNS = 0.98  # neighbouring stretches resemble each other, as in stats/paired/arrivals.py
_QUANTILES = {"p50": 0.5, "p99": 0.99}
_TIMES = ("ttft_s", "itl_s")
_FAILED = "more requests failed in a stretch than the quantile leaves out"
_FEW = f"no stretch of {_LEAST_ROWS} requests is in the turns of both"

Pair = tuple[Requests, Requests]
Part = tuple[Requests, NDArray[np.int64]]
"""Rows of a run: all of them, and the indexes of those that are meant."""


@dataclass(frozen=True, slots=True)
class Spent:
    """The process that listens at one of the two addresses. `per_token`, `per_request`: processor time in its turns."""

    name: str
    per_token: Estimate
    per_request: Estimate


@dataclass(frozen=True, slots=True)
class Added:
    """What `above` takes longer than `below`, by metric: a difference in seconds. `spent`: of the process at `above`.

    `failed`, `requests`: of (above, below), in their measured turns.
    """

    above: str
    below: str
    times: Mapping[str, Estimate]
    spent: Spent
    failed: tuple[int, int]
    requests: tuple[int, int]


def added(group: Group, reference: Group, runs: Mapping[str, Run], names: tuple[str, str]) -> Added | None:
    """The differences of `group` to `reference` over the repeats in which both took turns at requests under load;
    None where none did. `runs`: those that took turns, by id."""
    below = {run.sections.pairing.id: run for run in _of(reference, runs) if run.sections.pairing}
    both = [
        (run, below[pairing.id], pairing.points)
        for run in _of(group, runs)
        if (pairing := run.sections.pairing) and pairing.id in below
    ]
    if not both:
        return None
    rows = [(above.requests, other.requests) for above, other, _ in both]
    ok = [np.concatenate([each.ok[each.slice >= 0] for each in side]) for side in zip(*rows, strict=True)]
    return Added(
        *names,
        times=differences(rows, [points for _, _, points in both]),
        spent=spent([above for above, _, _ in both]),
        failed=(int((~ok[0]).sum()), int((~ok[1]).sum())),
        requests=(ok[0].size, ok[1].size),
    )


def differences(pairs: Sequence[Pair], points: Sequence[int], *, level: float = 0.95) -> dict[str, Estimate]:
    """`ttft_s_p50`, `ttft_s_p99`, `itl_s_p50`, `itl_s_p99`: above less below, seconds. `pairs`: (above, below) of each
    repeat, whose slices are numbered over all of its `points`."""
    cut = [each for pair, count in zip(pairs, points, strict=True) if (each := _stretches(*pair, count))]
    found = dict[str, Estimate]()
    for time in _TIMES:
        for name, q in _QUANTILES.items():
            gaps = [[_gap(each, time, q) for each in repeat] for repeat in cut]
            found[f"{time}_{name}"] = _difference(gaps, name, level)
    return found


def spent(runs: Sequence[Run]) -> Spent:
    """Processor time of the process that listens at the address of these repeats, over what it sent in its turns."""
    listeners = [run.sections.listener for run in runs]
    known = [(each, run.requests) for each, run in zip(listeners, runs, strict=True) if each and each.cpu_s is not None]
    if len(known) < len(runs):
        why = next((each.why for each in listeners if each and each.why), "the run did not look at it")
        absent = Estimate.absent(SECONDS, why)
        return Spent("", absent, absent)
    cpu_s = [each.cpu_s or 0.0 for each, _ in known]
    tokens = [float(rows.output_tokens[rows.slice >= 0].sum()) for _, rows in known]
    requests = [float((rows.slice >= 0).sum()) for _, rows in known]
    return Spent(known[0][0].name, _per(cpu_s, tokens, "tokens"), _per(cpu_s, requests, "requests"))


def _per(cpu_s: Sequence[float], work: Sequence[float], what: str) -> Estimate:
    if min(work) <= 0:
        return Estimate.absent(SECONDS, f"a repeat has no {what}")
    series = [np.array([spent_s / done]) for spent_s, done in zip(cpu_s, work, strict=True)]
    return mean_over(series, f"processor time of the process over {what} in its turns", "sums", unit=SECONDS)


def _of(group: Group, runs: Mapping[str, Run]) -> list[Run]:
    known = [runs[each.run] for each in group.runs if each.run in runs]
    return [run for run in known if run.is_finished and is_served(run)]


def _stretches(above: Requests, below: Requests, points: int) -> list[tuple[Part, Part]]:
    """Rows of both in whole rounds that both have, so many rounds together that each side has `_LEAST_ROWS`."""
    rounds = [np.where(side.slice >= 0, side.slice // points, -1) for side in (above, below)]
    shared = np.intersect1d(rounds[0], rounds[1])
    shared = shared[shared >= 0]
    if not shared.size:
        return []
    fewest = min(int((of == each).sum()) for of in rounds for each in shared)
    size = -(-_LEAST_ROWS // fewest)
    parts = [shared[begin : begin + size] for begin in range(0, shared.size - size + 1, size)]
    sides = tuple(zip((above, below), rounds, strict=True))
    return [tuple((side, np.flatnonzero(np.isin(of, part))) for side, of in sides) for part in parts]  # type: ignore[misc]


def _gap(pair: tuple[Part, Part], time: str, q: float) -> float:
    """Above less below in one quantile; NaN where a side has none, infinite where it falls among failures."""
    values = [latency(*part).ttft_s if time == "ttft_s" else gaps_s(*part) for part in pair]
    if not all(each.size for each in values):
        return float("nan")
    with np.errstate(invalid="ignore"):
        a, b = (float(np.quantile(each, q, method="median_unbiased")) for each in values)
    return a - b if np.isfinite(a) and np.isfinite(b) else float("inf")


def _difference(gaps: Sequence[Sequence[float]], name: str, level: float) -> Estimate:
    series = [of_repeat for each in gaps if (of_repeat := np.array(each)).size]
    if not series or any(np.isnan(each).any() for each in series):
        return Estimate.absent(SECONDS, _FEW if not series else "answers came in one piece")
    if any(np.isinf(each).any() for each in series):
        return Estimate.absent(SECONDS, _FAILED)
    said = f"difference of the {name} of both, median of {sum(each.size for each in series)} stretches by turns"
    if len(series) > 1:
        return mean_over(
            [np.median(each, keepdims=True) for each in series], said, "medians", unit=SECONDS, level=level
        )
    (values,) = series
    middle, size = float(np.median(values)), values.size
    if size < needed_for_quantile(0.5, _SIGNS):
        why_not = f"none below {needed_for_quantile(0.5, _SIGNS)} stretches of {_LEAST_ROWS} requests"
        return Estimate(middle, SECONDS, said, "derived", n=size, no_interval=why_not)
    low, high = (float(np.sort(values)[rank - 1]) for rank in interval_ranks(size, 0.5, max(level, _SIGNS)))
    said += " of one repeat, interval by signs; not comparable across repeats"
    return Estimate(middle, SECONDS, said, "derived", low, high, level, size)
