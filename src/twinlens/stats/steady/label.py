"""The label of a run, from its row times: the steps behind `steady.segment`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from twinlens.record.estimate import Estimate
from twinlens.stats.estimator.bootstrap import mean_error
from twinlens.stats.estimator.trend import theil_sen
from twinlens.stats.steady.changepoint import leading_outliers, leading_return, winsorised
from twinlens.stats.steady.cycle import find_cycle
from twinlens.stats.steady.disturbed import UNDISTURBED, Disturbed, weigh
from twinlens.stats.steady.levels import (
    Level,
    Same,
    best_step,
    block_rows,
    differ,
    find_levels,
    first_reached,
    group_edges,
    group_means,
    is_line,
    noise,
    settled_level,
)
from twinlens.stats.steady.rule import SteadyRule
from twinlens.units import RATIO

Label = Literal[
    "flat", "warm-up", "unproven", "disturbed", "slowdown", "drift", "cyclic", "no steady state", "too short"
]

_POWER_ERRORS = 0.84  # standard errors by which a change must be larger than the test's bound to be seen in 4 of 5 runs


@dataclass(frozen=True, slots=True)
class Judgement:
    """A label, why, the first row it is about, the slope from there on, and what left the level meanwhile."""

    label: Label
    reason: str
    begin: int
    slope: Estimate
    period_rows: int | None = None
    disturbed: Disturbed = UNDISTURBED


@dataclass(frozen=True, slots=True)
class _Trace:
    """Rows after the start: their times, log times and weights, calm log times, and means of these between `edges`."""

    time_s: NDArray[np.float64]
    log_time: NDArray[np.float64]
    weight: NDArray[np.float64]
    calm: NDArray[np.float64]
    edges: NDArray[np.int64]
    points: NDArray[np.float64]
    block: int
    skipped: int

    def row(self, point: int) -> int:
        return int(self.edges[point])


def judge(
    time_s: NDArray[np.float64],
    log_time: NDArray[np.float64],
    after_tags: int,
    rule: SteadyRule,
    weight: NDArray[np.float64] | None = None,
) -> Judgement:
    """The judgement on row times [n] and their logs per work; the first `after_tags` rows are the start.

    `weight` [n]: how much a row counts in the figure that is reported, its work by default.
    """
    begin = after_tags + leading_outliers(log_time[after_tags:], rule.delta)
    shortage = _shortage(time_s[begin:], max(2, rule.min_rows), rule.min_seconds)
    if shortage:
        untested = Estimate.absent(RATIO, "the rows are too few for a slope")
        return Judgement("too short", f"of {time_s.size} rows, {shortage} after the start", begin, untested)
    if weight is None:
        work = np.log(time_s) - log_time
        weight = np.exp(work - work.max())
    calm = winsorised(log_time[begin:])
    block = block_rows(calm, rule.points, rule.trend_blocks)
    edges = group_edges(calm.size, calm.size // block)
    points = group_means(calm, edges)
    trace = _Trace(time_s[begin:], log_time[begin:], weight[begin:], calm, edges, points, block, begin)
    levels = find_levels(trace.points, rule.penalty)
    turn = find_cycle(calm, [trace.row(level.begin) for level in levels], rule)
    if turn is not None:
        size, rows = turn
        reason = f"row time swings by {100 * size:.3g} % about every {rows} rows"
        return Judgement("cyclic", reason, begin, _slope(trace, 0, rule), rows)
    return _settle(trace, levels, rule)


def _settle(trace: _Trace, levels: tuple[Level, ...], rule: SteadyRule, refined: bool = False) -> Judgement:
    """The label once a cycle is ruled out."""
    points, size = trace.points, trace.points.size
    spread, transient = noise(points, levels), round(rule.transient_fraction * size)

    def same(a: Level, b: Level) -> bool:
        return not differ(a, b, spread, rule.delta, rule.errors)

    home = settled_level(levels, same, rule.min_fraction * size, transient)
    near = float(np.log1p(rule.near))
    at = len(levels) - 1 if home is None else first_reached(levels, home, same, transient, near)
    for start in range(at + 1):
        long_enough = size - levels[start].begin >= rule.min_fraction * size
        if long_enough and is_line(points, levels[start:], rule.delta):
            return _drift(trace, trace.row(levels[start].begin), rule)
    if home is None:
        return _unsteady(trace, f"no level holds for {100 * rule.min_fraction:.0f} % of the rows", rule)
    row, away = _window(trace, levels, at, lambda level: same(level, home), rule)
    disturbed = weigh(
        away,
        trace.time_s[row:],
        trace.log_time[row:],
        trace.weight[row:],
        trace.skipped + row,
        rule.delta,
        rule.transient_fraction,
    )
    fewest = max(rule.min_rows, int(np.ceil(rule.min_fraction * trace.calm.size)))
    shortage = _shortage(trace.time_s[row:][~away], fewest, rule.min_seconds)
    if shortage and not disturbed.heavy:
        reason = f"the level that was reached at row {trace.skipped + row} has {shortage}"
        return _unsteady(trace, reason, rule)
    slope = _slope(trace, row, rule, away)
    if _moves(slope, rule.delta):
        begin = levels[at].begin
        step = None if refined or disturbed.stretches else best_step(points[begin:])
        if step is None:
            return _drift(trace, row, rule, away, disturbed)
        halves = tuple(Level(b, e, float(points[b:e].mean())) for b, e in ((begin, begin + step), (begin + step, size)))
        return _settle(trace, (*levels[:at], *halves), rule, refined=True)
    faster = _faster(levels[:at], home, same, transient)
    if faster is not None:
        label: Label = "slowdown"
        reason = _slowdown_reason(trace, faster, home)
    elif disturbed.heavy:
        label, reason = "disturbed", _disturbed_reason(disturbed)
    else:
        wanders = _wanders(trace, row, rule)
        if wanders:
            return _unsteady(trace, wanders, rule)
        label, reason = _level(trace, row, least_visible_change(slope, rule.delta), rule)
    return Judgement(label, reason, trace.skipped + row, slope, disturbed=disturbed)


def least_visible_change(slope: Estimate, delta: float) -> float | None:
    """The smallest relative change from the first row of a window to its last that four in five such runs would have
    shown, from the interval of its slope; None without one. A step half way is seen alike, a later one must be larger.
    """
    if slope.low is None or slope.high is None or slope.level is None:
        return None
    errors = float(ndtri((1 + slope.level) / 2))
    return max(delta, (slope.high - slope.low) / 2 * (errors + _POWER_ERRORS) / errors)


def _level(trace: _Trace, row: int, visible: float | None, rule: SteadyRule) -> tuple[Label, str]:
    rows = trace.calm.size - row
    if visible is None:
        return "unproven", f"no change showed in {rows} rows, which are too few that depend on each other for a slope"
    size = f"{100 * visible:.2g} %"
    if visible > rule.most_hidden:
        return "unproven", f"no change showed in {rows} rows, but one of less than {size} would hardly have"
    sure = f"a change of {size} would have shown"
    if trace.skipped + row == 0:
        return "flat", f"one level over all {rows} rows: {sure}"
    return "warm-up", f"one level from row {trace.skipped + row} on, {rows} rows long: {sure}"


def _window(
    trace: _Trace, levels: tuple[Level, ...], at: int, is_home: Callable[[Level], bool], rule: SteadyRule
) -> tuple[int, NDArray[np.bool_]]:
    """The first row of the window that level `at` begins, and which rows from there on are not at the settled level.

    Those are the other levels, and single rows outside the Tukey fence of the level's own rows before outliers are
    brought in, so that no stall is hidden by that. The window begins earlier where a few rows on end were at the level
    already and others left it again: too few for a level of their own.
    """
    row = trace.row(levels[at].begin)
    away = np.zeros(trace.calm.size, bool)
    away[:row] = True
    for level in levels[at:]:
        away[trace.row(level.begin) : trace.row(level.end)] = not is_home(level)
    low, middle, high = np.quantile(trace.log_time[~away], (0.1, 0.5, 0.9))
    fence, near = 3 * (high - low), float(np.log1p(rule.near))
    first = leading_return(trace.log_time[:row] - middle, (high - low) / 2.56, float(np.log1p(rule.delta)), near)
    outside = np.abs(trace.log_time - middle) > max(fence, near)
    return first, np.asarray(outside | (away & (np.arange(away.size) >= row)))[first:]


def _disturbed_reason(disturbed: Disturbed) -> str:
    count, worst = len(disturbed.stretches), disturbed.largest
    times = "once" if count == 1 else f"{count} times"
    longer = f"{worst.factor:.3g} times as long"
    rows = f"rows {worst.begin_row} to {worst.end_row - 1} take {longer}"
    return f"the level was left {times}: {rows}, which changes the figure by {100 * disturbed.effect:+.2g} %"


def _shortage(time_s: NDArray[np.float64], rows: int, seconds: float) -> str:
    """What a window lacks in rows or seconds, in words; empty where it lacks nothing."""
    if time_s.size < rows:
        return f"{time_s.size} rows where at least {rows} are asked for"
    with np.errstate(over="ignore"):
        lasted = float(time_s.sum())
    return f"{lasted:.3g} s where at least {seconds:g} s are asked for" if lasted < seconds else ""


def _wanders(trace: _Trace, row: int, rule: SteadyRule) -> str:
    """Why the mean that is reported cannot be known: its rows, disturbances included, wander too much."""
    error, independent = mean_error(trace.log_time[row:], trace.weight[row:])
    if error <= rule.most_error:
        return ""
    return (
        f"row time wanders: the window is worth {independent:.2g} independent values, so its mean is known "
        f"to no better than {100 * error:.2g} %"
    )


def _faster(levels: tuple[Level, ...], home: Level, same: Same, transient: int) -> Level | None:
    """The fastest earlier level that lasted and that the settled one has fallen behind."""
    behind = [one for one in levels if one.size > transient and one.mean < home.mean and not same(one, home)]
    return min(behind, key=lambda level: level.mean, default=None)


def _slowdown_reason(trace: _Trace, faster: Level, last: Level) -> str:
    longer = 100 * float(np.expm1(min(last.mean - faster.mean, 700.0)))
    before = f"{trace.skipped + trace.row(faster.begin)} to {trace.skipped + trace.row(faster.end) - 1}"
    return f"rows from {trace.skipped + trace.row(last.begin)} on take {longer:.3g} % longer than {before} did"


def _drift(
    trace: _Trace,
    row: int,
    rule: SteadyRule,
    away: NDArray[np.bool_] | None = None,
    disturbed: Disturbed = UNDISTURBED,
) -> Judgement:
    slope = _slope(trace, row, rule, away)
    if slope.value is None or slope.low is None or slope.high is None:
        reason = "row time follows a line rather than a level"
    else:
        word = "grows" if slope.value > 0 else "falls"
        bounds = f"({100 * slope.low:+.3g} to {100 * slope.high:+.3g} %)"
        reason = f"row time {word} by {100 * abs(slope.value):.3g} % {bounds} and has not levelled"
    return Judgement("drift", reason, trace.skipped + row, slope, disturbed=disturbed)


def _unsteady(trace: _Trace, reason: str, rule: SteadyRule) -> Judgement:
    return Judgement("no steady state", reason, trace.skipped, _slope(trace, 0, rule))


def _slope(trace: _Trace, row: int, rule: SteadyRule, away: NDArray[np.bool_] | None = None) -> Estimate:
    """Relative change of row time from `row` to the end, from block means of the rows at the level."""
    rows = np.arange(trace.calm.size - row) if away is None else np.flatnonzero(~away)
    blocks = min(rule.trend_blocks, rows.size // trace.block)
    if blocks < 4:
        return Estimate.absent(RATIO, f"a slope needs 4 independent blocks, there are {blocks}")
    edges = group_edges(rows.size, blocks)
    means, places = group_means(trace.calm[row:][rows], edges), group_means(rows.astype(float), edges)
    value, low, high = (
        float(np.expm1(np.clip(slope * (trace.calm.size - row), -700, 700)))
        for slope in theil_sen(means, rule.trend_level, places)
    )
    method = f"Theil-Sen slope over {blocks} block means, times the window"
    return Estimate(value, RATIO, method, "derived", low=low, high=high, level=rule.trend_level, n=blocks)


def _moves(slope: Estimate, delta: float) -> bool:
    if slope.value is None or slope.low is None or slope.high is None:
        return False
    return abs(slope.value) > delta and not slope.low <= 0 <= slope.high
