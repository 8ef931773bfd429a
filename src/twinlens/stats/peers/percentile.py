"""Means and percentiles by other tools' rules, without intervals.

`values` are in seconds, shape (n,); in milliseconds where the unit says so, as their names do. Absent for no values.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import bdtr

from twinlens.record.estimate import Estimate
from twinlens.stats.peers.names import MILLISECONDS

_EARLY_STOPPING_CONFIDENCE = 0.99
_LEAST_OVER = 1  # LoadGen asks for at least one query above the estimate, hence 662 queries for a p99


def _estimate(value: float, unit: str, n: int, method: str) -> Estimate:
    return Estimate(value * (1000 if unit == MILLISECONDS else 1), unit, method, "measured", n=n)


def mean(values: np.ndarray, described: str, unit: str = MILLISECONDS) -> Estimate:
    """The plain mean of what `described` describes."""
    if not values.size:
        return _nothing(unit)
    return _estimate(float(values.mean()), unit, values.size, f"mean of {described}; answered requests only")


def by_numpy(values: np.ndarray, percent: float, described: str, unit: str = MILLISECONDS) -> Estimate:
    """numpy's default percentile: linear between two order statistics."""
    if not values.size:
        return _nothing(unit)
    method = f"p{percent:g} of {described}, between order statistics by numpy's rule; answered requests only"
    return _estimate(float(np.percentile(values, percent)), unit, values.size, method)


def adjusted(values: np.ndarray, lost: int, percent: float, described: str) -> Estimate:
    """numpy's percentile of `values` and `lost` endless ones; absent where it falls among these."""
    n = values.size + lost
    position = (n - 1) * percent / 100
    if not values.size or math.ceil(position) >= values.size:
        return Estimate.absent(MILLISECONDS, f"it falls among the {lost} of {n} requests that failed")
    ordered = np.sort(values)
    low, high = float(ordered[math.floor(position)]), float(ordered[math.ceil(position)])
    rule = "of all requests, endless where one failed; between order statistics by numpy's rule"
    method = f"p{percent:g} of {described}, {rule}"
    return _estimate(low + (high - low) * (position - math.floor(position)), MILLISECONDS, n, method)


def weighted_mean(values: np.ndarray, weights: np.ndarray, described: str) -> Estimate:
    """The mean with weights, which the words of `described` name."""
    if not values.size:
        return _nothing(MILLISECONDS)
    mean = float(np.average(values, weights=weights))
    return _estimate(mean, MILLISECONDS, values.size, f"mean of {described}; answered requests only")


def by_cdf(values: np.ndarray, weights: np.ndarray, q: float, described: str) -> Estimate:
    """The smallest value at which the weighted share of values reaches q."""
    if not values.size:
        return _nothing(MILLISECONDS)
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(weights[order]) / weights.sum()
    position = min(int(np.searchsorted(reached, q - 1e-12)), values.size - 1)
    method = f"p{100 * q:g} of {described}, first value to reach the share; answered requests only"
    return _estimate(float(values[order][position]), MILLISECONDS, values.size, method)


def by_rank(values: np.ndarray, q: float, described: str) -> Estimate:
    """LoadGen's percentile: the value of rank ⌊n·q⌋, counted from 0."""
    if not values.size:
        return _nothing(MILLISECONDS)
    rank = int(values.size * q)
    method = f"p{100 * q:g} of {described}: value of rank n·q rounded down, from 0"
    return _estimate(float(np.partition(values, rank)[rank]), MILLISECONDS, values.size, method)


def early_stopping(values: np.ndarray, q: float, described: str) -> Estimate:
    """LoadGen's estimate: the t-th highest value, t the most queries above the quantile that n allows at 99 %."""
    over = most_over(values.size, q)
    if over < _LEAST_OVER:
        return Estimate.absent(MILLISECONDS, f"early stopping needs 662 queries for a p99, there are {values.size}")
    value = float(np.partition(values, values.size - over)[values.size - over])
    method = f"upper bound of p{100 * q:g} of {described} at 99 %: the {over} highest left out but one"
    return _estimate(value, MILLISECONDS, values.size, method)


def most_over(n: int, q: float) -> int:
    """The largest t with P(B <= t) <= 1 %, B binomial(n, 1 - q): 1 from 662 queries on for p99; -1 where none is."""
    over = -1
    while over + 1 < n and float(bdtr(over + 1, n, 1 - q)) <= 1 - _EARLY_STOPPING_CONFIDENCE + 1e-12:
        over += 1
    return over


def rate(amount: float, wall_s: float, unit: str, described: str) -> Estimate:
    """An amount over a wall time."""
    if wall_s <= 0:
        return Estimate.absent(unit, "the run has no length")
    return _estimate(float(amount) / wall_s, unit, 1, f"of answered requests / {described}")


def _nothing(unit: str) -> Estimate:
    return Estimate.absent(unit, "no request has such a value")
