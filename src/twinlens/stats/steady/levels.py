"""The levels a series of rows goes through, and which of them belong to the last one."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from twinlens.stats.steady.changepoint import GRAIN, partition, segment_cost


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
