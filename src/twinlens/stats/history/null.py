"""Series without a change: how far a stretch of them stands out by chance, by length and correlation of neighbours."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.signal import lfilter
from scipy.special import ndtri

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
