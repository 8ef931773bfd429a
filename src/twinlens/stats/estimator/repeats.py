"""Numbers over repeated runs: the run, not the row, is what varies independently (Kalibera & Jones 2013)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from twinlens.record.estimate import Estimate, Origin
from twinlens.stats.estimator.interval import t_quantile
from twinlens.units import RATIO

FEWEST_RUNS = 3  # two runs have one difference between them: a range, not a spread

WITHIN_ONE_RUN = "within one run; not comparable across runs"

# Strongest first. A number built from others is no stronger than the weakest of them.
_STRENGTH: tuple[Origin, ...] = ("measured", "derived", "quoted", "modelled", "simulated")


Kind = Literal["mean", "share", "bracket"]
"""How runs are put together: by their means, as shares of requests, or as times known to lie within a bracket."""


def over_runs(
    estimates: Sequence[Estimate],
    *,
    level: float = 0.95,
    kind: Kind = "mean",
    least: float | None = None,
    most: float | None = None,
) -> Estimate:
    """One estimate for a point measured in R fresh processes, from the estimate of each run.

    R >= 3: mean of run means ± t(R-1) · s / √R, n = R; shares and brackets as `_of_shares` and `_of_brackets` say.
    R = 2: their range, no level. R = 1: that run's own interval, marked as such. Absent in any run is absent, with the
    count: what is missing is mostly what went badly, so the rest would look better than the runs were. Bounds end at
    `least` and `most`, beyond which the quantity cannot be; where a run's upper bound is open, so is that over runs.
    Raises ValueError for no estimates at all or for mixed units.
    """
    unit = _one_unit(estimates)
    reasons = [e.lacks for e in estimates if e.value is None]
    if len(reasons) == len(estimates) == 1:
        return estimates[0]
    if reasons:
        return Estimate.absent(unit, f"absent in {len(reasons)} of {len(estimates)} runs ({reasons[0]})")
    if len(estimates) == 1:
        return replace(estimates[0], method=f"{estimates[0].method}; {WITHIN_ONE_RUN}", runs=1)
    if len(estimates) < FEWEST_RUNS:
        found = _range(estimates, kind)
    elif kind == "share":
        found = _of_shares(estimates, level)
    else:
        found = _of_brackets(estimates, level) if kind == "bracket" else _of_means(estimates, level)
    found = replace(found, unit=unit, origin=weakest(*(e.origin for e in estimates)), runs=len(estimates))
    return _open_above(cut(found, least, most), estimates)


def cut(estimate: Estimate, least: float | None, most: float | None) -> Estimate:
    """The estimate with bounds no further than the quantity can be, and a word in the method where one was cut."""
    low, high, method = estimate.low, estimate.high, estimate.method
    if low is not None and least is not None and low < least <= (estimate.value or 0.0):
        low, method = least, f"{method}; cut at {least:g}, the least it can be"
    if high is not None and most is not None and high > most >= (estimate.value or 0.0):
        high, method = most, f"{method}; cut at {most:g}, the most it can be"
    return replace(estimate, low=low, high=high, method=method)


def _values(estimates: Sequence[Estimate]) -> NDArray[np.float64]:
    return np.array([e.value for e in estimates], dtype=np.float64)


def _mean(values: NDArray[np.float64]) -> float:
    return float(np.clip(values.mean(), values.min(), values.max()))


def _range(estimates: Sequence[Estimate], kind: Kind) -> Estimate:
    values = _values(estimates)
    lows = [e.value if kind != "bracket" or e.low is None else e.low for e in estimates]
    highs = [e.value if kind != "bracket" or e.high is None else e.high for e in estimates]
    method = f"mean of {values.size} runs in fresh processes, with their range; no confidence claimed"
    low, high = min(x for x in lows if x is not None), max(x for x in highs if x is not None)
    return Estimate(_mean(values), "", method, "measured", low=low, high=high, n=values.size)


def _half(values: NDArray[np.float64], level: float) -> float:
    return t_quantile(level, values.size - 1) * float(values.std(ddof=1)) / math.sqrt(values.size)


def _of_means(estimates: Sequence[Estimate], level: float) -> Estimate:
    values = _values(estimates)
    mean, half = _mean(values), _half(values, level)
    method = f"mean of {values.size} runs in fresh processes, t interval"
    return Estimate(mean, "", method, "measured", mean - half, mean + half, level, values.size)


def _of_brackets(estimates: Sequence[Estimate], level: float) -> Estimate:
    """Values of which each run knows only between which two bounds they lie: t interval, widened by the brackets."""
    values = _values(estimates)
    within = [(e.high - e.low) / 2 for e in estimates if e.low is not None and e.high is not None]
    mean, half = _mean(values), _half(values, level) + (float(np.mean(within)) if within else 0.0)
    method = f"mean of {values.size} runs in fresh processes, t interval and half a bracket to either side"
    return Estimate(mean, "", method, "measured", mean - half, mean + half, level, values.size)


def _of_shares(estimates: Sequence[Estimate], level: float) -> Estimate:
    """Shares of requests: all requests as one sample whose size shrinks as runs differ by more than chance.

    Exact binomial bounds (Clopper & Pearson 1934) of the mean share, with Σn independent requests divided by the
    overdispersion over runs (s² over p(1 - p)/n̄) times (t(R-1)/z)², as that is known from R runs only; never more than
    Σn. So there is an interval where all requests were good, and none beyond 0 and 1.
    """
    values = _values(estimates)
    mean, runs = _mean(values), values.size
    total = float(sum(e.n or 1 for e in estimates))
    chance = mean * (1 - mean) * runs / total
    beyond = float(values.var(ddof=1)) / chance if chance > 0 else 0.0
    factor = (t_quantile(level, runs - 1) / float(scipy.special.ndtri((1 + level) / 2))) ** 2
    independent = max(1.0, total / max(1.0, beyond * factor))
    low, high = binomial_bounds(mean, independent, level)
    method = (
        f"mean share of {runs} runs in fresh processes, binomial interval on {independent:.0f} independent requests"
    )
    return Estimate(mean, "", method, "measured", min(low, mean), max(high, mean), level, runs)


def binomial_bounds(share: float, independent: float, level: float) -> tuple[float, float]:
    """The bounds of a share of `independent` trials, which need not be whole (Clopper & Pearson 1934)."""
    hits, tail = share * independent, (1 - level) / 2
    missed = independent - hits
    low = float(scipy.special.betaincinv(hits, missed + 1, tail)) if hits > 0 else 0.0
    high = float(scipy.special.betaincinv(hits + 1, missed, 1 - tail)) if missed > 0 else 1.0
    return low, high


def mean_of_shares(values: ArrayLike, *, method: str, level: float = 0.95) -> Estimate:
    """The mean of independent values [n] between 0 and 1, with the exact binomial bounds of n trials.

    Of all values between 0 and 1 with one mean those that are 0 or 1 scatter most (Hoeffding 1963), so the bounds hold
    at least as often as they say; and they hold where a rare miss is in no value that was seen. Absent without values.
    """
    shares = np.asarray(values, dtype=np.float64).ravel()
    if not shares.size:
        return Estimate.absent(RATIO, "there are no values")
    mean = _mean(shares)
    low, high = binomial_bounds(mean, shares.size, level)
    told = f"mean of {shares.size} shares, exact binomial bounds{method}"
    return Estimate(mean, RATIO, told, "measured", min(low, mean), max(high, mean), level, shares.size)


def _open_above(found: Estimate, estimates: Sequence[Estimate]) -> Estimate:
    if not any(e.low is not None and e.high is None for e in estimates):
        return found
    return replace(found, high=None, method=f"{found.method}; in a run the upper bound is open, so here too")


def weakest(*origins: Origin) -> Origin:
    """The weakest of the origins: measured, derived, quoted, modelled, from strong to weak."""
    return max(origins, key=_STRENGTH.index)


def _one_unit(estimates: Sequence[Estimate]) -> str:
    units = {e.unit for e in estimates}
    if len(units) != 1:
        raise ValueError(f"runs are put together in one unit, not {sorted(units) or 'none'}")
    return units.pop()


# An estimate times a constant: the value and its bounds, with the weaker of the origins.


def scaled(estimate: Estimate, factor: float, unit: str, method: str, origin: Origin = "derived") -> Estimate:
    """`factor` × estimate in another unit (factor > 0); an absent estimate stays absent for its own reason."""
    spread = estimate.spread and estimate.spread.times(factor)
    if estimate.value is None:
        absent = Estimate.absent(unit, estimate.reason or "not measured", seen=estimate.seen)
        return replace(absent, spread=spread)
    low, high = (None if bound is None else bound * factor for bound in (estimate.low, estimate.high))
    return replace(
        estimate,
        value=estimate.value * factor,
        low=low,
        high=high,
        unit=unit,
        method=f"{method}; {estimate.method}",
        origin=weakest(estimate.origin, origin),
        spread=spread,
    )


def inverse(estimate: Estimate, factor: float, unit: str, method: str) -> Estimate:
    """`factor` / estimate, for positive estimates: the bounds change places."""
    if not estimate.value:
        return Estimate.absent(unit, estimate.reason or "the divisor is 0", seen=estimate.seen)
    low, high = (factor / bound if bound else None for bound in (estimate.high, estimate.low))
    return replace(
        estimate,
        value=factor / estimate.value,
        low=low,
        high=high,
        unit=unit,
        method=method,
        origin="derived",
        spread=None,
    )


# Intervals of provisional figures: widened by what a change that could hide would do to them.

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
