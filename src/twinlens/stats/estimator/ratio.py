"""Ratios and differences with intervals, of runs and of durations."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from twinlens.record.estimate import Estimate
from twinlens.stats.estimator.dependence import careful_time
from twinlens.stats.estimator.interval import t_quantile
from twinlens.stats.estimator.repeats import FEWEST_RUNS, weakest
from twinlens.units import RATIO


def ratio(a: Estimate, b: Estimate, *, unit: str | None = None) -> Estimate:
    """`a` / `b` for two independent estimates; unit 1 when theirs agree, else "a/b" of theirs or `unit`.

    The interval recovers both uncertainties (MOVER-R, Donner & Zou 2012, equation 9), which for symmetric
    intervals is Fieller's. It has a's level; there is none unless both carry one, b's at that level or a
    higher one (a wider interval is still one at the lower level), and b's clears 0. The
    origin is derived, or weaker where an input is. Two numbers from the same rows are not independent: do
    not divide them here.
    """
    unit = unit or (RATIO if a.unit == b.unit else f"{a.unit}/{b.unit}")
    if a.value is None or b.value is None:
        which, one = ("numerator", a) if a.value is None else ("denominator", b)
        return Estimate.absent(unit, f"the {which} is absent: {one.reason}")
    if b.value == 0:
        return Estimate.absent(unit, "the denominator is 0")
    value = a.value / b.value
    if not math.isfinite(value):
        return Estimate.absent(unit, "the ratio is too large to be said")
    origin = weakest("derived", a.origin, b.origin)
    n = min((e.n for e in (a, b) if e.n is not None), default=None)
    bounds, why_not = _recover(a, b)
    if bounds is None:
        return Estimate(value, unit, "ratio", origin, n=n, no_interval=why_not)
    low, high = min(bounds[0], value), max(bounds[1], value)
    method = "ratio of independent estimates, MOVER-R interval"
    return Estimate(value, unit, method, origin, low=low, high=high, level=a.level, n=n)


def of_ceiling(rate: Estimate, ceiling: Estimate) -> Estimate:
    """`rate` / `ceiling` of one run, without an interval of its own.

    A ceiling is measured once, in a tenth of a second, before the run. Its repeats do not show how far the machine's
    ceiling moves between then and the run, which on shared machines is most of the uncertainty; runs do.
    """
    found = ratio(rate, ceiling)
    if found.value is None or found.low is None:
        return found
    why_not = "one run does not show how far its ceiling moves, repeats do"
    return replace(found, low=None, high=None, level=None, method="ratio", no_interval=why_not)


def ratio_of_runs(values_a: ArrayLike, values_b: ArrayLike, *, level: float = 0.95) -> Estimate:
    """Mean of runs [R_a] / mean of runs [R_b], with Fieller's interval (Welch's freedom), for unpaired runs.

    Without interval below `FEWEST_RUNS` runs on either side or where b's mean is not clear of 0. n is the
    number of runs on both sides together. Raises ValueError for values that are not finite and positive.
    """
    a, b = _positive(values_a), _positive(values_b)
    if a.size == 0 or b.size == 0:
        return Estimate.absent(RATIO, "there are no runs on one side")
    value, n = float(a.mean() / b.mean()), a.size + b.size
    if min(a.size, b.size) < FEWEST_RUNS:
        return Estimate(value, RATIO, "ratio of run means", "derived", n=n, no_interval=_FEW_RUNS)
    spread_a, spread_b = float(a.var(ddof=1)) / a.size, float(b.var(ddof=1)) / b.size
    if spread_a == spread_b == 0:
        method = "ratio of run means; runs on each side are equal"
        return Estimate(value, RATIO, method, "derived", low=value, high=value, level=level, n=n)
    t = t_quantile(level, welch(a, value * b)[1])
    bounds = _mover(_around(a.mean(), t * math.sqrt(spread_a)), _around(b.mean(), t * math.sqrt(spread_b)))
    if bounds is None:
        return Estimate(value, RATIO, "ratio of run means", "derived", n=n, no_interval=_NOT_CLEAR)
    method = f"ratio of means of {a.size} and {b.size} runs, Fieller interval"
    low, high = min(bounds[0], value), max(bounds[1], value)
    return Estimate(value, RATIO, method, "derived", low=low, high=high, level=level, n=n)


def difference_of_runs(values_a: ArrayLike, values_b: ArrayLike, *, unit: str, level: float = 0.95) -> Estimate:
    """Mean of runs [R_a] − mean of runs [R_b], with Welch's interval, for unpaired runs. n: runs on both sides.

    Whether two means can be told apart is a question to this interval and not to whether their own overlap: two that
    overlap may well differ. Without interval below `FEWEST_RUNS` runs on either side. Raises ValueError for values
    that are not finite.
    """
    a, b = (np.asarray(values, dtype=np.float64).ravel() for values in (values_a, values_b))
    if not (np.isfinite(a).all() and np.isfinite(b).all()):
        raise ValueError("runs are compared by finite values")
    if a.size == 0 or b.size == 0:
        return Estimate.absent(unit, "there are no runs on one side")
    value, n = float(a.mean() - b.mean()), a.size + b.size
    if min(a.size, b.size) < FEWEST_RUNS:
        return Estimate(value, unit, "difference of run means", "derived", n=n, no_interval=_FEW_RUNS)
    error, freedom = welch(a, b)
    half = t_quantile(level, freedom) * error if error else 0.0
    method = f"difference of means of {a.size} and {b.size} runs, Welch interval"
    return Estimate(value, unit, method, "derived", value - half, value + half, level, n)


def difference(a: Estimate, b: Estimate) -> Estimate:
    """`a` − `b` for two independent estimates of one unit, with the interval that recovers both uncertainties (MOVER).

    Zou & Donner 2008, equation 7: the squares of both reaches on a side add up. None unless both carry an interval at
    one level. Raises ValueError for two units.
    """
    if a.unit != b.unit:
        raise ValueError(f"a difference is taken in one unit, not {a.unit} and {b.unit}")
    if a.value is None or b.value is None:
        which, one = ("first", a) if a.value is None else ("second", b)
        return Estimate.absent(a.unit, f"the {which} is absent: {one.lacks}")
    value, origin = a.value - b.value, weakest("derived", a.origin, b.origin)
    n = min((e.n for e in (a, b) if e.n is not None), default=None)
    if None in (a.low, a.high, b.low, b.high) or a.level is None or a.level != b.level:
        why_not = next((e.lacks for e in (a, b) if e.lacks), "what it is computed from has none")
        return Estimate(value, a.unit, "difference", origin, n=n, no_interval=why_not)
    low = value - math.hypot(a.value - float(a.low or 0), float(b.high or 0) - b.value)
    high = value + math.hypot(float(a.high or 0) - a.value, b.value - float(b.low or 0))
    method = "difference of independent estimates, MOVER interval"
    return Estimate(value, a.unit, method, origin, low, high, a.level, n)


def chance_of(values_a: ArrayLike, values_b: ArrayLike) -> float:
    """How often runs [R_a] and [R_b] of one mean would lie as far apart (Welch); 1 below `FEWEST_RUNS` a side."""
    a, b = (np.asarray(values, dtype=np.float64).ravel() for values in (values_a, values_b))
    if min(a.size, b.size) < FEWEST_RUNS:
        return 1.0
    (error, freedom), gap = welch(a, b), abs(float(a.mean() - b.mean()))
    if not error:
        return 1.0 if gap == 0 else 0.0
    return 2 * float(scipy.special.stdtr(freedom, -gap / error))


def welch(*sides: NDArray[np.float64]) -> tuple[float, float]:
    """The standard error of the difference of the means of two sides [n >= 2 each], and its freedom (Welch 1947);
    infinite where neither varies."""
    spreads = [float(side.var(ddof=1)) / side.size for side in sides]
    of_each = sum(spread**2 / (side.size - 1) for spread, side in zip(spreads, sides, strict=True))
    return math.sqrt(sum(spreads)), sum(spreads) ** 2 / of_each if of_each else math.inf


_FEW_RUNS = f"fewer than {FEWEST_RUNS} runs a side"
_NOT_CLEAR = "the slower side is not clear of 0"


def _recover(a: Estimate, b: Estimate) -> tuple[tuple[float, float] | None, str]:
    """The bounds, or why there are none."""
    if a.level is None or b.level is None:
        return None, "what it is computed from has none"
    if b.level < a.level:
        return None, f"the denominator's level of {b.level:g} is below {a.level:g}"
    triples = [(e.low, e.value, e.high) for e in (a, b)]
    bounds = _mover(*triples)
    return bounds, "" if bounds else "the denominator is not clear of 0"


def _mover(a: Sequence[float | None], b: Sequence[float | None]) -> tuple[float, float] | None:
    """MOVER-R bounds from (low, value, high) of both; None where b is not clear of 0."""
    if None in (*a, *b):
        return None
    (low_a, va, high_a), (low_b, vb, high_b) = ([float(x or 0) for x in side] for side in (a, b))
    below, above = high_b * (2 * vb - high_b), low_b * (2 * vb - low_b)
    if low_b <= 0 or below <= 0 or above <= 0 or va < 0:
        return None
    product = va * vb
    low = (product - math.sqrt(max(0.0, product**2 - low_a * (2 * va - low_a) * below))) / below
    high = (product + math.sqrt(max(0.0, product**2 - high_a * (2 * va - high_a) * above))) / above
    return (low, high) if math.isfinite(low) and math.isfinite(high) else None


def _around(mean: float, half: float) -> tuple[float, float, float]:
    return float(mean) - half, float(mean), float(mean) + half


def _positive(values: ArrayLike) -> NDArray[np.float64]:
    runs = np.asarray(values, dtype=np.float64).ravel()
    if not (np.isfinite(runs).all() and (runs > 0).all()):
        raise ValueError("runs are compared by finite, positive values")
    return runs


# The ratio of two durations whatever their distributions, with a rank interval.

_ERRORS = 2.0  # of its own, by which a time of correlation is raised: calm runs claim most
_LEAST_S = 1e-6  # what takes less is as good as nothing, and a logarithm needs something


def rank_ratio(above_s: ArrayLike, below_s: ArrayLike, *, level: float = 0.99) -> Estimate:
    """The typical ratio of times [m] to times [n], with the exact interval of the Mann-Whitney statistic at `level`.

    The median of all m · n quotients, and between which of them, in order, it lies with that confidence if the two
    differ by a factor only (Hodges and Lehmann 1963; Hollander, Wolfe and Chicken 2014, 4.3). Times in order of asking
    count as many as are independent (`careful_time`): of times that depend by 0.8 "99 %" held 59 to 68 %. Without
    interval where so few values allow none; absent without values. Raises ValueError for negative or not finite times.
    """
    above, below = (np.asarray(values, dtype=np.float64).ravel() for values in (above_s, below_s))
    if not (np.isfinite(above).all() and np.isfinite(below).all() and (above >= 0).all() and (below >= 0).all()):
        raise ValueError("a ratio of times is taken of finite times that are not negative")
    if not above.size or not below.size:
        return Estimate.absent(RATIO, "there is nothing to compare")
    above, below = (np.maximum(values, _LEAST_S) for values in (above, below))
    quotients = np.sort((above[:, None] / below[None, :]).ravel())
    method = f"median of all quotients of {above.size} and {below.size} times"
    value, n = float(np.median(quotients)), int(above.size + below.size)
    independent = [max(1, int(each.size / careful_time(np.log(each), _ERRORS))) for each in (above, below)]
    rank = lowest_rank(independent[0], independent[1], (1 - level) / 2)
    if rank is not None:  # at the same height among all quotients
        rank = max(1, int(rank * (quotients.size / (independent[0] * independent[1]))))
    if rank is None:
        return Estimate(value, RATIO, f"{method}; too few for an interval", "derived", n=n)
    low, high = float(quotients[rank - 1]), float(quotients[quotients.size - rank])
    method += ", interval by Mann-Whitney ranks"
    return Estimate(value, RATIO, method, "derived", low=low, high=high, level=level, n=n)


def lowest_rank(m: int, n: int, tail: float) -> int | None:
    """The largest rank (from 1) of the m · n quotients with P(U < rank) <= tail; None where there is none.

    U counts pairs in which the first is larger, all orders equally likely. With 5 and 5 values and a tail of 2.5 % it
    is 3 (tables: 2 is the critical value of U). Past 2,500 pairs U is taken as normal, whose error is then below one.
    """
    if m * n > 2500:
        from scipy.special import ndtri

        deviation = np.sqrt(m * n * (m + n + 1) / 12)
        return max(1, int(np.floor(m * n / 2 + ndtri(tail) * deviation)))
    reached = np.cumsum(_ways(m, n))
    below = reached / reached[-1] <= tail * (1 + 1e-12)
    return int(below.sum()) or None


def _ways(m: int, n: int) -> np.ndarray:
    """In how many orders of m and n values U is 0, 1, … m · n: the coefficients of the Gaussian binomial."""
    ways = np.zeros(m * n + 1)
    ways[0] = 1
    for k in range(1, m + 1):
        raised = ways.copy()
        raised[n + k :] -= ways[: max(0, ways.size - n - k)]
        for at in range(k, raised.size):
            raised[at] += raised[at - k]
        ways = raised
    return ways
