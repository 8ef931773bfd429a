"""Rates over time, series whose quantiles are asked for, and trends of block means."""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from twinlens.record.estimate import Estimate
from twinlens.stats.estimator.dependence import (
    autocorrelation,
    autocorrelation_time,
    careful_time,
    means_of,
    slow_time,
    too_dependent,
)
from twinlens.stats.estimator.interval import (
    Clustering,
    Queue,
    clustering,
    grouped,
    independent_requests,
    reach_of_ratio,
)


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


def poisson_bounds(events: int, level: float) -> tuple[float, float]:
    """The exact interval of the mean of a Poisson count (Garwood 1936): 0 events at 0.9 are 0 to 3.00."""
    tail = (1 - level) / 2
    low = float(scipy.special.gammaincinv(events, tail)) if events else 0.0
    return low, float(scipy.special.gammaincinv(events + 1, 1 - tail))


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


# A series whose quantiles are asked for: its values by rank, and how they depend on each other.

_POINTS = 96
_DIGITS = 6
MOST_WAITING = 1 << 16
"""In more rows how slow ones cluster shows by itself, and requests in flight are not asked."""


class Series:
    """Values [n] in time order, and what their quantiles share: it is found once however many are taken.

    `together`: how many neighbours share one moment. `waiting`: the requests in flight when each was due, where they
    show how long a queue lasts. `lost`: how many of them stand for values that never came, above all others.
    Raises ValueError for values that are not finite.
    """

    def __init__(self, values: ArrayLike, together: int = 1, waiting: Queue | None = None, lost: int = 0) -> None:
        self.values, self.together, self.waiting, self.lost = _finite(values), together, waiting, lost

    @cached_property
    def moments(self) -> NDArray[np.float64]:
        """A mean for each moment."""
        return means_of(self.values, self.together)

    @cached_property
    def stretches(self) -> float:
        """How many stretches there are that do not resemble each other."""
        return self.values.size / careful_time(self.values)

    @cached_property
    def ordered(self) -> NDArray[np.float64]:
        """The values from the smallest."""
        return np.sort(self.values)

    @cached_property
    def sketch(self) -> tuple[tuple[int, ...], tuple[float, ...]]:
        """About a hundred of its values by rank, without those that never came."""
        return sketch(self.ordered[: self.values.size - self.lost], self.values.size)

    @cached_property
    def _clustering(self) -> Clustering:
        return clustering(self.values)

    def independent(self, value: float) -> float:
        """How many independent values a share of them at most `value` rests on, from 1 to n."""
        if self.waiting is not None:
            return independent_requests(self.values <= value, [self._clustering], self.waiting)
        slow = self.values >= value
        return self.values.size / max(careful_time(slow), slow_time(slow))

    @cached_property
    def too_dependent(self) -> tuple[str, str | None]:
        """As `dependence.too_dependent` says of its moments."""
        return too_dependent(self.moments)


def sketch(ranked: NDArray[np.float64], size: int) -> tuple[tuple[int, ...], tuple[float, ...]]:
    """Ranks and values of about a hundred of `ranked` [m <= size], which rise; those up to `size` never came.

    They lie evenly in the logit of the rank, so that both tails have as many points as the middle.
    """
    if not ranked.size:
        return (), ()
    end = math.log(size + 1)
    shares = 1 / (1 + np.exp(-np.linspace(-end, end, _POINTS)))
    ranks = np.unique(np.clip(np.rint(shares * size), 1, ranked.size)).astype(int)
    ranks = np.union1d(ranks, [1, ranked.size])
    values = [float(f"{value:.{_DIGITS}g}") for value in ranked[ranks - 1]]
    return tuple(ranks.tolist()), tuple(values)


def _finite(values: ArrayLike) -> NDArray[np.float64]:
    series = np.asarray(values, dtype=np.float64).ravel()
    if series.size and not (np.isfinite(series.min()) and np.isfinite(series.max())):
        raise ValueError("a quantile is taken of finite values; leave absent ones out and say how many")
    return series


# Slopes and cycles in a short series of block means.


def theil_sen(
    series: NDArray[np.float64], level: float, place: NDArray[np.float64] | None = None
) -> tuple[float, float, float]:
    """The median of all pairwise slopes of `series` [n >= 2] over `place` [n] (0, 1, … by default), with its interval.

    (slope, low, high); bounds are order statistics of the slopes from the normal law of Kendall's S (Sen
    1968).
    """
    n = series.size
    if n < 2:
        raise ValueError("a slope needs at least two points")
    first, second = np.triu_indices(n, 1)
    apart = second - first if place is None else place[second] - place[first]
    slopes = np.sort((series[second] - series[first]) / apart)
    spread = float(scipy.special.ndtri((1 + level) / 2)) * math.sqrt(n * (n - 1) * (2 * n + 5) / 18)
    low = max(0, math.floor((slopes.size - spread) / 2) - 1)
    high = min(slopes.size - 1, math.ceil((slopes.size + spread) / 2))
    return float(np.median(slopes)), float(slopes[low]), float(slopes[high])


def period(series: NDArray[np.float64], strength: float) -> tuple[int, float] | None:
    """The period of a cycle in `series` [n], in points, and its peak-to-peak size; None where there is none.

    A cycle is an autocorrelation peak at lag 2 … n/3 (three turns at least), above `strength` and above what
    noise of n points reaches (3/√n), that comes back at twice the lag, with a trough before it. A straight
    trend is taken out first.
    """
    n = series.size
    longest = n // 3
    if longest < 2:
        return None
    centred = _level(series)
    rho = _unshrunk(centred)
    threshold = max(strength, 3 / math.sqrt(n))
    for lag in range(2, longest + 1):
        peak = rho[lag] >= threshold and rho[lag] >= rho[lag - 1] and rho[lag] >= rho[lag + 1]
        again = max(rho[2 * lag - 1 : 2 * lag + 2]) >= threshold / 2
        if peak and again and rho[1:lag].min() <= -threshold / 2:
            return lag, 2 * math.sqrt(2 * float(centred.var() * min(rho[lag], 1.0)))
    return None


def first_return(series: NDArray[np.float64], lag: int) -> int:
    """The first lag at which `series` [n] repeats about as well as at `lag`, or `lag` itself.

    For a finer view of a series whose cycle was found in coarse points: a pattern shorter than these beats
    against them and shows up as a false, longer cycle.
    """
    rho = _unshrunk(_level(series))
    below = np.flatnonzero(rho[: lag + 1] < 0)
    first, last = int(below[0]) if below.size else lag, 3 * lag // 4
    near = rho[math.floor(0.85 * lag) : math.ceil(1.15 * lag) + 1].max()
    sooner = np.flatnonzero(rho[first : last + 1] >= 0.7 * near)
    if not sooner.size:
        return lag
    peak = first + int(sooner[0])
    while peak < last and rho[peak + 1] > rho[peak]:
        peak += 1
    return peak


def _level(series: NDArray[np.float64]) -> NDArray[np.float64]:
    """`series` less its straight line."""
    place = np.arange(series.size) - (series.size - 1) / 2
    centred = series - series.mean()
    return np.asarray(centred - place * float(place @ centred) / float(place @ place), dtype=np.float64)


def _unshrunk(series: NDArray[np.float64]) -> NDArray[np.float64]:
    """Autocorrelation per product, as lag k has only n - k of them: else slow cycles would seem weak."""
    return np.asarray(autocorrelation(series) * series.size / np.arange(series.size, 0, -1), dtype=np.float64)
