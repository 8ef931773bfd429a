"""Means of series whose neighbours resemble each other."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import stdtrit

from twinlens.record.estimate import Estimate
from twinlens.stats.autocorrelation import autocorrelation_time

# With fewer independent values the autocorrelation time itself is a guess, and so would the interval be.
FEWEST_INDEPENDENT = 5


def mean_interval(values: ArrayLike, *, unit: str, level: float = 0.95, method_suffix: str = "") -> Estimate:
    """The mean of a series [n] in time order, with a t interval on its effective number of values.

    Half-width t(n_eff - 1) · s · √(τ/n), τ the integrated autocorrelation time and s² corrected for the
    variance that correlated values hide, 1/(1 - τ/n) (Priestley 1981, 5.3). Without interval below
    `FEWEST_INDEPENDENT` independent values; absent for an empty series. Raises ValueError for values that
    are not finite.
    """
    series = np.asarray(values, dtype=np.float64).ravel()
    if not np.isfinite(series).all():
        raise ValueError("a mean is taken of finite values; leave absent ones out and say how many")
    if series.size == 0:
        return Estimate.absent(unit, "there are no values")
    mean = float(np.clip(series.mean(), series.min(), series.max()))
    tau = autocorrelation_time(series)
    independent = series.size / tau
    if independent < FEWEST_INDEPENDENT:
        method = f"mean; no interval below {FEWEST_INDEPENDENT} independent values"
        return Estimate(mean, unit, f"{method}{method_suffix}", "measured", n=max(1, int(independent)))
    spread = float(series.std()) / math.sqrt(1 - tau / series.size)
    half = t_quantile(level, independent - 1) * spread * math.sqrt(tau / series.size)
    return Estimate(
        mean,
        unit,
        f"mean, t interval on the effective number of {series.size} values "
        f"(autocorrelation time {tau:.3g} rows){method_suffix}",
        "measured",
        low=mean - half,
        high=mean + half,
        level=level,
        n=int(independent),
    )


def t_quantile(level: float, freedom: float) -> float:
    """The two-sided Student t factor: `t_quantile(0.95, 4)` is 2.776. `freedom` need not be whole."""
    if not (0 < level < 1 and freedom > 0):
        raise ValueError(f"a t factor needs a level in 0-1 and freedom above 0, not {level} and {freedom}")
    return float(stdtrit(freedom, (1 + level) / 2))
