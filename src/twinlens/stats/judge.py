"""The label of a run, from its row times: the steps behind `steady.segment`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from twinlens.record.estimate import Estimate
from twinlens.stats.autocorrelation import effective_n
from twinlens.stats.changepoint import leading_outliers, winsorised
from twinlens.stats.interval import FEWEST_INDEPENDENT
from twinlens.stats.levels import (
    Level,
    best_step,
    block_rows,
    differ,
    find_levels,
    first_of_last,
    group_edges,
    group_means,
    is_line,
    noise,
)
from twinlens.stats.trend import first_return, period, theil_sen
from twinlens.units import RATIO

Label = Literal["flat", "warm-up", "slowdown", "drift", "cyclic", "no steady state", "too short"]


@dataclass(frozen=True, slots=True)
class SteadyRule:
    """What counts as steady. Every default has its reason beside it."""

    delta: float = 0.01  # levels within 1 % are one level: below that, no one buys or tunes differently
    errors: float = 3.0  # ... nor are they two unless three standard errors apart, on noisy machines
    min_rows: int = 20  # fewer cannot show a change of level against noise
    min_seconds: float = 0.0  # the protocol's to raise: 60 s where clocks and heat must settle
    min_fraction: float = 1 / 3  # a last level shorter than this says how the run ended, not how it ran
    penalty: float = 15.0  # times ln n for a change point (Barrett et al. 2017)
    points: int = 400  # the search is quadratic in points; more show no more levels
    transient_fraction: float = 0.05  # a disturbance this short is crossed, an earlier level ignored
    trend_blocks: int = 20  # enough for a slope, few enough that blocks are nearly independent
    trend_level: float = 0.99  # one steady run in a hundred may be called drifting
    cycle_strength: float = 0.4  # autocorrelation of a cycle with as much power as the noise is 0.5
    window_rows: int = 10  # a window's rate should not be one row's
    max_windows: int = 60  # twenty turns of three windows


@dataclass(frozen=True, slots=True)
class Finding:
    """A label, why, the first row it is about, and the slope from there on."""

    label: Label
    reason: str
    begin: int
    slope: Estimate
    period_rows: int | None = None


@dataclass(frozen=True, slots=True)
class _Trace:
    """Rows after the start: their times, calm log times, and means of these between `edges`."""

    time_s: NDArray[np.float64]
    calm: NDArray[np.float64]
    edges: NDArray[np.int64]
    points: NDArray[np.float64]
    block: int
    skipped: int

    def row(self, point: int) -> int:
        return int(self.edges[point])


def judge(time_s: NDArray[np.float64], log_time: NDArray[np.float64], after_tags: int, rule: SteadyRule) -> Finding:
    """The finding for row times [n] and their logs per work; the first `after_tags` rows are the start."""
    begin = after_tags + leading_outliers(log_time[after_tags:], rule.delta)
    shortage = _shortage(time_s[begin:], max(2, rule.min_rows), rule.min_seconds)
    if shortage:
        untested = Estimate.absent(RATIO, "the rows are too few for a slope")
        return Finding("too short", f"of {time_s.size} rows, {shortage} after the start", begin, untested)
    calm = winsorised(log_time[begin:])
    block = block_rows(calm, rule.points, rule.trend_blocks)
    edges = group_edges(calm.size, calm.size // block)
    trace = _Trace(time_s[begin:], calm, edges, group_means(calm, edges), block, begin)
    levels = find_levels(trace.points, rule.penalty)
    turn = _cycle(calm, [trace.row(level.begin) for level in levels], rule)
    if turn is not None:
        size, rows = turn
        reason = f"row time swings by {100 * size:.3g} % about every {rows} rows"
        return Finding("cyclic", reason, begin, _slope(trace, 0, rule), rows)
    return _settle(trace, levels, rule)


def _settle(trace: _Trace, levels: tuple[Level, ...], rule: SteadyRule, refined: bool = False) -> Finding:
    """The label once a cycle is ruled out."""
    points, size = trace.points, trace.points.size
    spread, transient = noise(points, levels), round(rule.transient_fraction * size)
    at = first_of_last(levels, spread, rule.delta, rule.errors, transient)
    for start in range(at):
        long_enough = size - levels[start].begin >= rule.min_fraction * size
        if long_enough and is_line(points, levels[start:], rule.delta):
            return _drift(trace, trace.row(levels[start].begin), rule)
    begin = levels[at].begin
    row = trace.row(begin)
    fewest = max(rule.min_rows, int(np.ceil(rule.min_fraction * trace.calm.size)))
    shortage = _shortage(trace.time_s[row:], fewest, rule.min_seconds)
    if shortage:
        return _unsteady(trace, f"the last level, from row {trace.skipped + row} on, has {shortage}", rule)
    slope = _slope(trace, row, rule)
    if _moves(slope, rule.delta):
        step = None if refined else best_step(points[begin:])
        if step is None:
            return _drift(trace, row, rule)
        halves = tuple(Level(b, e, float(points[b:e].mean())) for b, e in ((begin, begin + step), (begin + step, size)))
        return _settle(trace, (*levels[:at], *halves), rule, refined=True)
    memory = _memory(points[begin:], rule)
    if memory:
        return _unsteady(trace, memory, rule)
    last = Level(begin, size, float(points[begin:].mean()))
    faster = _faster(levels[:at], last, spread, transient, rule)
    if faster is not None:
        return Finding("slowdown", _slowdown_reason(trace, faster, last), trace.skipped + row, slope)
    if trace.skipped + row == 0:
        return Finding("flat", f"one level over all {trace.calm.size} rows", 0, slope)
    reason = f"one level from row {trace.skipped + row} on, {trace.calm.size - row} rows long"
    return Finding("warm-up", reason, trace.skipped + row, slope)


def _shortage(time_s: NDArray[np.float64], rows: int, seconds: float) -> str:
    """What a window lacks in rows or seconds, in words; empty where it lacks nothing."""
    if time_s.size < rows:
        return f"{time_s.size} rows where at least {rows} are asked for"
    with np.errstate(over="ignore"):
        lasted = float(time_s.sum())
    return f"{lasted:.3g} s where at least {seconds:g} s are asked for" if lasted < seconds else ""


def _memory(points: NDArray[np.float64], rule: SteadyRule) -> str:
    """Why a level's mean cannot be known: a wandering series is worth too few independent values."""
    independent = effective_n(points)
    error = float(points.std()) / np.sqrt(independent)
    if independent >= FEWEST_INDEPENDENT or error <= rule.delta:
        return ""
    return (
        f"row time wanders: the window is worth {independent:.2g} independent values, so its mean is known "
        f"to no better than {100 * error:.2g} %"
    )


def _faster(levels: tuple[Level, ...], last: Level, spread: float, transient: int, rule: SteadyRule) -> Level | None:
    """The fastest earlier level that lasted and that the last one has fallen behind."""
    lasting = [level for level in levels if level.size > transient and level.mean < last.mean]
    behind = [level for level in lasting if differ(level, last, spread, rule.delta, rule.errors)]
    return min(behind, key=lambda level: level.mean, default=None)


def _slowdown_reason(trace: _Trace, faster: Level, last: Level) -> str:
    longer = 100 * float(np.expm1(min(last.mean - faster.mean, 700.0)))
    before = f"{trace.skipped + trace.row(faster.begin)} to {trace.skipped + trace.row(faster.end) - 1}"
    return f"rows from {trace.skipped + trace.row(last.begin)} on take {longer:.3g} % longer than {before} did"


def _drift(trace: _Trace, row: int, rule: SteadyRule) -> Finding:
    slope = _slope(trace, row, rule)
    if slope.value is None or slope.low is None or slope.high is None:
        reason = "row time follows a line rather than a level"
    else:
        word = "grows" if slope.value > 0 else "falls"
        bounds = f"({100 * slope.low:+.3g} to {100 * slope.high:+.3g} %)"
        reason = f"row time {word} by {100 * abs(slope.value):.3g} % {bounds} and has not levelled"
    return Finding("drift", reason, trace.skipped + row, slope)


def _unsteady(trace: _Trace, reason: str, rule: SteadyRule) -> Finding:
    return Finding("no steady state", reason, trace.skipped, _slope(trace, 0, rule))


def _slope(trace: _Trace, row: int, rule: SteadyRule) -> Estimate:
    """Relative change of row time from `row` to the end, from block means."""
    calm = trace.calm[row:]
    blocks = min(rule.trend_blocks, calm.size // trace.block)
    if blocks < 4:
        return Estimate.absent(RATIO, f"a slope needs 4 independent blocks, there are {blocks}")
    means = group_means(calm, group_edges(calm.size, blocks))
    value, low, high = (
        float(np.expm1(np.clip(slope * blocks, -700, 700))) for slope in theil_sen(means, rule.trend_level)
    )
    method = f"Theil-Sen slope over {blocks} block means, times the window"
    return Estimate(value, RATIO, method, "derived", low=low, high=high, level=rule.trend_level, n=blocks)


def _moves(slope: Estimate, delta: float) -> bool:
    if slope.value is None or slope.low is None or slope.high is None:
        return False
    return abs(slope.value) > delta and not slope.low <= 0 <= slope.high


def _cycle(calm: NDArray[np.float64], starts: list[int], rule: SteadyRule) -> tuple[float, int] | None:
    """Size and rows of a cycle over windows, from row 0 or from a level that starts in the first third."""
    most = window_count(calm.size, rule)
    for start in (s for s in starts if s <= calm.size / 3):
        rest = calm[start:]
        windows = max(1, rest.size * most // calm.size)
        found = period(group_means(rest, group_edges(rest.size, windows)), rule.cycle_strength)
        if found is None or found[1] <= 2 * rule.delta:
            continue
        finer = min(rest.size, 4 * windows)
        fine_lag = round(found[0] * finer / windows)
        turn = first_return(group_means(rest, group_edges(rest.size, finer)), fine_lag)
        if turn * windows >= 2 * finer:
            return float(np.expm1(min(found[1], 700.0))), round(rest.size / finer * turn)
    return None


def window_count(rows: int, rule: SteadyRule) -> int:
    """Windows a trace of `rows` is cut into, at least one."""
    return max(1, min(rule.max_windows, rows // rule.window_rows))
