"""The steady segment of a run, or what the run did instead; peak and retained rate within it.

Change points in log row time (after Barrett et al. 2017, "Virtual Machine Warmup Blows Hot and Cold"), the level
the run settled at, and the first row that reached it: from there to the end, all rows count, whatever happens.
Only the search for levels sets outliers aside; no row is ever dropped from a rate. No steady state is an
ordinary answer.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from twinlens.record.estimate import Estimate
from twinlens.record.finding import Finding, Validity
from twinlens.stats.estimator.dependence import FEWEST_WINDOWS, noise_alone
from twinlens.stats.steady.disturbed import UNDISTURBED, Disturbed
from twinlens.stats.steady.label import Label, judge
from twinlens.stats.steady.levels import SteadyRule, block_rows, group_edges, window_count
from twinlens.stats.steady.slope import Trend, least_visible_change, trend_of
from twinlens.units import RATIO


@dataclass(frozen=True, slots=True)
class Steadiness:
    """The segmentation of a run of n rows. Row indexes count from 0; windows and the steady part are half open.

    `steady_begin:steady_end` is the window sustained numbers are taken over; where the run is not
    valid they describe that window and nothing more. `windows` [w + 1] are edges over all n rows,
    `window_rate` [w] their work per second, `peak_window_rate` the best of them. `slope_ratio` is the
    relative change of row time over the steady window. `cv` is the spread of row time over its mean
    there, stalls included; None for a single row. `period_rows` is the length of a cycle, if there is
    one. `disturbed`: the stretches of the window that left its level; they are in every figure.
    `least_visible_change`: the smallest relative change over the window that four in five such runs
    would have shown, over as many seconds as the rule asks for; None where no slope could be tested. `trend`: what
    runs of one point are judged together by. `noise_retention`: mean over best window if
    the rows of the steady part came in any other order; None below ten windows.
    """

    label: Label
    validity: Validity
    reason: Finding
    steady_begin: int
    steady_end: int
    windows: tuple[int, ...]
    window_rate: tuple[float, ...]
    peak_window_rate: float
    slope_ratio: Estimate
    cv: float | None
    period_rows: int | None = None
    disturbed: Disturbed = UNDISTURBED
    least_visible_change: float | None = None
    noise_retention: float | None = None
    trend: Trend | None = None


VALIDITY: dict[str, Validity] = {"flat": "valid", "warm-up": "valid", "unproven": "provisional"}
"""The state that follows from a label of steadiness; of all others it is not valid."""


def segment(
    durations_s: ArrayLike,
    *,
    work: ArrayLike | None = None,
    tagged_rows: ArrayLike = (),
    rule: SteadyRule = SteadyRule(),
    weight: ArrayLike | None = None,
) -> Steadiness:
    """Label a run from its row times [n >= 1], in order, in seconds.

    `work` [n] is what each row did (tokens, samples), 1 each by default; levels are of time per work and
    rates are work per second. `tagged_rows` are indexes of rows known to compile or tune: the steady part
    begins after those of the start, which end where `rule.min_rows` rows on end have no tag. `weight` [n]:
    how much a row counts in the figure that disturbances are weighed by, its work by default. Raises
    ValueError for times, work or weights that are not finite and positive, for no rows, and for a tag
    outside 0 … n-1.
    """
    time_s = _positive(durations_s, "row times")
    done = np.ones_like(time_s) if work is None else _positive(work, "work")
    if done.size != time_s.size:
        raise ValueError(f"every row has its work: {time_s.size} rows, {done.size} amounts")
    tags = np.asarray(tagged_rows, dtype=np.int64).ravel()
    if tags.size and not (tags.min() >= 0 and tags.max() < time_s.size):
        raise ValueError(f"a tagged row is one of 0 … {time_s.size - 1}, not {tags.min()} … {tags.max()}")
    after_tags = _after_start(np.unique(tags), rule.min_rows)
    log_time = np.log(time_s) - np.log(done)
    counts = None if weight is None else _positive(weight, "weights")
    found = judge(time_s, log_time, after_tags, rule, counts)
    inside = slice(found.begin, None)
    weight_inside = (done if counts is None else counts)[inside]
    short = max(1.0, rule.min_seconds / max(float(time_s[inside].sum()), 1e-9))
    edges = group_edges(time_s.size, window_count(time_s.size, rule))
    with np.errstate(over="ignore", under="ignore"):  # absurd clocks give an infinite rate, never a failure
        rate = np.add.reduceat(done, edges[:-1]) / np.add.reduceat(time_s, edges[:-1])
    return Steadiness(
        label=found.label,
        validity=VALIDITY.get(found.label, "not valid"),
        reason=found.reason,
        steady_begin=found.begin,
        steady_end=time_s.size,
        windows=tuple(edges.tolist()),
        window_rate=tuple(rate.tolist()),
        peak_window_rate=float(rate.max()),
        slope_ratio=found.slope,
        cv=_cv(log_time[found.begin :]),
        period_rows=found.period_rows,
        disturbed=found.disturbed,
        least_visible_change=_times(least_visible_change(found.slope, rule.delta), short),
        noise_retention=_noise_retention(time_s[inside], done[inside], time_s.size, rule),
        trend=trend_of(log_time[inside], weight_inside, found.slope, found.later, rule, short)
        if found.begin < time_s.size
        else None,
    )


def _times(change: float | None, short: float) -> float | None:
    """A change over the window, over as long as the protocol asks: what is slow has more time there."""
    return None if change is None else change * short


def _noise_retention(
    time_s: NDArray[np.float64], work: NDArray[np.float64], rows: int, rule: SteadyRule
) -> float | None:
    windows = window_count(rows, rule) * time_s.size // rows
    if windows < FEWEST_WINDOWS:
        return None
    alike = block_rows(np.log(time_s) - np.log(work), rows, rule.trend_blocks)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        found = noise_alone(time_s, work, windows, alike)
    return found if found is not None and np.isfinite(found) else None


def _after_start(tags: NDArray[np.int64], fewest: int) -> int:
    """The first row after the tagged ones of the start: those before the first `fewest` rows on end without a tag.

    A compilation later than that is a stall like any other.
    """
    gaps = np.diff(tags, prepend=-1) > fewest
    start = tags[: int(gaps.argmax())] if gaps.any() else tags
    return int(start[-1]) + 1 if start.size else 0


def _cv(log_time: NDArray[np.float64]) -> float | None:
    """Spread over mean of row times, from their logs, so that no size of number overflows."""
    if log_time.size < 2:
        return None
    scaled = np.exp(log_time - log_time.max())
    return float(scaled.std(ddof=1) / scaled.mean())


def _positive(values: ArrayLike, what: str) -> NDArray[np.float64]:
    array = np.asarray(values, dtype=np.float64).ravel()
    if array.size == 0 or not (np.isfinite(array).all() and (array > 0).all()):
        raise ValueError(f"{what} are one or more finite, positive numbers")
    return array


# Peak and sustained rates, kept apart, and how much of the one the other retains.


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
