"""Differences on the same arrivals, and the choice among admission policies by them.

Queues make times depend on each other for longer than a run can show, and a p99 of 480 requests rests on five. So the
arrivals are cut into few long stretches, both points are compared in each, and the interval is that of the median
stretch by the signs alone, which needs no shape and no variance. It is a tenth wider, as neighbouring stretches of a
queue resemble each other, and none where a run is one long swing of its queue. Coverage and its end, near saturation:
docs/results/coverage-arrivals.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import scipy
from numpy.typing import NDArray

from twinlens.record.estimate import Estimate
from twinlens.record.request import Requests
from twinlens.record.run import Run
from twinlens.stats.estimator.dependence import worth_of_means
from twinlens.stats.estimator.quantile import interval_ranks, name_of, needed_for_quantile
from twinlens.stats.estimator.ratio import difference
from twinlens.stats.estimator.repeats import widened_difference
from twinlens.stats.serving.latency import Latency, latency
from twinlens.stats.summary.group import Group, Summary
from twinlens.stats.summary.point import quantile_of
from twinlens.units import RATIO, SECONDS

STRETCHES = 7
"""Of one run, or of all repeats together: the fewest whose signs show a difference at 98 %. More are shorter, and those
of a queue then depend on each other."""
_LEAST_ROWS = 60
"""Of a stretch: the slowest of 69 is as likely above p99 as below it; shorter ones of a queue resemble each other."""
_SIGNS = 0.98  # what signs must hold of independent stretches, so that 95 % is left of those in a queue
_WIDER = (
    0.1  # of the distance of the two bounds, to either side: at nine tenths of capacity signs alone hold 91 to 94 %
)
_LEAST_WORTH = 1.5
"""n (1 - ρ)² of means of eight times, of each side: below, waits of a whole run are one swing of its queue, and equal
policies were told apart in a fifth of such runs."""
MOST_ROWS = 400_000
"""Of both sides: beyond, quantiles have intervals of their own, and rows are not read once more."""
_SAME_SHARE = 0.9  # of the longer run's arrivals: a run may have ended a little earlier

Times = NDArray[np.float64]
_COLUMNS = {"ttft_s": "ttft_s", "ttfat_s": "ttfat_s", "tpot_s": "tpot_s", "e2e_latency_s": "e2e_s", "hold_s": "held_s"}


@dataclass(frozen=True, slots=True)
class OfArrivals:
    """b against a in one quantile: `difference` (b less a) and `ratio` (b over a) of the median stretch.

    `arrivals`: how many both met, in `stretches`; `chance`: how often stretches of equal points would lie as far to one
    side (t of their log ratios).
    """

    difference: Estimate
    ratio: Estimate
    arrivals: int
    stretches: int
    chance: float


Shared = Sequence[tuple[Latency, Latency]]
"""The latencies of both in each repeat, of the same arrivals in their order."""


def shared_arrivals(a: Group, b: Group, runs: Mapping[str, Run]) -> Shared | None:
    """The requests that both met, in the windows of both. `runs`: by id of the run.

    None where their repeats did not meet the same arrivals, or are of so many rows that they need no pairs.
    """
    if any(group.point.get("rate_per_s") is None for group in (a, b)):
        return None
    sides = [{run.repeat: run for run in group.runs if run.state == "finished"} for group in (a, b)]
    both = [run for side in sides for run in side.values()]
    if not both or sides[0].keys() != sides[1].keys() or any(run.run not in runs for run in both):
        return None
    if sum(run.rows for run in both) > MOST_ROWS:
        return None
    pairs = [_together(sides[0][repeat], sides[1][repeat], runs) for repeat in sorted(sides[0])]
    known = [pair for pair in pairs if pair is not None]
    return known if len(known) == len(pairs) else None


def of_arrivals(shared: Shared | None, metric: str, *, level: float = 0.95) -> OfArrivals | None:
    """The quantile `metric` of b against that of a.

    None where nothing is shared, where `metric` is no quantile of a time of each request, or where there are too few
    requests, or too many that failed, for `STRETCHES`.
    """
    q, column = quantile_of(metric), _COLUMNS.get(metric.rpartition("_p")[0])
    if shared is None or q is None or column is None or needed_for_quantile(0.5, level) > STRETCHES:
        return None
    return over_stretches([_known(getattr(a, column), getattr(b, column)) for a, b in shared], q, level=level)


def over_stretches(pairs: Sequence[tuple[Times, Times]], q: float, *, level: float = 0.95) -> OfArrivals | None:
    """The `q` quantile of b against a over repeats, each a pair of times [n] in the order of their arrivals, seconds.

    The interval runs between order statistics of the stretches (binomial law of the median), no narrower than the
    medians of the repeats, and a tenth wider. None where there are too few requests, or their times depend on each
    other for as long as the runs are.
    """
    each = -(-STRETCHES // len(pairs))
    if min(a.size for a, _ in pairs) < each * _LEAST_ROWS:
        return None
    if min(sum(worth_of_means(_ended(pair[side])) for pair in pairs) for side in (0, 1)) < _LEAST_WORTH:
        return None
    of_a, of_b = (np.array([of_stretches(pair[side], q, each) for pair in pairs]) for side in (0, 1))
    if not (np.isfinite(of_a).all() and np.isfinite(of_b).all()):
        return None
    arrivals, count = sum(a.size for a, _ in pairs), each * len(pairs)
    said = f"{name_of(q)} of the same {arrivals} arrivals under both, median of {count} stretches, interval by signs"
    ratios = np.log(of_b / of_a) if min(of_a.min(), of_b.min()) > 0 else None
    return OfArrivals(
        _median(of_b - of_a, SECONDS, said, level),
        Estimate.absent(RATIO, "a ratio needs values above 0; see the difference")
        if ratios is None
        else _median(ratios, RATIO, said, level, is_log=True),
        arrivals,
        count,
        _chance(of_b - of_a if ratios is None else ratios),
    )


def _ended(times: Times) -> Times:
    """Failures as slow as the slowest that ended: a level of their own would be all that correlations see."""
    ended = times[np.isfinite(times)]
    return np.minimum(times, ended.max()) if ended.size else np.zeros(times.size)


def of_stretches(times: Times, q: float, count: int) -> list[float]:
    """The quantile of each of `count` stretches, unbiased in the median; `inf` where it falls among failures."""
    edges = np.linspace(0, times.size, count + 1).astype(int)
    with np.errstate(invalid="ignore"):
        return [float(np.quantile(times[begin:end], q, method="median_unbiased")) for begin, end in pairwise(edges)]


def _median(values: Times, unit: str, method: str, level: float, *, is_log: bool = False) -> Estimate:
    """Of stretches [repeats, stretches of each]."""
    ordered, of_runs = np.sort(values, axis=None), np.median(values, axis=1)
    low, high = (float(ordered[rank - 1]) for rank in interval_ranks(ordered.size, 0.5, max(level, _SIGNS)))
    low, high = min(low, float(of_runs.min())), max(high, float(of_runs.max()))
    wider = _WIDER * (high - low)
    found = [float(np.median(ordered)), low - wider, high + wider]
    value, low, high = (math.exp(min(each, 700.0)) for each in found) if is_log else found
    return Estimate(value, unit, method, "measured", low, high, level, ordered.size)


def _chance(values: Times) -> float:
    spread = float(values.std(ddof=1)) / math.sqrt(values.size)
    if spread == 0:
        return 0.0 if values.any() else 1.0
    return 2 * float(scipy.special.stdtr(values.size - 1, -abs(float(values.mean())) / spread))


def _known(a: Times, b: Times) -> tuple[Times, Times]:
    """Without requests of which one of the two says nothing, as an answer of one token says nothing of TPOT."""
    known = ~np.isnan(a) & ~np.isnan(b)
    return a[known], b[known]


def _together(a: Summary, b: Summary, runs: Mapping[str, Run]) -> tuple[Latency, Latency] | None:
    """Both over the arrivals in the windows of both; None where these are not the same."""
    ours, theirs = runs[a.run].requests, runs[b.run].requests
    if (rows := _shared(ours, theirs)) is None:
        return None
    due_s = ours.intended_ns[rows[0]] / 1e9
    begin_s, end_s = max(a.verdict.begin_s, b.verdict.begin_s), min(a.verdict.end_s, b.verdict.end_s)
    inside = (due_s >= begin_s) & (due_s <= end_s)
    return (latency(ours, rows[0][inside]), latency(theirs, rows[1][inside])) if inside.any() else None


def _shared(a: Requests, b: Requests) -> tuple[np.ndarray, np.ndarray] | None:
    """Rows of both in the order of their arrivals, where these are equal to the nanosecond and ask for as many tokens;
    None where they are not, or where several came at one moment and cannot be told from each other."""
    orders = [np.argsort(each.intended_ns, kind="stable") for each in (a, b)]
    size = min(len(a), len(b))
    if size < max(2, _SAME_SHARE * max(len(a), len(b))):
        return None
    first, second = (order[:size] for order in orders)
    due_ns = a.intended_ns[first]
    same = np.array_equal(due_ns, b.intended_ns[second]) and bool((np.diff(due_ns) > 0).all())
    same = same and np.array_equal(a.asked_tokens[first], b.asked_tokens[second], equal_nan=True)
    return (first, second) if same else None


# The admission policy with the lowest tail: decided by the interval of the difference, or not at all. Pure.
# Where policies met the same arrivals, the difference is that of the same requests under both.


@dataclass(frozen=True, slots=True)
class TailDifference:
    """How much more a policy takes than the best one, seconds; None bounds where one of the two has no interval.

    `arrivals`: how many requests both met, where the difference is of these; None where it is of two intervals.
    `stretches`: into how many they were cut.
    """

    other: Group
    more_s: float
    low_s: float | None
    high_s: float | None
    arrivals: int | None = None
    stretches: int | None = None

    @property
    def is_told_apart(self) -> bool:
        """Whether the interval of the difference lies above 0."""
        return self.low_s is not None and self.low_s > 0


@dataclass(frozen=True, slots=True)
class Choice:
    """The policy with the lowest `metric` among those that are ranked (None: none has it), and the others against it.

    `left_out`: those that are not ranked or have too few requests for the quantile.
    """

    metric: str
    best: Group | None
    differences: tuple[TailDifference, ...]
    left_out: tuple[Group, ...]


def choose(groups: Sequence[Group], metric: str, runs: Mapping[str, Run] | None = None) -> Choice:
    """The best of points that differ only in how requests were held back. `metric`: a time, less is better.

    `runs`: those of the groups by id, whose rows say whether they met the same arrivals.
    """
    known = [group for group in groups if group.ranked and _value(group, metric) is not None]
    left_out = tuple(group for group in groups if group not in known)
    if len(known) < 2:
        return Choice(metric, None, (), tuple(groups))
    ordered = sorted(known, key=lambda group: _value(group, metric) or 0.0)
    best, *others = ordered
    return Choice(metric, best, tuple(_against(best, group, metric, runs or {}) for group in others), left_out)


def _value(group: Group, metric: str) -> float | None:
    estimate = group.metrics.get(metric)
    return None if estimate is None or estimate.value is None or not math.isfinite(estimate.value) else estimate.value


def _against(best: Group, other: Group, metric: str, runs: Mapping[str, Run]) -> TailDifference:
    a, b = best.metrics[metric], other.metrics[metric]
    if (paired := of_arrivals(shared_arrivals(best, other, runs), metric)) is not None:
        more = widened_difference(paired.difference, a, b)
        return TailDifference(other, more.value or 0.0, more.low, more.high, paired.arrivals, paired.stretches)
    # As if both were independent: points that met the same arrivals differ by less, so it is on the safe side.
    apart = difference(b, a)
    return TailDifference(other, apart.value or 0.0, apart.low, apart.high)
