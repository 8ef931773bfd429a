"""Changes in a history: levels of a short series whose neighbours may resemble each other.

Circular binary segmentation (Olshen et al. 2004, "Circular binary segmentation for the analysis of array-based DNA copy
number data"): a segment is asked for the stretch whose mean differs most from the rest, on normal scores of ranks, so
that one odd night is one value among many. Whether that is more than chance is read off simulated series of the same
length, with the same correlation of neighbours (`null.py`). Each part is then asked again.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.signal import lfilter
from scipy.special import ndtri
from scipy.stats import rankdata

from twinlens.record.estimate import Estimate
from twinlens.units import RATIO

FEWEST_ENTRIES = 10
"""Of fewer, no stretch differs by more than chance might make it."""
LEVEL = 0.025
"""Of the test of each segment. The share of histories without a change in which one is found is in coverage-history.md;
it is above this where neighbours resemble each other, and below 5 %."""
_MOST_DEPTH = 8
_AS_LIKELY = 5.0  # of n · ln of residual squares: 95 % of places of a clear shift, by the simulation of the tests


@dataclass(frozen=True, slots=True)
class Shift:
    """The level changes before row `at`; by the rows alone, anywhere from `earliest` to `latest`. `chance`: how often
    series without a change have a stretch that stands out as much."""

    at: int
    earliest: int
    latest: int
    chance: float


def shifts(values: ArrayLike, level: float = LEVEL) -> tuple[Shift, ...]:
    """The shifts of a series [n], in order of time. None of fewer than `FEWEST_ENTRIES` values."""
    series = np.asarray(values, dtype=np.float64).ravel()
    found = dict(_found(series, 0, level, 0))
    places = [0, *sorted(found), series.size]
    kept = []
    for before, at, after in zip(places, places[1:], places[2:], strict=False):
        earliest, latest = _as_likely(series[before:after], at - before)
        kept.append(Shift(at, before + earliest, before + latest, found[at]))
    return tuple(kept)


def _found(series: NDArray[np.float64], first: int, level: float, depth: int) -> list[tuple[int, float]]:
    if series.size < FEWEST_ENTRIES or depth > _MOST_DEPTH or np.ptp(series) == 0:
        return []
    scores = _scores(series)
    stretch = best_stretch(scores[None, :])
    begin, end = int(stretch.begin[0]), int(stretch.end[0])
    chance = chance_of(float(stretch.size[0]), float(stretch.lag[0]), series.size)
    if chance > level:
        return []
    edges = [edge for edge in (begin, end) if 0 < edge < series.size]
    found = [(first + edge, chance) for edge in edges]
    for start, stop in zip([0, *edges], [*edges, series.size], strict=True):
        found += _found(series[start:stop], first + start, level, depth + 1)
    return found


def _scores(series: NDArray[np.float64]) -> NDArray[np.float64]:
    """Normal scores of ranks (Blom), of mean 0 and variance 1."""
    scores = ndtri((rankdata(series) - 0.375) / (series.size + 0.25))
    scores -= scores.mean()
    return np.asarray(scores / scores.std(), dtype=np.float64)


def _as_likely(series: NDArray[np.float64], at: int) -> tuple[int, int]:
    """The first and the last place of one shift in `series` [n] that explain it nearly as well as `at`."""
    n = series.size
    if n < 2 * FEWEST_LEVEL:
        return at, at
    places = np.arange(1, n)
    sums, squares = np.cumsum(series - series.mean()), float(((series - series.mean()) ** 2).sum())
    left = squares - sums[:-1] ** 2 * n / (places * (n - places))
    least = max(float(left[at - 1]), 1e-12 * squares)
    likely = places[n * np.log(np.maximum(left, least) / least) <= _AS_LIKELY]
    near = likely[(likely >= at) | (likely <= at)]
    return int(min(near.min(), at)), int(max(near.max(), at))


# Series without a change: how far a stretch of them stands out by chance, by length and correlation of neighbours.

FEWEST_LEVEL = 3
"""Entries of a level: fewer are odd nights."""
_MOST_EDGES = 80
_SERIES = 600
_CORRELATIONS = (0.0, 0.15, 0.3, 0.45, 0.6, 0.75, 0.9)
_CAREFUL = 0.3
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Stretch:
    """Of each series [s]: the stretch from `begin` to before `end` whose mean differs most from the rest, by how many
    standard errors (`size`), and the correlation of neighbours once that stretch is brought to the level (`lag`)."""

    begin: NDArray[np.int64]
    end: NDArray[np.int64]
    size: Floats
    lag: Floats


def best_stretch(series: Floats) -> Stretch:
    """The stretch of each series [s, n] of mean 0. Long series are asked at eighty places only."""
    count, n = series.shape
    sums = np.concatenate((np.zeros((count, 1)), np.cumsum(series, axis=1)), axis=1)
    begin, end = _places(n)
    length = end - begin
    apart = np.abs(sums[:, end] - sums[:, begin]) / np.sqrt(length * (n - length) / n)
    best = apart.argmax(axis=1)
    rows = np.arange(count)
    begins, ends = begin[best], end[best]
    within = (np.arange(n) >= begins[:, None]) & (np.arange(n) < ends[:, None])
    inside = (sums[rows, ends] - sums[rows, begins]) / (ends - begins)
    outside = -(sums[rows, ends] - sums[rows, begins]) / (n - ends + begins)
    left = series - np.where(within, inside[:, None], outside[:, None])
    power = np.maximum((left**2).sum(axis=1), 1e-12)
    return Stretch(begins, ends, apart[rows, best], (left[:, 1:] * left[:, :-1]).sum(axis=1) / power)


def chance_of(size: float, lag: float, n: int) -> float:
    """The share of series without a change [n], correlated like this one, whose best stretch is as large.

    The correlation seen is what such series show on the mean, raised by its standard error: a series that looks calm by
    luck is the one in which a stretch stands out.
    """
    sizes, lags = _simulated(n)
    seen = lag + _CAREFUL / np.sqrt(n)
    correlation = float(np.interp(seen, np.maximum.accumulate(lags), _CORRELATIONS))
    shares = [(1 + float((each >= size).sum())) / (1 + each.size) for each in sizes]
    return float(np.interp(correlation, _CORRELATIONS, shares))


@lru_cache(maxsize=64)
def _places(n: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Begin and end of every stretch; it and what is left on either side have `FEWEST_LEVEL` entries or none."""
    edges = np.unique(np.linspace(0, n, min(n, _MOST_EDGES) + 1).astype(np.int64))
    begin, end = (each.ravel() for each in np.meshgrid(edges, edges, indexing="ij"))
    long, rest = end - begin >= FEWEST_LEVEL, n - end + begin >= FEWEST_LEVEL
    kept = long & rest & ((begin == 0) | (begin >= FEWEST_LEVEL)) & ((end == n) | (n - end >= FEWEST_LEVEL))
    return begin[kept], end[kept]


@lru_cache(maxsize=64)
def _simulated(n: int) -> tuple[tuple[Floats, ...], Floats]:
    """For each of `_CORRELATIONS`: the sizes [s] of the best stretches of series without a change, and the mean lag."""
    scores = ndtri((np.arange(1, n + 1) - 0.375) / (n + 0.25))
    scores /= scores.std()
    sizes, lags = [], []
    for correlation in _CORRELATIONS:
        drawn = np.random.default_rng(0).standard_normal((_SERIES, n + 50))
        series = lfilter([1.0], [1.0, -correlation], drawn, axis=1)[:, 50:]
        parts = [best_stretch(scores[each.argsort(axis=1).argsort(axis=1)]) for each in np.array_split(series, 12)]
        sizes.append(np.concatenate([part.size for part in parts]))
        lags.append(float(np.mean(np.concatenate([part.lag for part in parts]))))
    return tuple(sizes), np.asarray(lags)


# Two levels of a history: how far they are apart. No interval: the place was chosen where they differ most.

_WHY_NOT = "the place was chosen where the levels differ most, so that they seem further apart than they are"


def ratio_of_levels(before: Floats, after: Floats) -> Estimate:
    """Mean of `after` [m] over mean of `before` [n].

    A t interval of it, widened for the correlation of neighbours, held the truth in 71 to 90 % at a correlation of 0.3.
    """
    if min(before.min(), after.min()) <= 0:
        return Estimate.absent(RATIO, "a ratio needs values above 0; see the difference")
    return _without_interval(float(after.mean() / before.mean()), RATIO, "ratio of two levels", before, after)


def difference_of_levels(before: Floats, after: Floats, unit: str) -> Estimate:
    """Mean of `after` [m] less mean of `before` [n]."""
    return _without_interval(float(after.mean() - before.mean()), unit, "difference of two levels", before, after)


def _without_interval(value: float, unit: str, method: str, before: Floats, after: Floats) -> Estimate:
    return Estimate(value, unit, method, "derived", n=int(before.size + after.size), no_interval=_WHY_NOT)
