"""Intervals of provisional figures: widened by what a change that could hide would do to them."""

from __future__ import annotations

from dataclasses import replace

from twinlens.record.estimate import Estimate
from twinlens.stats.estimator.interval import t_quantile

_SHARE = 0.7  # of a change that could hide, by which the mean of a run may be off from the level after it


def widened(estimate: Estimate, *changes: float | None) -> Estimate:
    """The estimate with bounds that hold the level kept up after a change, as large as any that could hide in it.

    A change of x along a run, or half way, leaves its mean off by half of x; one after four fifths of it by four
    fifths. 0.7 of x holds that one in 93 to 97 %, and all earlier ones in more. So each bound is further out by a
    factor of 1 + 0.7x, from where it would be were the other side sure (Imbens & Manski 2004), and nowhere nearer than
    it was. None passes 0; an estimate without bounds stays as it is. Coverage: docs/results/coverage-labels.md.
    """
    factor, hidden = 1.0, 1.0
    for change in changes:
        factor, hidden = factor * (1 + _SHARE * (change or 0.0)), hidden * (1 + (change or 0.0))
    value, low, high = estimate.value, estimate.low, estimate.high
    if factor == 1 or value is None or low is None or high is None:
        return estimate
    part = _one_sided(estimate)
    if low > 0:  # as a factor, so that the inverse of a ratio has the inverse bounds
        near_low, near_high = value * (low / value) ** part, value * (high / value) ** part
    else:
        near_low, near_high = value - part * (value - low), value + part * (high - value)
    low = min(low, near_low / factor if near_low > 0 else near_low * factor)
    high = max(high, near_high * factor if near_high > 0 else near_high / factor)
    method = f"{estimate.method}, widened by what a change of {100 * (hidden - 1):.2g} % that could hide would do"
    return replace(estimate, low=low, high=high, method=method, hidden=hidden - 1)


def reach_of(*sides: Estimate) -> float:
    """How far a difference of estimates may be moved by the changes that could hide in them, in their unit."""
    return sum(_SHARE * (side.hidden or 0.0) * abs(side.value or 0.0) for side in sides)


def widened_difference(difference: Estimate, *sides: Estimate) -> Estimate:
    """The difference of estimates with bounds further out by as much as a change that could hide may move each."""
    reach = reach_of(*sides)
    if not reach or difference.low is None or difference.high is None:
        return difference
    method = f"{difference.method}, widened by what changes that could hide would do"
    return replace(difference, low=difference.low - reach, high=difference.high + reach, method=method)


def _one_sided(estimate: Estimate) -> float:
    """How far a bound that may be missed to one side alone is from the value, as a share of the two-sided distance."""
    if estimate.level is None:  # a range of two runs
        return 1.0
    freedom = max(1, (estimate.n or 2) - 1)
    return t_quantile(2 * estimate.level - 1, freedom) / t_quantile(estimate.level, freedom)
