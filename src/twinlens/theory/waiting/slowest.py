"""The slowest of many: the expected time of a step that ends when its last rank has ended.

Order statistics of independent times (David and Nagaraja 2003, "Order Statistics", chapter 3): the slowest of n takes
at most x with probability F(x)^n. A rank that is slower by a factor f has F(x/f). Ranks that are slow together wait
less for each other than these say.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from twinlens.errors import BadInput
from twinlens.theory.number import amount, count, rate

Floats = NDArray[np.float64]
_REACH, _POINTS = 12.0, 24_001  # standard deviations to each side, where less than 1e-32 lies beyond


def slowest_of_normal(ranks: float) -> float:
    """Standard deviations by which the slowest of `ranks` normal times lies above the mean: 1.54 of 10, 2.51 of 100."""
    at, below = _normal()
    return float(_mean_of(at, float(count("ranks", ranks)) * below))


def slowest_of_lognormal(mean_s: float, cv: float, factors: ArrayLike) -> float:
    """Expected seconds of the slowest of lognormal times with this mean and coefficient of variation.

    `factors` [ranks]: by how much each rank is slower than the others; all 1 where they are alike.
    """
    each, many = counted(factors)
    mean, spread = rate("mean_s", mean_s), math.sqrt(math.log1p(amount("cv", cv) ** 2))
    if spread == 0:
        return float(mean * each.max())
    from scipy.special import log_ndtr  # a step without spread needs no scipy

    shift = np.log(each) / spread
    at = np.linspace(shift.min() - _REACH, shift.max() + _REACH, _POINTS)
    below = (many[:, None] * log_ndtr(at[None, :] - shift[:, None])).sum(axis=0)
    return float(mean * math.exp(-spread * spread / 2) * _mean_of(np.exp(spread * at), below))


def slowest_of_values(values_s: ArrayLike, factors: ArrayLike, ranks: float = 1) -> float:
    """Expected seconds of the slowest rank where each has one of `values_s` [k], all as likely.

    `factors` [ranks]: as above. `ranks`: each value is itself the slowest of so many alike; one has F^(1/ranks).
    """
    each, many = counted(factors)
    values = np.sort(np.asarray(values_s, dtype=np.float64).ravel())
    if not values.size or not np.isfinite(values).all() or values[0] <= 0:
        raise BadInput("times of steps must be finite and above 0, and there must be some")
    candidates = np.unique(np.outer(each, values))
    below = np.zeros(candidates.size)
    with np.errstate(divide="ignore"):
        for factor, times in zip(each, many, strict=True):
            share = np.searchsorted(factor * values, candidates, side="right") / values.size
            below += times / count("ranks", ranks) * np.log(share)
    return float((candidates * np.diff(np.exp(below), prepend=0.0)).sum())


def counted(factors: ArrayLike) -> tuple[Floats, Floats]:
    """Distinct factors, and how many ranks have each. Raises BadInput for no rank, or no such factor."""
    given = np.asarray(factors, dtype=np.float64).ravel()
    if not given.size or not np.isfinite(given).all() or given.min() <= 0:
        raise BadInput("each rank needs a factor above 0 for how slow it is, and there must be a rank")
    each, many = np.unique(given, return_counts=True)
    return each, many.astype(np.float64)


def _normal() -> tuple[Floats, Floats]:
    from scipy.special import log_ndtr  # few functions of theory need scipy

    at = np.linspace(-_REACH, _REACH, _POINTS)
    return at, np.asarray(log_ndtr(at))


def _mean_of(values: Floats, log_below: Floats) -> float:
    """The mean of a quantity given at points [n], of which log_below [n] is the logarithm of the distribution."""
    middle = (values[1:] + values[:-1]) / 2
    return float((middle * np.diff(np.exp(log_below))).sum())
