"""Means with intervals, of independent and of dependent values."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from twinlens.record.estimate import Estimate
from twinlens.stats.estimator.dependence import autocorrelation_time, careful_time, normal_scores, slow_time

# With fewer independent values the autocorrelation time itself is a guess, and so would the interval be.
FEWEST_INDEPENDENT = 5
# In fewer rows a dependence as strong as real runs have looks like chance: those that look independent cover 50-80 %.
FEWEST_ROWS = 100
# Of values with a long tail on one side, as divergences are: 8 prompts covered 77 to 87 %, 32 83 to 92 %.
FEWEST_SKEWED = 128
MOST_GROUPS = 200  # enough to see how rows vary, few enough that most of their dependence is inside them
_MOST_ERROR = 1.0  # of what cannot be below 0: beyond it neither a t interval nor its logarithm holds
_MOST_SKEW = 0.6  # of the half-width: a larger correction rests on one or two values


@dataclass(frozen=True, slots=True)
class Reach:
    """How far a mean's interval reaches to either side, and on how many independent values."""

    below: float
    above: float
    independent: float


def mean_interval(
    values: ArrayLike,
    *,
    unit: str,
    level: float = 0.95,
    method_suffix: str = "",
    seen: int | None = None,
    why_not: str = "",
) -> Estimate:
    """The mean of a series [n] in time order, with the interval that a rate of the same rows has (`reach_of_ratio`).

    Without interval below `FEWEST_ROWS` values or `FEWEST_INDEPENDENT` independent groups of them, where values above
    0 are so uneven that it would reach further than the mean itself, and where the caller knows a reason (`why_not`);
    absent for an empty series. `seen`: how many things the values are about, where these are means over intervals of
    time. Raises ValueError for values that are not finite.
    """
    series = np.asarray(values, dtype=np.float64).ravel()
    if not np.isfinite(series).all():
        raise ValueError("a mean is taken of finite values; leave absent ones out and say how many")
    if series.size == 0:
        return Estimate.absent(unit, "there are no values")
    mean = float(np.clip(series.mean(), series.min(), series.max()))
    of, rows = np.ones(series.size), series.size if seen is None else seen
    found, short, there = reach_of_ratio(series, of, level, rows, is_above_0=float(series.min()) > 0)
    if why_not or short:
        n, there = max(1, int(found.independent)), None if why_not else there
        return Estimate(mean, unit, f"mean{method_suffix}", "measured", n=n, no_interval=why_not or short, seen=there)
    return Estimate(
        mean,
        unit,
        f"mean, t interval over {int(found.independent)} independent groups of {series.size} values{method_suffix}",
        "measured",
        low=mean - found.below,
        high=mean + found.above,
        level=level,
        n=int(found.independent),
    )


def reach_of_ratio(
    amounts: NDArray[np.float64], of: NDArray[np.float64], level: float, seen: int, *, is_above_0: bool
) -> tuple[Reach, str, str | None]:
    """How far the interval of the mean of `amounts` reaches, for the mean `of` what they took (Σ `of` > 0): rows
    [n >= 1] in time order; why none can rest on them ("" where one can), and how many there were.

    That of a ratio of two means (Cochran 1977, 2.11): over at most `MOST_GROUPS` groups of rows on end, what each has
    beyond its share is a series of mean 0, whose standard error on its effective number of values is that of the ratio:
    by the careful time and by that of tenths and twentieths, as slow phases that come again outlast any window over
    lags. `seen`: how many rows count against `FEWEST_ROWS`. `is_above_0`: whether the mean cannot be 0, as a time; it
    then has no interval that reaches further than itself.
    """
    mean, spent, due = float(amounts.mean()), grouped(amounts), grouped(of / of.mean())
    excess = spent - due * mean
    found = reach(excess, level, max(careful_time(excess), slow_time(excess)))
    rows = amounts.size / excess.size
    found = Reach(found.below / rows, found.above / rows, found.independent)
    short, there = _too_short(seen, found.independent)
    if not short and is_above_0 and max(found.below, found.above) > _MOST_ERROR * mean:
        return found, "rows are so uneven that it is not known to within a factor of three", None
    return found, short, there


def grouped(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Sums over at most `MOST_GROUPS` groups of rows [n] on end, whose sizes differ by one at most."""
    groups = min(rows.size, MOST_GROUPS)
    return np.asarray(np.add.reduceat(rows, np.arange(groups) * rows.size // groups))


def mean_of_independent(
    values: ArrayLike, *, unit: str, level: float = 0.95, method_suffix: str = "", fewest: int = FEWEST_INDEPENDENT
) -> Estimate:
    """The mean of values [n] that have no order (prompts, say), with the t interval. Without interval below `fewest`.

    Values that may have a long tail on one side need `FEWEST_SKEWED`.
    """
    series = np.asarray(values, dtype=np.float64).ravel()
    if series.size == 0:
        return Estimate.absent(unit, "there are no values")
    mean, n = float(np.clip(series.mean(), series.min(), series.max())), series.size
    if n < fewest:
        why_not = f"none below {fewest} values"
        return Estimate(mean, unit, f"mean{method_suffix}", "measured", n=n, no_interval=why_not)
    below, above = _sides(series - mean, float(series.std(ddof=1)) / math.sqrt(n), n, level)
    method = f"mean, t interval on {n} values{method_suffix}"
    return Estimate(mean, unit, method, "measured", mean - below, mean + above, level, n)


def reach(series: NDArray[np.float64], level: float, tau: float | None = None) -> Reach:
    """How far the interval of the mean of a series [n >= 1] reaches. `tau`: its autocorrelation time, where known.

    Half-width t(n_eff - 1) · s · √(τ/n), τ the integrated autocorrelation time and s² corrected for the variance that
    correlated values hide, 1/(1 - τ/n) (Priestley 1981, 5.3). On the side of the longer tail it reaches further by
    Johnson's correction for skewness, γ (1 + 2t²)/(6 √n_eff) standard errors (Johnson 1978, "Modified t tests"): a
    mean of rows of which few are slow is more often too low than too high. 0 on both sides for a single value.
    """
    tau = autocorrelation_time(series) if tau is None else tau
    independent = series.size / tau
    if independent <= 1:
        return Reach(0.0, 0.0, independent)
    centred = series - series.mean()
    error = float(series.std()) / math.sqrt(1 - tau / series.size) * math.sqrt(tau / series.size)
    return Reach(*_sides(centred, error, independent, level), independent)


def _too_short(rows: int, independent: float) -> tuple[str, str | None]:
    """Why no interval within a run can rest on these rows, and how many there were; "" where one can."""
    if rows < FEWEST_ROWS:
        why = f"in fewer than {FEWEST_ROWS} rows it cannot be seen how far they depend on each other"
        return why, f"there are {rows}"
    return (f"fewer than {FEWEST_INDEPENDENT} independent values" if independent < FEWEST_INDEPENDENT else ""), None


def t_quantile(level: float, freedom: float) -> float:
    """The two-sided Student t factor: `t_quantile(0.95, 4)` is 2.776. `freedom` need not be whole."""
    if not (0 < level < 1 and freedom > 0):
        raise ValueError(f"a t factor needs a level in 0-1 and freedom above 0, not {level} and {freedom}")
    return float(scipy.special.stdtrit(freedom, (1 + level) / 2))


def _sides(centred: NDArray[np.float64], error: float, independent: float, level: float) -> tuple[float, float]:
    """How far below and above: t standard errors, and more on the side of the longer tail."""
    t = t_quantile(level, independent - 1)
    size = float(np.abs(centred).max())
    power = float(np.mean((centred / size) ** 2)) if size > 0 else 0.0
    if power <= 0:
        return t * error, t * error
    skew = float(np.mean((centred / size) ** 3)) / power**1.5
    shift = skew * (1 + 2 * t * t) / (6 * math.sqrt(independent))
    shift = min(_MOST_SKEW * t, max(-_MOST_SKEW * t, shift))
    return (t - min(0.0, shift)) * error, (t + max(0.0, shift)) * error


# The number of independent requests that a share rests on.

# A run that passes at its limit has seen less of a queue than is usual. Chosen on M/M/1 to M/M/64, M/D, G/M and M/G at
# loads 0.5 to 0.95, and on waves shorter than the run, so that one run in forty passes (docs/results/coverage.md).
_HIDDEN_DOUBT = 3.0
_LEVEL = 0.95


@dataclass(frozen=True, slots=True)
class Clustering:
    """How times [n] cluster: their normal scores [n], and for how many requests slow stays slow. Made once for all
    shares that they decide."""

    scores: np.ndarray
    lasts: float


@dataclass(frozen=True, slots=True)
class Queue:
    """The number `in_flight` [n] when each request was due, and for how many requests it resembles itself."""

    in_flight: np.ndarray
    lasts: float

    def of(self, chosen: np.ndarray) -> Queue:
        """The same, seen by the `chosen` [n] requests only."""
        return Queue(self.in_flight[chosen], self.lasts)


def clustering(times: np.ndarray) -> Clustering:
    """Of `times` [n], `inf` where a request failed: as they are, and of their ranks, which no giant hides.

    Each is raised by its own error: runs that pass are those that looked calm, so the doubt must be on that side.
    """
    if not np.isfinite(times).any():
        return Clustering(np.zeros(times.size), 1.0)
    known = _known(times)
    if known.min() == known.max():  # all of one rank
        return Clustering(np.zeros(times.size), 1.0)
    scores = normal_scores(known)
    return Clustering(scores, max(careful_time(known, 1.0), careful_time(scores, 2.0)))


def queue(in_flight: np.ndarray) -> Queue:
    """Of the number in flight [n] when each request was due."""
    return Queue(in_flight, max(careful_time(in_flight), slow_time(in_flight)))


def independent_requests(
    hits: np.ndarray, times: Iterable[np.ndarray | Clustering] = (), in_flight: np.ndarray | Queue | None = None
) -> float:
    """How many independent requests the share of `hits` [n >= 1] in time order rests on, from 1 to n.

    What their clustering leaves of n. It is read from the hits and, as few misses say little of how misses cluster,
    from the `times` [n] each that decide them, `inf` where a request failed: what queues for one moment of a server
    resembles its neighbours long before the first of them misses. Before many servers the noise of single services
    hides that. There the number `in_flight` [n] when each was due shows how long a queue lasts, and its correlation
    with hits and times how much of them it decides.
    """
    n, series = hits.size, [each if isinstance(each, Clustering) else clustering(each) for each in times]
    decided = hits.astype(float)
    lasting = [_as_known(max(careful_time(decided, 2.0), *(each.lasts for each in series), 1.0), n)]
    if in_flight is not None:
        waiting = in_flight if isinstance(in_flight, Queue) else queue(in_flight)
        lasting.append(_queue_time([decided, *(each.scores for each in series)], waiting))
    return max(1.0, n / max(lasting))


def _as_known(lasts: float, n: int) -> float:
    """A time of `lasts` requests, longer as a run of n has shown it less often: n / lasts times in all.

    A variance that is known from so few stretches makes Student's t of the normal factor, so t² / z² of the time.
    """
    factor = t_quantile(_LEVEL, n / lasts) / float(scipy.special.ndtri((1 + _LEVEL) / 2))
    return 1.0 + (lasts - 1.0) * factor**2


def _queue_time(series: list[np.ndarray], waiting: Queue) -> float:
    """For how many requests the queue makes `series` [n] each resemble their neighbours: as long as it lasts itself, by
    the share of their variance that it explains. The less it explains, the more of it is hidden, and the more is added.
    """
    n = waiting.in_flight.size
    explained = max((_explained(one, waiting.in_flight) for one in series), default=0.0)
    doubt = _HIDDEN_DOUBT - (_HIDDEN_DOUBT - 1.0) * explained
    lasts = min(float(n), doubt * waiting.lasts)
    return 1.0 + explained * (_as_known(lasts, n) - 1.0)


def _explained(series: np.ndarray, by: np.ndarray) -> float:
    """The squared correlation of two series [n]; 0 where one does not vary."""
    if series.std() == 0 or by.std() == 0:
        return 0.0
    return float(np.corrcoef(series, by)[0, 1] ** 2)


def _known(times: np.ndarray) -> np.ndarray:
    """`times` with the largest in the place of those that never came."""
    answered = np.isfinite(times)
    return np.where(answered, times, times[answered].max())
