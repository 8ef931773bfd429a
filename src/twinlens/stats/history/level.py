"""Two levels of a history: how far they are apart, where neighbours may resemble each other."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from twinlens.record.estimate import Estimate
from twinlens.stats.estimator.interval import t_quantile
from twinlens.units import RATIO

Floats = NDArray[np.float64]
_METHOD = "difference of two levels, widened for the correlation of neighbours"


def ratio_of_levels(before: Floats, after: Floats, *, level: float = 0.95) -> Estimate:
    """Mean of `after` [m] over mean of `before` [n]; its interval is that of the difference of mean logarithms."""
    if min(before.min(), after.min()) <= 0:
        return Estimate.absent(RATIO, "a ratio needs values above 0; see the difference")
    value = float(after.mean() / before.mean())
    half = _half(np.log(before), np.log(after), level)
    middle = float(np.log(after).mean() - np.log(before).mean())
    low, high = min(math.exp(middle - half), value), max(math.exp(middle + half), value)
    return Estimate(
        value, RATIO, f"ratio: {_METHOD}", "derived", low=low, high=high, level=level, n=_count(before, after)
    )


def difference_of_levels(before: Floats, after: Floats, unit: str, *, level: float = 0.95) -> Estimate:
    """Mean of `after` [m] less mean of `before` [n]."""
    value, half = float(after.mean() - before.mean()), _half(before, after, level)
    return Estimate(
        value, unit, _METHOD, "derived", low=value - half, high=value + half, level=level, n=_count(before, after)
    )


def _half(before: Floats, after: Floats, level: float) -> float:
    """Half the width of the interval of the difference of means: one spread for both levels, its correlation in it."""
    left = [each - each.mean() for each in (before, after)]
    freedom = before.size + after.size - 2
    power = sum(float((each**2).sum()) for each in left)
    if power == 0 or freedom < 1:
        return 0.0
    lag = sum(float((each[1:] * each[:-1]).sum()) for each in left) / power
    lag = min(max(lag + (1 + 3 * max(lag, 0.0)) * 2 / (freedom + 2), 0.0), 0.95)  # two means were taken off
    wider = (1 + lag) / (1 - lag)
    spread = power / freedom * (1 / before.size + 1 / after.size)
    return t_quantile(level, max(1.0, freedom / wider)) * math.sqrt(spread * wider)


def _count(before: Floats, after: Floats) -> int:
    return int(before.size + after.size)
