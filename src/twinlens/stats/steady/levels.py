"""Levels of a trace: the rule of steadiness, change points, and the levels between them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Level:
    """Points `begin` … `end` of a series, which share a mean and a spread."""

    begin: int
    end: int
    mean: float

    @property
    def size(self) -> int:
        return self.end - self.begin


Same = Callable[[Level, Level], bool]
"""Whether two levels are one, as `differ` has it."""


def block_rows(series: NDArray[np.float64], points: int, fewest_blocks: int) -> int:
    """Rows per block: few enough blocks to segment (`points`), each twice the autocorrelation time long where
    rows resemble their neighbours, but at least `fewest_blocks` of them.

    Correlation is read from differences, φ = D2/D1 - 1 with D_k the mean squared difference at lag k, which
    slow trends leave alone and, with large differences clipped, so do changes of level; the plain
    autocorrelation would take every warm-up for memory.
    """
    n = series.size
    rows = math.ceil(n / points)
    if n < 4:
        return rows
    one, two = ((series[lag:] - series[:-lag]) ** 2 for lag in (1, 2))
    most = 10 * float(np.median(two))
    step = float(np.minimum(one, most).mean())
    phi = min(float(np.minimum(two, most).mean()) / step - 1, 0.9) if step > 0 else 0.0
    # φ of independent rows scatters by about 1/√n; only what stands clear of that is memory.
    if phi > 0.2 + 2 / math.sqrt(n):
        rows = max(rows, min(math.ceil(2 * (1 + phi) / (1 - phi)), n // fewest_blocks))
    return max(1, rows)


def group_edges(n: int, groups: int) -> NDArray[np.int64]:
    """Edges [groups + 1] of contiguous groups of n rows whose sizes differ by one at most."""
    return np.arange(groups + 1, dtype=np.int64) * n // groups


def group_means(series: NDArray[np.float64], edges: NDArray[np.int64]) -> NDArray[np.float64]:
    """Means [groups] of `series` between neighbouring edges."""
    return np.asarray(np.add.reduceat(series, edges[:-1]) / np.diff(edges), dtype=np.float64)


def find_levels(points: NDArray[np.float64], penalty: float) -> tuple[Level, ...]:
    """The levels of `points` [n], from first to last, at `penalty` · ln n for each change."""
    ends = partition(points, penalty * math.log(max(2, points.size)))
    begins = (0, *ends[:-1])
    return tuple(Level(b, e, float(points[b:e].mean())) for b, e in zip(begins, ends, strict=True))


def noise(points: NDArray[np.float64], levels: tuple[Level, ...]) -> float:
    """The standard deviation of points within the longest level, the one whose spread is best known."""
    longest = max(levels, key=lambda level: level.size)
    return float(points[longest.begin : longest.end].std(ddof=1)) if longest.size > 1 else 0.0


def differ(a: Level, b: Level, spread: float, delta: float, errors: float) -> bool:
    """Whether two levels of log time differ by more than `delta` and more than `errors` standard errors.

    The spread is that of the longest level: a warm-up's own disorder must not excuse it.
    """
    allowed = errors * spread * math.sqrt(1 / a.size + 1 / b.size)
    return abs(a.mean - b.mean) > max(math.log1p(delta), allowed)


def first_of_last(levels: tuple[Level, ...], same: Same, transient: int) -> int:
    """The index of the level where the last one began: walking back while levels agree with the last.

    A passing disturbance of at most `transient` points is crossed when the level before it agrees again.
    """
    last, at = levels[-1], len(levels) - 1
    for before in range(len(levels) - 2, -1, -1):
        if levels[at].begin - levels[before].end > transient:
            break
        if same(levels[before], last):
            at = before
    return at


def settled_level(levels: tuple[Level, ...], same: Same, least: float, transient: int) -> Level | None:
    """The level a run settled at: that it ends with, if for `least` points on end, else the fastest of those that it
    was at for so many points in all. None where there is none.
    """
    if levels[-1].end - levels[first_of_last(levels, same, transient)].begin >= least:
        return levels[-1]
    lasting = [one for one in levels if sum(other.size for other in levels if same(other, one)) >= least]
    return min(lasting, key=lambda level: level.mean, default=None)


def first_reached(levels: tuple[Level, ...], home: Level, same: Same, transient: int, near: float) -> int:
    """The index of the level at which the settled level `home` was first reached: what is before is warm-up.

    A stretch that was faster for more than `transient` points has reached it too, and so has one slower by at most
    `near` (in log time) after which things became worse again: else a disturbance between two levels that differ
    a little would count as warm-up. So has the level that the run comes back to at its end.
    """
    first = next(at for at, level in enumerate(levels) if same(level, home) or same(level, levels[-1]))
    for at, level in enumerate(levels[:first]):
        if level.mean < home.mean and level.size > transient:
            later = range(at + 1, first + 1)
            return next(i for i in later if i == first or levels[i].mean >= home.mean or levels[i].size <= transient)
        worse = any(later.mean > level.mean + near for later in levels[at + 1 : first])
        if abs(level.mean - home.mean) <= near and worse:
            return at
    return first


def best_step(points: NDArray[np.float64]) -> int | None:
    """Where one step explains `points` [n] better than a straight line does; None where it does not.

    One spread on both sides: change points with a spread each need more evidence than a small step has.
    """
    n = points.size
    if n < 4:
        return None
    split = np.arange(2, n - 1)
    centred = points - points.mean()
    before = np.cumsum(centred)[split - 1]
    between = before**2 / split + before**2 / (n - split)
    at = int(between.argmax())
    step = n * np.log(max(float(points.var() - between[at] / n), 0.0) + GRAIN)
    # A step spends two means, a spread and a place; a line two numbers and a spread.
    return int(split[at]) if step + 4 * math.log(n) < _line_cost(points) + 3 * math.log(n) else None


def is_line(points: NDArray[np.float64], levels: tuple[Level, ...], delta: float) -> bool:
    """Whether a straight line explains `points` better than `levels` do, and moves beyond `delta`.

    Change points cut a drift into stairs. By Bayesian information: a line spends 3 numbers, k levels 3k - 1.
    """
    part = points[levels[0].begin : levels[-1].end]
    if part.size < 4 or len(levels) < 2:
        return False
    moved = abs(_slope(part)) * part.size > math.log1p(delta)
    stairs = sum(segment_cost(points[level.begin : level.end]) for level in levels)
    spent = (3 * len(levels) - 1 - 3) * math.log(part.size)
    return moved and _line_cost(part) < stairs + spent


def _slope(points: NDArray[np.float64]) -> float:
    place = np.arange(points.size) - (points.size - 1) / 2
    return float(place @ points) / float(place @ place)


def _line_cost(points: NDArray[np.float64]) -> float:
    return segment_cost(points - _slope(points) * np.arange(points.size))


# Change points: where a series changes its mean or its spread.

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


# The numbers of the test for steadiness, each with its reason.


@dataclass(frozen=True, slots=True)
class SteadyRule:
    """Limits of steadiness. Every default has its reason beside it."""

    delta: float = 0.01  # levels within 1 % are one level: below that, no one buys or tunes differently
    errors: float = 3.0  # ... nor are they two unless three standard errors apart, on noisy machines
    min_rows: int = 20  # fewer cannot show a change of level against noise
    min_seconds: float = 0.0  # the protocol's to raise: 60 s where clocks and heat must settle
    min_fraction: float = 1 / 3  # a last level shorter than this says how the run ended, not how it ran
    near: float = 0.05  # what is this close to the level may have reached it, and is no disturbance of a single row
    most_error: float = 0.05  # a mean known no better than that is not what a machine keeps up
    most_hidden: float = 0.10  # "one level" is no finding where a tenth more or less would not have shown
    penalty: float = 15.0  # times ln n for a change point (Barrett et al. 2017)
    points: int = 400  # the search is quadratic in points; more show no more levels
    transient_fraction: float = 0.05  # a disturbance this short is crossed, an earlier level ignored
    trend_blocks: int = 20  # enough for a slope, few enough that blocks are nearly independent
    trend_level: float = 0.99  # one steady run in a hundred may be called drifting
    cycle_strength: float = 0.4  # autocorrelation of a cycle with as much power as the noise is 0.5
    window_rows: int = 10  # a window's rate should not be one row's
    max_windows: int = 60  # twenty turns of three windows


def window_count(rows: int, rule: SteadyRule) -> int:
    """Windows a trace of `rows` is cut into, at least one."""
    return max(1, min(rule.max_windows, rows // rule.window_rows))
