"""The label of a run, from its row times: the steps behind `steady.segment`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from twinlens.record.estimate import Estimate
from twinlens.record.finding import Finding, Severity
from twinlens.stats.estimator.interval import FEWEST_INDEPENDENT
from twinlens.stats.estimator.rate import mean_error
from twinlens.stats.steady.disturbed import UNDISTURBED, Disturbed, weigh
from twinlens.stats.steady.levels import (
    Level,
    Same,
    SteadyRule,
    best_step,
    block_rows,
    differ,
    find_levels,
    first_reached,
    group_edges,
    group_means,
    is_line,
    leading_outliers,
    leading_return,
    noise,
    settled_level,
    winsorised,
)
from twinlens.stats.steady.slope import Trace, find_cycle, later_half, least_visible_change, moves, slope_from
from twinlens.units import RATIO

Label = Literal[
    "flat", "warm-up", "unproven", "disturbed", "slowdown", "drift", "cyclic", "no steady state", "too short"
]


@dataclass(frozen=True, slots=True)
class Judgement:
    """A label, why, the first row it is about, the slope from there on, and what left the level meanwhile. `later`: the
    change from the first half to the second and its error, with the level that a slowdown left."""

    label: Label
    reason: Finding
    begin: int
    slope: Estimate
    period_rows: int | None = None
    disturbed: Disturbed = UNDISTURBED
    later: tuple[float, float] | tuple[None, None] = (None, None)


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
    shortage = shortage_of(time_s[begin:], max(2, rule.min_rows), 0.0)
    if shortage:
        untested = Estimate.absent(RATIO, "the rows are too few for a slope")
        return Judgement("too short", because("too-short", {"rows": time_s.size} | shortage), begin, untested)
    if weight is None:
        work = np.log(time_s) - log_time
        weight = np.exp(work - work.max())
    calm = winsorised(log_time[begin:])
    block = block_rows(calm, rule.points, rule.trend_blocks)
    edges = group_edges(calm.size, calm.size // block)
    points = group_means(calm, edges)
    trace = Trace(time_s[begin:], log_time[begin:], weight[begin:], calm, edges, points, block, begin)
    levels = find_levels(trace.points, rule.penalty)
    turn = find_cycle(calm, [trace.row(level.begin) for level in levels], rule)
    if turn is not None:
        size, rows = turn
        reason = because("cyclic", {"swing": size, "rows": rows})
        return Judgement("cyclic", reason, begin, slope_from(trace, 0, rule), rows)
    return _settle(trace, levels, rule)


def _settle(trace: Trace, levels: tuple[Level, ...], rule: SteadyRule, refined: bool = False) -> Judgement:
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
            return _drift(trace, _first_slower(trace, levels, start, near), rule)
    if home is None:
        return _unsteady(trace, because("no-level", {"share": rule.min_fraction}), rule)
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
    shortage = shortage_of(trace.time_s[row:][~away], rule.min_rows, 0.0)
    if shortage and not disturbed.heavy:
        return _unsteady(trace, because("level-too-short", {"row": trace.skipped + row} | shortage), rule)
    slope = slope_from(trace, row, rule, away)
    if moves(slope, rule.delta):
        begin = levels[at].begin
        step = None if refined or disturbed.stretches else best_step(points[begin:])
        if step is None:
            return _drift(trace, row, rule, away, disturbed)
        halves = tuple(Level(b, e, float(points[b:e].mean())) for b, e in ((begin, begin + step), (begin + step, size)))
        return _settle(trace, (*levels[:at], *halves), rule, refined=True)
    faster, since = _faster(levels[:at], home, same, transient), row
    if faster is not None:
        label: Label = "slowdown"
        since = trace.row(faster.begin)
        reason = slowed_down(trace, faster, home)
    elif disturbed.heavy:
        label, reason = "disturbed", left_its_level(disturbed)
    else:
        wanders, independent = _wanders(trace, row, rule)
        if wanders is not None and independent < FEWEST_INDEPENDENT:
            return _unsteady(trace, wanders, rule)
        visible = least_visible_change(slope, rule.delta)
        label, reason = _level(trace, row, visible, wanders or _too_little(trace, row, away, rule), rule)
    return Judgement(label, reason, trace.skipped + row, slope, disturbed=disturbed, later=later_half(trace, since))


def _level(
    trace: Trace, row: int, visible: float | None, lacking: Finding | None, rule: SteadyRule
) -> tuple[Label, Finding]:
    """The label of a run in which nothing wrong was seen; `lacking`: what keeps its level from being shown."""
    begin = trace.skipped + row
    seen: Numbers = {"rows": trace.calm.size - row, "begin": begin, "least_visible_change": visible}
    if visible is None:
        return "too short", because("unproven", seen)
    if lacking is not None or visible > rule.most_hidden:
        return "unproven", lacking or because("unproven", seen, "warns")
    label: Label = "flat" if begin == 0 else "warm-up"
    return label, because(label, seen, "notes")


def _too_little(trace: Trace, row: int, away: NDArray[np.bool_], rule: SteadyRule) -> Finding | None:
    """A level that lasted for fewer seconds, or a smaller part of the run, than shows that it will last."""
    fewest = int(np.ceil(rule.min_fraction * trace.calm.size))
    shortage = shortage_of(trace.time_s[row:][~away], fewest, rule.min_seconds)
    return because("level-too-short", {"row": trace.skipped + row} | shortage, "warns") if shortage else None


def _window(
    trace: Trace, levels: tuple[Level, ...], at: int, is_home: Callable[[Level], bool], rule: SteadyRule
) -> tuple[int, NDArray[np.bool_]]:
    """The first row of the window that level `at` begins, and which rows from there on are not at the settled level.

    Those are the other levels, and single rows outside the Tukey fence of the level's own rows before outliers are
    brought in, so that no stall is hidden by that. The window begins earlier where a few rows on end were at the level
    already and others left it again, too few for a level of their own: those that left are away too.
    """
    row = _first_slower(trace, levels, at, float(np.log1p(rule.near)))
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


def _first_slower(trace: Trace, levels: tuple[Level, ...], at: int, near: float) -> int:
    """The first row of level `at`, with the rows before it that had left a faster level already.

    Levels begin at blocks of rows: a stall that begins inside a block would lose its first and slowest rows.
    """
    row = trace.row(levels[at].begin)
    if at == 0 or levels[at].mean <= levels[at - 1].mean + near:
        return row
    slower = trace.log_time[trace.row(levels[at - 1].begin) : row] > levels[at - 1].mean + near
    return row - int(np.argmin(np.append(slower[::-1], False)))


def _wanders(trace: Trace, row: int, rule: SteadyRule) -> tuple[Finding | None, float]:
    """Why the mean that is reported is not known: its rows, disturbances included, wander too much; and how many
    independent values they are."""
    error, independent = mean_error(trace.log_time[row:], trace.weight[row:])
    if error <= rule.most_error:
        return None, independent
    severity: Severity = "warns" if independent >= FEWEST_INDEPENDENT else "disqualifies"
    return because("wanders", {"independent": independent, "error": error}, severity), independent


def _faster(levels: tuple[Level, ...], home: Level, same: Same, transient: int) -> Level | None:
    """The fastest earlier level that lasted and that the settled one has fallen behind."""
    behind = [level for level in levels if level.size > transient and level.mean < home.mean and not same(level, home)]
    return min(behind, key=lambda level: level.mean, default=None)


def _drift(
    trace: Trace,
    row: int,
    rule: SteadyRule,
    away: NDArray[np.bool_] | None = None,
    disturbed: Disturbed = UNDISTURBED,
) -> Judgement:
    slope = slope_from(trace, row, rule, away)
    reason = Finding("drift", "disqualifies", evidence={"change": slope})
    later = later_half(trace, row)
    return Judgement("drift", reason, trace.skipped + row, slope, disturbed=disturbed, later=later)


def _unsteady(trace: Trace, reason: Finding, rule: SteadyRule) -> Judgement:
    return Judgement("no steady state", reason, trace.skipped, slope_from(trace, 0, rule), later=later_half(trace, 0))


# Reasons of labels, as findings with the numbers that decided.

Numbers = Mapping[str, Any]


def because(code: str, numbers: Numbers, severity: Severity = "disqualifies") -> Finding:
    """Why a run has its label; what keeps it from being ranked, unless said otherwise."""
    return Finding(code, severity, "", numbers)


def left_its_level(disturbed: Disturbed) -> Finding:
    worst = disturbed.largest
    numbers = {
        "count": len(disturbed.stretches),
        "effect": disturbed.effect,
        "factor": worst.factor,
        "first": worst.begin_row,
        "last": worst.end_row - 1,
    }
    return because("left-its-level", numbers)


def shortage_of(time_s: NDArray[np.float64], rows: int, seconds: float) -> dict[str, Any]:
    """The shortage of a window: what it has, needs, and in which unit; empty where it lacks nothing."""
    if time_s.size < rows:
        return {"have": time_s.size, "need": rows, "unit": "rows"}
    with np.errstate(over="ignore"):
        lasted = float(time_s.sum())
    return {"have": lasted, "need": seconds, "unit": "s"} if lasted < seconds else {}


def slowed_down(trace: Trace, faster: Level, last: Level) -> Finding:
    numbers = {
        "begin": trace.skipped + trace.row(last.begin),
        "longer": float(np.expm1(min(last.mean - faster.mean, 700.0))),
        "first": trace.skipped + trace.row(faster.begin),
        "last": trace.skipped + trace.row(faster.end) - 1,
    }
    return because("slowdown", numbers)
