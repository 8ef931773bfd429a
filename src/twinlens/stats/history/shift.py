"""Shifts: where a short series of runs over time changes its level.

Circular binary segmentation (Olshen et al. 2004, "Circular binary segmentation for the analysis of array-based DNA copy
number data"): a segment is asked for the stretch whose mean differs most from the rest, on normal scores of ranks, so
that one odd night is one value among many. Whether that is more than chance is read off simulated series of the same
length, with the same correlation of neighbours (`null.py`). Each part is then asked again.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri
from scipy.stats import rankdata

from twinlens.stats.history.null import FEWEST_LEVEL, best_stretch, chance_of

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
