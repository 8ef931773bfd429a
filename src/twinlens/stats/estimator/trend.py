"""Slopes and cycles in a short series of block means."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from twinlens.stats.estimator.autocorrelation import autocorrelation


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
    spread = float(ndtri((1 + level) / 2)) * math.sqrt(n * (n - 1) * (2 * n + 5) / 18)
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
