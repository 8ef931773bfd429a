"""Quantiles with intervals: of one run, with requests that failed, and of repeats together.

The point is the inverse of the empirical distribution, averaged at its steps (definition 2 of Hyndman &
Fan 1996): `x[ceil(nq)]`, or the mean of `x[nq]` and `x[nq+1]` where `nq` is whole. No other interpolation
is done, so a quantile is a value that was seen or the middle of two neighbours. The interval runs between
two order statistics whose ranks come from the binomial law (David & Nagaraja 2003, 7.1): it needs no
shape, only independent values.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from twinlens.record.estimate import Estimate, Spread
from twinlens.stats.estimator.dependence import careful_time
from twinlens.stats.estimator.interval import FEWEST_ROWS, Queue, t_quantile
from twinlens.stats.estimator.rate import Series
from twinlens.stats.estimator.repeats import FEWEST_RUNS

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
        reached = float(scipy.special.bdtr(middle, n, q))
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


# Quantiles of values some of which never came: a request that failed is slower than any that did not.


class Censored:
    """Non-negative values [n] in time order, `inf` where one never came, and what their quantiles share.

    `together` and `waiting` are as in `Series`. Raises ValueError for NaN and for values below 0.
    """

    def __init__(self, values: ArrayLike, together: int = 1, waiting: Queue | None = None) -> None:
        series = np.asarray(values, dtype=np.float64).ravel()
        if series.size and not series.min() >= 0:  # NaN is no more than that either
            raise ValueError("a censored quantile is taken of values from 0 up, inf for those that never came")
        lost = np.isinf(series) if series.size and np.isinf(series.max()) else np.zeros(1, bool)
        self.size, self.lost = series.size, int(np.count_nonzero(lost))
        self.most = float(series[~lost].max()) if 0 < self.lost < self.size else math.inf
        # A stand-in so large that even its mean with the largest real value is told from every real value.
        known = np.where(lost, 3 * self.most + 1, series) if 0 < self.lost < self.size else series
        few = self.lost < self.size or not self.size
        self.series = Series(known, together, waiting, self.lost) if few else None


def censored_quantile(
    values: ArrayLike | Censored,
    q: float,
    *,
    unit: str,
    what: str,
    level: float = 0.95,
    together: int = 1,
    why_not: str = "",
) -> Estimate:
    """The `q` quantile of non-negative `values` [n] in time order, in which a failure is `inf` and so the largest.

    Where the quantile itself falls among the failures it is absent, and the reason counts them (`what` names them,
    e.g. "requests"); where only its upper bound does, `high` is None. So a failure never makes a quantile smaller.
    Absent below `needed_for_quantile` values. Where there are as many, but slow ones come in so few clusters that no
    interval can be given (one stall, say), the value stands without one: it is what happened in this run. `together`
    and `why_not` are as in `quantile`. Several quantiles of the same values are faster of a `Censored`.
    Raises ValueError for NaN and for values below 0.
    """
    whole = values if isinstance(values, Censored) else Censored(values, together)
    count = f"{whole.lost} of {whole.size} {what} that failed"
    among = Estimate.absent(unit, f"p{100 * q:.10g} falls among the {count}")
    if whole.series is None:
        return replace(among, spread=Spread(whole.size, (), (), 1.0))
    found = quantile(whole.series, q, unit=unit, level=level, in_time_order=True, why_not=why_not)
    if found.value is None or not whole.lost:
        return found
    most = whole.most
    if found.value > most:
        return replace(among, spread=found.spread)
    method = f"{found.method}; the {count} count as slower than any"
    if found.high is not None and found.high > most:
        return replace(found, high=None, method=f"{method}, and the upper bound falls among them")
    return replace(found, method=method)


# Quantiles of repeated runs: of all their values together, as the quantile of a short run lies too low.

Floats = NDArray[np.float64]


def pooled_quantile(
    runs: Sequence[Spread], q: float, *, unit: str, level: float = 0.95, is_within: bool = False
) -> Estimate:
    """The `q` quantile of the values of R >= 2 runs together, with an interval from `FEWEST_RUNS` runs on.

    It runs between order statistics of the pooled values, by as many independent ones as the runs count together, and
    to no side less far than t(R-1) · s / √R, s the spread of the runs' own quantiles: runs may differ by more than
    their requests do. None below `needed_for_quantile` independent values: the mean of the quantiles of runs that are
    too short is too low, the more surely the more of them there are. Two runs have their range, no level. Absent below
    that number of values at all, or where the quantile falls among those that never came.
    `is_within`: the order statistics alone, for whoever adds how far runs differ. Raises ValueError below two runs.
    """
    if len(runs) < 2:
        raise ValueError("values are pooled of two runs or more")
    needed, size = needed_for_quantile(q, level), sum(run.size for run in runs)
    if size < needed:
        return Estimate.absent(unit, f"{name_of(q)} needs at least {needed} values", seen=f"there are {size}")
    value = _at(runs, q)
    if value is None:
        return Estimate.absent(unit, f"{name_of(q)} falls among the {_lost(runs)} of {size} that failed")
    own = own_quantiles(runs, q)
    method = f"{name_of(q)} of the {size} values of {len(runs)} runs in fresh processes together"
    known = [each for each in own if each is not None]
    if len(runs) < FEWEST_RUNS:
        most = None if len(known) < len(runs) else max(value, *known)
        said = f"{method}, with the runs' own; no confidence claimed"
        return Estimate(value, unit, said, "measured", min(value, *known), most, n=len(runs))
    independent = int(sum(run.independent for run in runs))
    if independent < needed:
        why = f"{name_of(q)} needs at least {needed} independent values over all runs"
        seen = f"there are about {independent} among {size}"
        return Estimate(value, unit, method, "measured", n=len(runs), no_interval=why, seen=seen)
    least, high = (_at(runs, share) for share in _bounds(independent, q, level))
    least = value if least is None else least  # it is below the value, so it came
    method += f", order statistics of {independent} independent ones, no narrower than runs differ"
    half = 0.0 if is_within else _between(known, level)
    top = None if high is None or len(known) < len(runs) else max(high, value + half)
    return Estimate(value, unit, method, "measured", max(0.0, min(least, value - half)), top, level, len(runs))


def own_quantiles(runs: Sequence[Spread], q: float) -> list[float | None]:
    """The quantile of each run by itself [R]; None where it falls among those that never came."""
    return [_at([run], q) for run in runs]


def _between(own: Sequence[float], level: float) -> float:
    """t · s / √R of the runs' own quantiles."""
    return t_quantile(level, len(own) - 1) * float(np.std(own, ddof=1)) / math.sqrt(len(own)) if len(own) > 1 else 0.0


def _bounds(independent: int, q: float, level: float) -> tuple[float, float]:
    """The shares of the pooled values at which the two order statistics stand; the outermost stay outermost."""
    return tuple((rank - 1) / max(1, independent - 1) for rank in interval_ranks(independent, q, level))  # type: ignore[return-value]


def _at(runs: Sequence[Spread], share: float) -> float | None:
    """The value below which `share` of all values lie; None where it never came."""
    known = [run for run in runs if run.values]
    if not known:
        return None
    size = sum(run.size for run in runs)
    places = np.unique(np.concatenate([run.values for run in known]))
    below = np.sum([_below(run, places) for run in known], axis=0)
    wanted = share * size
    if wanted > float(below[-1]) + 1e-9 * size:
        return None
    return float(np.interp(wanted, below, places))


def _below(run: Spread, places: Floats) -> Floats:
    """How many values of a run are at most each of `places` [k], between its points by a straight line."""
    return np.asarray(np.interp(places, run.values, run.ranks, left=0.0))


def _lost(runs: Sequence[Spread]) -> int:
    return sum(run.size - (run.ranks[-1] if run.ranks else 0) for run in runs)
