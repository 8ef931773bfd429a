"""The label of a run, from its row times: the steps behind `steady.segment`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from twinlens.record.estimate import Estimate
from twinlens.record.finding import Finding, Severity
from twinlens.stats.estimator.rate import mean_error
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


Numbers = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Judgement:
    """A label, why, the first row it is about, the slope from there on, and what left the level meanwhile."""

    label: Label
    reason: Finding
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
        return Judgement("too short", _because("too-short", {"rows": time_s.size} | shortage), begin, untested)
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
        reason = _because("cyclic", {"swing": size, "rows": rows})
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
        return _unsteady(trace, _because("no-level", {"share": rule.min_fraction}), rule)
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
        return _unsteady(trace, _because("level-too-short", {"row": trace.skipped + row} | shortage), rule)
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
        reason = _slowed_down(trace, faster, home)
    elif disturbed.heavy:
        label, reason = "disturbed", _left_its_level(disturbed)
    else:
        wanders = _wanders(trace, row, rule)
        if wanders is not None:
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


def _because(code: str, numbers: Numbers, severity: Severity = "disqualifies") -> Finding:
    """Why a run has its label; what keeps it from being ranked, unless said otherwise."""
    return Finding(code, severity, "", numbers)


def _level(trace: _Trace, row: int, visible: float | None, rule: SteadyRule) -> tuple[Label, Finding]:
    begin = trace.skipped + row
    seen: Numbers = {"rows": trace.calm.size - row, "begin": begin, "least_visible_change": visible}
    if visible is None or visible > rule.most_hidden:
        return "unproven", _because("unproven", seen)
    label: Label = "flat" if begin == 0 else "warm-up"
    return label, _because(label, seen, "notes")


def _window(
    trace: _Trace, levels: tuple[Level, ...], at: int, is_home: Callable[[Level], bool], rule: SteadyRule
) -> tuple[int, NDArray[np.bool_]]:
    """The first row of the window that level `at` begins, and which rows from there on are not at the settled level.

    Those are the other levels, and single rows outside the Tukey fence of the level's own rows before outliers are
    brought in, so that no stall is hidden by that. The window begins earlier where a few rows on end were at the level
    already and others left it again, too few for a level of their own: those that left are away too.
    """
    row = trace.row(levels[at].begin)
    away = np.zeros(trace.calm.size, bool)
    away[:row] = True
    for level in levels[at:]:
        away[trace.row(level.begin) : trace.row(level.end)] = not is_home(level)
    low, middle, high = np.quantile(trace.log_time[~away], (0.1, 0.5, 0.9))
    fence, near = 3 * (high - low), float(np.log1p(rule.near))
    found = leading_return(trace.log_time[:row] - middle, (high - low) / 2.56, float(np.log1p(rule.delta)), near)
    first, left = found or (row, row)
    away[:left] = False
    outside = np.abs(trace.log_time - middle) > max(fence, near)
    return first, np.asarray(outside | away)[first:]


def _left_its_level(disturbed: Disturbed) -> Finding:
    worst = disturbed.largest
    numbers = {
        "count": len(disturbed.stretches),
        "effect": disturbed.effect,
        "factor": worst.factor,
        "first": worst.begin_row,
        "last": worst.end_row - 1,
    }
    return _because("left-its-level", numbers)


def _shortage(time_s: NDArray[np.float64], rows: int, seconds: float) -> dict[str, Any]:
    """What a window lacks in rows or seconds: what it has, needs, and in which unit; empty where it lacks nothing."""
    if time_s.size < rows:
        return {"have": time_s.size, "need": rows, "unit": "rows"}
    with np.errstate(over="ignore"):
        lasted = float(time_s.sum())
    return {"have": lasted, "need": seconds, "unit": "s"} if lasted < seconds else {}


def _wanders(trace: _Trace, row: int, rule: SteadyRule) -> Finding | None:
    """Why the mean that is reported cannot be known: its rows, disturbances included, wander too much."""
    error, independent = mean_error(trace.log_time[row:], trace.weight[row:])
    return None if error <= rule.most_error else _because("wanders", {"independent": independent, "error": error})


def _faster(levels: tuple[Level, ...], home: Level, same: Same, transient: int) -> Level | None:
    """The fastest earlier level that lasted and that the settled one has fallen behind."""
    behind = [one for one in levels if one.size > transient and one.mean < home.mean and not same(one, home)]
    return min(behind, key=lambda level: level.mean, default=None)


def _slowed_down(trace: _Trace, faster: Level, last: Level) -> Finding:
    numbers = {
        "begin": trace.skipped + trace.row(last.begin),
        "longer": float(np.expm1(min(last.mean - faster.mean, 700.0))),
        "first": trace.skipped + trace.row(faster.begin),
        "last": trace.skipped + trace.row(faster.end) - 1,
    }
    return _because("slowdown", numbers)


def _drift(
    trace: _Trace,
    row: int,
    rule: SteadyRule,
    away: NDArray[np.bool_] | None = None,
    disturbed: Disturbed = UNDISTURBED,
) -> Judgement:
    slope = _slope(trace, row, rule, away)
    reason = Finding("drift", "disqualifies", evidence={"change": slope})
    return Judgement("drift", reason, trace.skipped + row, slope, disturbed=disturbed)


def _unsteady(trace: _Trace, reason: Finding, rule: SteadyRule) -> Judgement:
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
