"""Rates over a window, stalls and all, with their interval."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from twinlens.record.estimate import Estimate
from twinlens.stats.estimator.autocorrelation import autocorrelation_time
from twinlens.stats.estimator.interval import grouped, reach_of_ratio


def rate_interval(
    counts: ArrayLike,
    begin_ns: ArrayLike,
    end_ns: ArrayLike,
    *,
    unit: str,
    level: float = 0.95,
    name: str = "work / wall",
    method_suffix: str = "",
    seen: int | None = None,
) -> Estimate:
    """Work per second from the first begin to the last end: sum of `counts` / wall, stalls included.

    `counts`, `begin_ns`, `end_ns` are rows [n], sequential (steps) or overlapping (requests). Each row is
    charged the time since the row that ended before it, so the charges add up to the wall and no stall is
    lost. The interval is that of the mean time that its work takes (`reach_of_ratio`), laid out in the logarithm, so
    that no bound is below 0; a mean of the same rows has one where the rate has. Absent with no rows or no time.
    `name`: what is divided by what. `seen`: how many things were seen, where the rows are intervals of time in which
    they were counted.
    Raises ValueError for rows of unequal number, negative counts, or a row that ends before it begins.
    """
    work, begin, end = _rows(counts, begin_ns, end_ns)
    if work.size == 0:
        return Estimate.absent(unit, "there are no rows in the window")
    wall_s = float(int(end.max()) - int(begin.min())) / 1e9
    if wall_s <= 0:
        return Estimate.absent(unit, "the window has no length")
    rate = float(work.sum()) / wall_s
    if rate == 0:
        return Estimate(rate, unit, f"{name}; no work was done{method_suffix}", "measured", 0.0, 0.0, level)
    order = np.argsort(end, kind="stable")
    charged_s = np.diff(end[order], prepend=begin.min()) / 1e9
    rows = work.size if seen is None else seen
    found, why_not, there = reach_of_ratio(charged_s, work[order], level, rows, is_above_0=True)
    method = f"{name}{method_suffix}"
    if why_not:
        n = max(1, int(found.independent))
        return Estimate(rate, unit, method, "measured", n=n, no_interval=why_not, seen=there)
    mean_s = wall_s / work.size
    low, high = rate * math.exp(-found.above / mean_s), rate * math.exp(found.below / mean_s)
    return Estimate(
        rate,
        unit,
        f"{name}, t interval of a ratio over {int(found.independent)} independent groups of "
        f"{work.size} rows{method_suffix}",
        "measured",
        low=low,
        high=high,
        level=level,
        n=int(found.independent),
    )


def mean_error(log_cost: NDArray[np.float64], weight: NDArray[np.float64]) -> tuple[float, float]:
    """Relative standard error of the mean cost of rows [n >= 1] that count by `weight`, and its independent values.

    By the same groups and the same autocorrelation time as the interval of a rate. One independent value says nothing
    of an error: infinite, unless the rows are all equal.
    """
    cost = np.exp(np.clip(log_cost - float(np.median(log_cost)), -300, 300))
    weight = weight / weight.mean()
    mean = float((weight * cost).mean())
    done, spent = grouped(weight), grouped(weight * cost)
    excess = spent - done * mean
    tau = autocorrelation_time(excess)
    spread = float(excess.std()) / (mean * float(done.mean()))
    if tau >= excess.size:
        return (math.inf if spread > 0 else 0.0), 1.0
    return spread * math.sqrt(tau / excess.size / (1 - tau / excess.size)), excess.size / tau


def _rows(
    counts: ArrayLike, begin_ns: ArrayLike, end_ns: ArrayLike
) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.int64]]:
    work = np.asarray(counts, dtype=np.float64).ravel()
    begin, end = (np.asarray(times, dtype=np.int64).ravel() for times in (begin_ns, end_ns))
    if not work.size == begin.size == end.size:
        raise ValueError(f"rows need equal numbers: {work.size} counts, {begin.size} begins, {end.size} ends")
    if not (np.isfinite(work).all() and (work >= 0).all()):
        raise ValueError("work is counted in finite numbers from 0 up")
    if (end < begin).any():
        raise ValueError("a row ends before it begins")
    return work, begin, end
