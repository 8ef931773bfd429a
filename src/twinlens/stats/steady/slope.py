"""The slope of row times over a window, and the smallest change that it would have shown."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from twinlens.record.estimate import Estimate
from twinlens.stats.estimator.rate import mean_error
from twinlens.stats.estimator.trend import theil_sen
from twinlens.stats.steady.levels import (
    group_edges,
    group_means,
)
from twinlens.stats.steady.rule import SteadyRule
from twinlens.units import RATIO

_UNKNOWN = 1e6  # a relative error that says nothing; JSON has no infinity
_POWER_ERRORS = 0.84  # standard errors by which a change must be larger than the test's bound to be seen in 4 of 5 runs


@dataclass(frozen=True, slots=True)
class Trend:
    """The level of a window and its change from the first row to the last, in logarithms of time per work.

    Each with its standard error, so that runs of one point can be judged together; `change_error` is None where no
    slope could be tested. `delta`: what counts as one level; `most_hidden`: the largest change that may hide in a valid
    run. `short`: by how many times the window was shorter than the protocol asks, 1 where it was not. `later`: of its
    second half over its first, from the level on that a slowdown left; None where it was not compared.
    """

    level: float
    level_error: float
    change: float | None
    change_error: float | None
    delta: float
    most_hidden: float
    short: float = 1.0
    later: float | None = None
    later_error: float | None = None


@dataclass(frozen=True, slots=True)
class Trace:
    """Rows after the start: their times, log times and weights, calm log times, and means of these between `edges`."""

    time_s: NDArray[np.float64]
    log_time: NDArray[np.float64]
    weight: NDArray[np.float64]
    calm: NDArray[np.float64]
    edges: NDArray[np.int64]
    points: NDArray[np.float64]
    block: int
    skipped: int

    def row(self, point: int) -> int:
        return int(self.edges[point])


def least_visible_change(slope: Estimate, delta: float) -> float | None:
    """The smallest relative change from the first row of a window to its last that four in five such runs would have
    shown, from the interval of its slope; None without one. A step half way is seen alike, a later one must be larger.
    """
    if slope.low is None or slope.high is None or slope.level is None:
        return None
    errors = float(ndtri((1 + slope.level) / 2))
    return max(delta, (slope.high - slope.low) / 2 * (errors + _POWER_ERRORS) / errors)


def trend_of(
    log_time: NDArray[np.float64],
    weight: NDArray[np.float64],
    slope: Estimate,
    later: tuple[float, float] | tuple[None, None],
    rule: SteadyRule,
    short: float,
) -> Trend:
    """The trend of the rows of a window: logs of time per work [n], how much each counts [n], the tested slope, and the
    change of its halves."""
    highest = float(log_time.max())
    mean = float((weight * np.exp(log_time - highest)).sum() / weight.sum())
    error, _ = mean_error(log_time, weight)
    level, level_error = float(np.log(mean)) + highest, min(error, _UNKNOWN)
    if slope.value is None or slope.low is None or slope.high is None or slope.level is None:
        return Trend(level, level_error, None, None, rule.delta, rule.most_hidden, short, *later)
    low, value, high = (max(-700.0, float(np.log1p(bound))) for bound in (slope.low, slope.value, slope.high))
    change_error = (high - low) / 2 / float(ndtri((1 + slope.level) / 2))
    return Trend(level, level_error, value, change_error, rule.delta, rule.most_hidden, short, *later)


def visible(change_error: float, delta: float, level: float) -> float:
    """The smallest relative change that four in five tests at `level` show, from the standard error of log change."""
    errors = float(ndtri((1 + level) / 2)) + _POWER_ERRORS
    return max(delta, float(np.expm1(min(errors * change_error, 700.0))))


def slope_from(trace: Trace, row: int, rule: SteadyRule, away: NDArray[np.bool_] | None = None) -> Estimate:
    """Relative change of row time from `row` to the end, from block means of the rows at the level."""
    rows = np.arange(trace.calm.size - row) if away is None else np.flatnonzero(~away)
    blocks = min(rule.trend_blocks, rows.size // trace.block)
    if blocks < 4:
        return Estimate.absent(RATIO, f"a slope needs 4 independent blocks, there are {blocks}")
    edges = group_edges(rows.size, blocks)
    means, places = group_means(trace.calm[row:][rows], edges), group_means(rows.astype(float), edges)
    value, low, high = (
        float(np.expm1(np.clip(slope * (trace.calm.size - row), -700, 700)))
        for slope in theil_sen(means, rule.trend_level, places)
    )
    method = f"Theil-Sen slope over {blocks} block means, times the window"
    return Estimate(value, RATIO, method, "derived", low=low, high=high, level=rule.trend_level, n=blocks)


def later_half(trace: Trace, row: int) -> tuple[float, float] | tuple[None, None]:
    """The change of log time from the first half of the points from `row` on to the second, and its standard error.

    Twice that of the mean, by the points less their halves' means, so that the change is no part of its own error. None
    for under four points.
    """
    points = trace.points[np.searchsorted(trace.edges[:-1], row) :]
    if points.size < 4:
        return None, None
    halves = np.array_split(points, 2)
    before, after = (float(half.mean()) for half in halves)
    error, _ = mean_error(points - np.repeat((before, after), [half.size for half in halves]), np.ones(points.size))
    return after - before, min(2 * error, _UNKNOWN)


def moves(slope: Estimate, delta: float) -> bool:
    if slope.value is None or slope.low is None or slope.high is None:
        return False
    return abs(slope.value) > delta and not slope.low <= 0 <= slope.high
