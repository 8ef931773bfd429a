"""Peak and sustained rates, kept apart, and how much of the one the other retains."""

from __future__ import annotations

import numpy as np

from twinlens.record.estimate import Estimate
from twinlens.stats.estimator.shuffled import FEWEST_WINDOWS
from twinlens.stats.steady.segment import Steadiness
from twinlens.units import RATIO


def peak_rate(steadiness: Steadiness, *, unit: str) -> Estimate:
    """The best rate any window of the run had, in work per second.

    Without an interval: it was picked for being the highest, so its own rows would flatter it. Absent where
    the run is one window, as peak and mean are then the same number.
    """
    windows = len(steadiness.window_rate)
    if windows < 2:
        return Estimate.absent(unit, "a peak needs at least two windows, the run is too short for them")
    if not np.isfinite(steadiness.peak_window_rate):
        return Estimate.absent(unit, "the peak rate is too large to be said")
    rows = steadiness.windows[-1] / windows
    method = f"best of {windows} windows of about {rows:.3g} rows, no interval for a number picked as highest"
    return Estimate(steadiness.peak_window_rate, unit, method, "measured", n=windows)


def retention(sustained: Estimate, steadiness: Steadiness) -> Estimate:
    """`sustained` / peak window rate, as a ratio, with the interval of `sustained` and the peak held fixed.

    The best of many windows beats the mean by noise alone; the method says by how much, so that only a
    retention clearly below it is read as throttling or warm-up.
    """
    peak = peak_rate(steadiness, unit=sustained.unit)
    if sustained.value is None or peak.value is None:
        reason = sustained.reason if sustained.value is None else peak.reason
        return Estimate.absent(RATIO, f"no sustained or no peak rate: {reason}")
    if (peak.n or 0) < FEWEST_WINDOWS:
        reason = f"the best of fewer than {FEWEST_WINDOWS} windows says little"
        return Estimate.absent(RATIO, reason, seen=f"there are {peak.n}")
    if peak.value == 0:
        return Estimate.absent(RATIO, "the peak rate is 0")
    low, high = (None if b is None else b / peak.value for b in (sustained.low, sustained.high))
    expected = steadiness.noise_retention
    noise = "" if expected is None else f"; noise alone would give about {expected:.3g}"
    method = f"sustained rate / best of {peak.n} windows, peak held fixed{noise}"
    return Estimate(
        sustained.value / peak.value,
        RATIO,
        method,
        "derived",
        low=low,
        high=high,
        level=sustained.level,
        n=sustained.n,
    )
