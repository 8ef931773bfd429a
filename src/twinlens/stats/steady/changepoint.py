"""Change points: where a series changes its mean or its spread."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

FEWEST_POINTS = 3  # a mean and a spread of two points fit them exactly, so pairs would always look like segments
# Variance added to every segment: changes of log duration far below 0.1 % are the clock's grain, not
# levels.
GRAIN = 1e-6
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


def leading_return(start: NDArray[np.float64], spread: float, delta: float, near: float) -> int:
    """The first row of `start` [n], the log times of a warm-up less the level it ends at, that was at the level before
    others left it again; n where a warm-up only ever came nearer.

    Both by means of three rows: within `delta` or three standard errors of the level, beyond `near` and six of them.
    """
    n, few = start.size, FEWEST_POINTS
    if n < 2 * few:
        return n
    means = np.convolve(start, np.full(few, 1 / few), "valid")
    error = spread / np.sqrt(few)
    at, left = np.abs(means) <= max(delta, 3 * error), means > max(near, 6 * error)
    if not left.any() or not at.any():
        return n
    first = int(at.argmax())
    return first if left[first + 1 :].any() else n
