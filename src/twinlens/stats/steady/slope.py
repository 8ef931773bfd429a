"""The slope of row times over a window, and the smallest change that it would have shown."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from twinlens.record.estimate import Estimate
from twinlens.stats.estimator.trend import theil_sen
from twinlens.stats.steady.levels import (
    group_edges,
    group_means,
)
from twinlens.stats.steady.rule import SteadyRule
from twinlens.units import RATIO

_POWER_ERRORS = 0.84  # standard errors by which a change must be larger than the test's bound to be seen in 4 of 5 runs


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


def moves(slope: Estimate, delta: float) -> bool:
    if slope.value is None or slope.low is None or slope.high is None:
        return False
    return abs(slope.value) > delta and not slope.low <= 0 <= slope.high
