"""Change points: where a series changes its mean or its spread."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

FEWEST_POINTS = 3  # a mean and a spread of two points fit them exactly, so pairs would always look like segments
# Variance added to every segment: changes of log duration far below 0.1 % are the clock's grain, not
# levels.
GRAIN = 1e-6
_CLEAR_ERRORS = 4.0
_FENCE_DEVIATIONS = 11.4  # 3 · (P90 - P10) of normal values in median absolute deviations


def partition(series: NDArray[np.float64], penalty: float, fewest: int = FEWEST_POINTS) -> tuple[int, ...]:
    """Ends of the segments of `series` [n], the last being n: least Σ length · ln variance + penalty each.

    The normal cost with changing mean and variance of Killick, Fearnhead & Eckley 2012, whose PELT finds
    this same optimum. Here it is the plain dynamic programme over prefix sums: for the few hundred points
    it is asked about, one vectorised row per point is some hundred times faster than pruning in Python.
    O(n²) time, O(n) memory.
    """
    n = series.size
    if n < 2 * fewest:
        return (n,)
    centred = series - series.mean()
    sums = np.concatenate(([0.0], np.cumsum(centred)))
    squares = np.concatenate(([0.0], np.cumsum(centred**2)))
    best = np.full(n + 1, np.inf)
    best[0] = -penalty
    previous = np.zeros(n + 1, dtype=np.int64)
    for end in range(fewest, n + 1):
        start = np.arange(end - fewest + 1)
        length = end - start
        mean = (sums[end] - sums[start]) / length
        variance = np.maximum((squares[end] - squares[start]) / length - mean**2, 0.0)
        cost = best[start] + length * np.log(variance + GRAIN) + penalty
        previous[end] = int(cost.argmin())
        best[end] = cost[previous[end]]
    ends = [n]
    while previous[ends[-1]] > 0:
        ends.append(int(previous[ends[-1]]))
    return tuple(reversed(ends))


def segment_cost(series: NDArray[np.float64]) -> float:
    """Length · ln variance of one segment [n]: twice its negative log likelihood, but for a constant."""
    return float(series.size * np.log(series.var() + GRAIN))


def winsorised(series: NDArray[np.float64]) -> NDArray[np.float64]:
    """`series` [n] with outliers brought to the edge of a rolling Tukey fence, median ± 3 · (P90 - P10).

    Only for finding segments: a stall is not a level, yet must stay in every rate. The window is 50 rows
    for short series and 200 for long, or enough to keep 500 of them (Barrett et al. 2017).
    """
    n = series.size
    window = min(n, 50 if n < 400 else max(200, n // 500))
    full = n // window
    chunks = series[: full * window].reshape(full, window)
    low, high = _fence(chunks)
    inside = np.clip(chunks, low[:, None], high[:, None]).ravel()
    if full * window == n:
        return inside
    low, high = _fence(series[None, n - window :])
    return np.concatenate((inside, np.clip(series[full * window :], low[0], high[0])))


def _fence(chunks: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    window = chunks.shape[1]
    ranks = [round(share * (window - 1)) for share in (0.1, 0.5, 0.9)]
    ordered = np.partition(chunks, sorted(set(ranks)), axis=1)
    p10, median, p90 = (ordered[:, rank] for rank in ranks)
    return median - 3 * (p90 - p10), median + 3 * (p90 - p10)


def leading_outliers(series: NDArray[np.float64], delta: float) -> int:
    """How many rows at the very start of `series` [n] lie far above the median of the first window (and by `delta`).

    The first step of a run is often many times the rest. Between other rows an outlier is a stall and
    belongs to the run; at the start it is the warm-up, and too short for a change point to find. Far is what the
    fence of `winsorised` is for normal rows, here from the median deviation, which the start itself does not raise.
    Rows below are no warm-up: they may be the level itself, before a disturbance that fills the window.
    """
    if series.size == 0:
        return 0
    first = series[: 50 if series.size < 400 else 200]
    above = first - np.median(first)
    outside = above > max(_FENCE_DEVIATIONS * float(np.median(np.abs(above))), float(np.log1p(delta)))
    return int(outside.argmin())


def leading_return(start: NDArray[np.float64], spread: float, delta: float, near: float) -> tuple[int, int] | None:
    """The first row of `start` [n] at the level, and the first after it that had left it; None where none did.

    `start`: log times of what looks like a warm-up, less the level it ends at; `spread`: of the level's own rows. A
    warm-up only ever comes nearer. A run that began at its level, for one row or many, or that was at it for three
    rows on end, and got slower after that, has reached it: what follows is a disturbance.
    """
    return _begun_at_level(start, spread, delta, near) or _passed_the_level(start, spread, delta, near)


def _begun_at_level(start: NDArray[np.float64], spread: float, delta: float, near: float) -> tuple[int, int] | None:
    """The first rows of `start` [n] are at the level, and the rest is slower, by its mean and its median.

    Where two means part best, or after 1, 2, 3, 5, 8 … rows: the first within `delta` or three standard errors of the
    level, and below the rest by more than `near` and four, which a warm-up of one level shows in one run of 30,000.
    """
    for few in _splits(start, max(near, 8 * spread)):
        rest = start[few:]
        begun, slower = float(start[:few].mean()), min(float(rest.mean()), float(np.median(rest)))
        clear = _CLEAR_ERRORS * spread * np.sqrt(1 / few + 1 / rest.size)
        if begun <= max(delta, 3 * spread / np.sqrt(few)) and slower - max(begun, 0.0) > max(near, clear):
            return 0, few
    return None


def _splits(start: NDArray[np.float64], most: float) -> list[int]:
    """Places to part `start` [n] at: after few rows, and where two means explain it best, giants cut at `most`."""
    n, few = start.size, [1, 2]
    if n < 2:
        return []
    calm = np.minimum(start, most)
    split = np.arange(1, n)
    between = np.cumsum(calm - calm.mean())[:-1] ** 2 / (split * (n - split))
    while few[-1] + few[-2] < n // 2:
        few.append(few[-1] + few[-2])
    return [int(between.argmax()) + 1, *(one for one in few if one < n)]


def _passed_the_level(start: NDArray[np.float64], spread: float, delta: float, near: float) -> tuple[int, int] | None:
    """Three rows on end of `start` [n] are at the level, and three later ones are slower.

    Means of three rows: within `delta` or three standard errors of the level, and later ones beyond `near` and six, and
    further from the first than so many means of one level are by chance.
    """
    few = FEWEST_POINTS
    if start.size < 2 * few:
        return None
    means = np.convolve(start, np.full(few, 1 / few), "valid")
    error = spread / np.sqrt(few)
    at = np.abs(means) <= max(delta, 3 * error)
    first = int(at.argmax())
    by_chance = (2 * np.sqrt(2 * np.log(means.size)) + 1.5) * error
    left = means[first + 1 :] > max(near, 6 * error, means[first] + by_chance)
    return (first, first + 1 + int(left.argmax())) if at.any() and left.any() else None
