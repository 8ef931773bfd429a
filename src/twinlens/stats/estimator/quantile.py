"""Quantiles with exact order-statistic intervals.

The point is the inverse of the empirical distribution, averaged at its steps (definition 2 of Hyndman &
Fan 1996): `x[ceil(nq)]`, or the mean of `x[nq]` and `x[nq+1]` where `nq` is whole. No other interpolation
is done, so a quantile is a value that was seen or the middle of two neighbours. The interval runs between
two order statistics whose ranks come from the binomial law (David & Nagaraja 2003, 7.1): it needs no
shape, only independent values.
"""

from __future__ import annotations

import math
from dataclasses import replace

from numpy.typing import ArrayLike
from scipy.special import bdtr

from twinlens.record.estimate import Estimate, Spread
from twinlens.stats.estimator.autocorrelation import careful_time
from twinlens.stats.estimator.interval import FEWEST_ROWS
from twinlens.stats.estimator.series import Series

# Slow stretches must have come and gone a few times, and a few must lie beyond the quantile, to say how they cluster.
FEWEST_STRETCHES = 10
FEWEST_BEYOND = 4
_DEFINITION = "empirical quantile averaged at steps, exact binomial order-statistic interval"


def quantile(
    values: ArrayLike | Series,
    q: float,
    *,
    unit: str,
    level: float = 0.95,
    method_suffix: str = "",
    in_time_order: bool = False,
    together: int = 1,
    why_not: str = "",
) -> Estimate:
    """The `q` quantile (0-1) of `values` [n] with an equal-tailed interval of at least `level`.

    Absent when an interval cannot exist on both sides (`needed_for_quantile`). With `in_time_order` the
    values are taken as a series: the number of independent values is found from how the exceedances
    cluster, which widens the interval; without it, order does not matter and values count as independent.
    A series that is too short to say how its values cluster has its quantile without an interval, and the
    method says why: it is what happened in this run. `together`: how many neighbours share one moment, as requests do
    that decode in one batch. `why_not`: a reason for no interval that the caller knows. Several quantiles of the same
    values are faster of a `Series`.
    Raises ValueError for values that are not finite and for `q` or `level` outside 0-1.
    """
    whole = values if isinstance(values, Series) else Series(values, together)
    size, needed = whole.values.size, needed_for_quantile(q, level)
    if not size:
        return Estimate.absent(unit, f"{name_of(q)} needs at least {needed} values", seen="there are 0")
    low, high = (float(whole.ordered[rank - 1]) for rank in _point_ranks(size, q))
    # Halved first, as the sum of two large values overflows; clamped, as halves of tiny ones round.
    value = min(max(low / 2 + high / 2, low), high)
    worth = whole.independent(value) if in_time_order else float(size)
    spread = Spread(size, *whole.sketch, worth)
    if size < needed:
        few = Estimate.absent(unit, f"{name_of(q)} needs at least {needed} values", seen=f"there are {size}")
        return replace(few, spread=spread)
    independent, seen = size, None
    if in_time_order and not why_not:
        independent, why_not, seen = _independent(whole, high, q, needed, worth)
    if why_not:
        method = f"{name_of(q)}: empirical quantile"
        return Estimate(value, unit, method, "measured", no_interval=why_not, seen=seen, spread=spread)
    ends = (_stretch(rank, independent, size) for rank in interval_ranks(independent, q, level))
    least, most = (float(whole.ordered[rank - 1]) for rank in ends)
    clustered = f", {independent} independent of {size} in time order" if in_time_order else ""
    return Estimate(
        value,
        unit,
        f"{name_of(q)}: {_DEFINITION}{clustered}{method_suffix}",
        "measured",
        low=min(least, value),
        high=max(most, value),
        level=level,
        n=independent,
        spread=spread,
    )


def _independent(whole: Series, value: float, q: float, needed: int, worth: float) -> tuple[int, str, str | None]:
    """How many independent values a series [n] is worth at its quantile, why no interval can rest on them, and how

    much there was of what is lacking. `worth`: how many the share of values up to there rests on, with what requests in
    flight tell of a queue: it decides how wide an interval is, and not whether there is one, which would choose by
    luck.
    """
    series, together, n = whole.values, whole.together, whole.values.size
    if whole.moments.size < FEWEST_ROWS:
        at_once = f" that come {together} at once" if together > 1 else ""
        rows = f"{FEWEST_ROWS * together} rows{at_once}"
        return 0, f"in fewer than {rows} it cannot be seen how slow ones cluster", f"there are {n}"
    # Of both codings of a tie, `>=` is the one that is never empty, so clusters of ties are seen too.
    slow = series >= value
    independent = max(1, int(n / careful_time(slow)))
    if independent < needed:
        reason = f"{name_of(q)} needs at least {needed} independent values"
        return independent, reason, f"there are about {independent} among {n}"
    stretches = whole.stretches
    wanted = max(FEWEST_STRETCHES, FEWEST_BEYOND / min(q, 1 - q))
    if stretches < wanted * (1 - 1e-9):
        reason = f"{name_of(q)} needs at least {wanted:.0f} stretches that do not resemble each other"
        return independent, reason, f"there are about {stretches:.0f}"
    # Requests in flight show how long a queue lasts; without them the values must.
    lacks = whole.too_dependent if whole.waiting is None else ("", None)
    return max(needed, min(independent, int(worth))), *lacks


def needed_for_quantile(q: float, level: float = 0.95) -> int:
    """The fewest independent values for which a two-sided interval at `level` exists: 368 for p99 at 95 %.

    Both tails must be reachable: `q**n <= (1-level)/2` and `(1-q)**n <= (1-level)/2`.
    """
    if not (0 < q < 1 and 0 < level < 1):
        raise ValueError(f"a quantile and its level lie between 0 and 1, not {q} and {level}")
    tail = (1 - level) / 2
    return max(1, math.ceil(math.log(tail) / math.log(max(q, 1 - q)) - 1e-9))


def interval_ranks(n: int, q: float, level: float) -> tuple[int, int]:
    """Ranks (from 1) of the order statistics that bound the `q` quantile of `n` values at `level` or better.

    The lower is the largest `l` with P(B < l) <= tail, the upper the smallest `u` with P(B >= u) <= tail,
    for B binomial(n, q) and tail half of 1 - level. Only meaningful from `needed_for_quantile` values on.
    """
    tail = (1 - level) / 2
    low = _first_count(n, q, tail * (1 + 1e-12), strictly_above=True)
    high = _first_count(n, q, (1 - tail) * (1 - 1e-12), strictly_above=False) + 1
    return max(1, low), min(n, high)


def _first_count(n: int, q: float, probability: float, *, strictly_above: bool) -> int:
    """The smallest k with P(B <= k) above (or at least) `probability`, by bisection."""
    low, high = -1, n
    while high - low > 1:
        middle = (low + high) // 2
        reached = float(bdtr(middle, n, q))
        if reached > probability or (not strictly_above and reached == probability):
            high = middle
        else:
            low = middle
    return high


def _point_ranks(n: int, q: float) -> tuple[int, int]:
    position = n * q
    whole = round(position)
    if abs(position - whole) < 1e-9 * max(1.0, n) and 1 <= whole < n:
        return whole, whole + 1
    rank = min(n, max(1, math.ceil(position)))
    return rank, rank


def _stretch(rank: int, independent: int, n: int) -> int:
    """A rank among `independent` values moved to the same height among `n`; the outermost stay outermost."""
    if independent == n:
        return rank
    return 1 + round((rank - 1) * (n - 1) / max(1, independent - 1))


def name_of(q: float) -> str:
    """Its usual name: p99 of 0.99."""
    return f"p{100 * q:.10g}"
