"""Slopes, cycles and a growing backlog: what moves within a level."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import scipy
from numpy.typing import NDArray

from twinlens.record.estimate import Estimate
from twinlens.record.finding import Finding
from twinlens.record.request import Requests
from twinlens.stats.estimator.interval import FEWEST_INDEPENDENT, reach
from twinlens.stats.estimator.rate import first_return, mean_error, period, theil_sen
from twinlens.stats.steady.levels import (
    SteadyRule,
    group_edges,
    group_means,
    window_count,
)
from twinlens.units import RATIO

_UNKNOWN = 1e6  # a relative error that says nothing; JSON has no infinity
_POWER_ERRORS = 0.84  # standard errors by which a change must be larger than the test's bound to be seen in 4 of 5 runs


@dataclass(frozen=True, slots=True)
class Trend:
    """The level of a window and its change from the first row to the last, in logarithms of time per work.

    Each with its standard error, so that runs of one point can be judged together; `change_error` is None where no
    slope could be tested. `delta`: what counts as one level; `most_hidden`: the largest change that may hide in a valid
    run. `short`: by how many times the window was shorter than the protocol asks, 1 where it was not. `later`: of its
    second half over its first, from the level on that a slowdown left; None where it was not compared.
    """

    level: float
    level_error: float
    change: float | None
    change_error: float | None
    delta: float
    most_hidden: float
    short: float = 1.0
    later: float | None = None
    later_error: float | None = None


@dataclass(frozen=True, slots=True)
class Trace:
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


def least_visible_change(slope: Estimate, delta: float) -> float | None:
    """The smallest relative change from the first row of a window to its last that four in five such runs would have
    shown, from the interval of its slope; None without one. A step half way is seen alike, a later one must be larger.
    """
    if slope.low is None or slope.high is None or slope.level is None:
        return None
    errors = float(scipy.special.ndtri((1 + slope.level) / 2))
    return max(delta, (slope.high - slope.low) / 2 * (errors + _POWER_ERRORS) / errors)


def trend_of(
    log_time: NDArray[np.float64],
    weight: NDArray[np.float64],
    slope: Estimate,
    later: tuple[float, float] | tuple[None, None],
    rule: SteadyRule,
    short: float,
) -> Trend:
    """The trend of the rows of a window: logs of time per work [n], how much each counts [n], the tested slope, and the
    change of its halves."""
    highest = float(log_time.max())
    mean = float((weight * np.exp(log_time - highest)).sum() / weight.sum())
    error, _ = mean_error(log_time, weight)
    level, level_error = float(np.log(mean)) + highest, min(error, _UNKNOWN)
    if slope.value is None or slope.low is None or slope.high is None or slope.level is None:
        return Trend(level, level_error, None, None, rule.delta, rule.most_hidden, short, *later)
    low, value, high = (max(-700.0, float(np.log1p(bound))) for bound in (slope.low, slope.value, slope.high))
    change_error = (high - low) / 2 / float(scipy.special.ndtri((1 + slope.level) / 2))
    return Trend(level, level_error, value, change_error, rule.delta, rule.most_hidden, short, *later)


def visible(change_error: float, delta: float, level: float) -> float:
    """The smallest relative change that four in five tests at `level` show, from the standard error of log change."""
    errors = float(scipy.special.ndtri((1 + level) / 2)) + _POWER_ERRORS
    return max(delta, float(np.expm1(min(errors * change_error, 700.0))))


def slope_from(trace: Trace, row: int, rule: SteadyRule, away: NDArray[np.bool_] | None = None) -> Estimate:
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


def later_half(trace: Trace, row: int) -> tuple[float, float] | tuple[None, None]:
    """The change of log time from the first half of the points from `row` on to the second, and its standard error.

    Twice that of the mean, by the points less their halves' means, so that the change is no part of its own error. None
    for under four points.
    """
    points = trace.points[np.searchsorted(trace.edges[:-1], row) :]
    if points.size < 4:
        return None, None
    halves = np.array_split(points, 2)
    before, after = (float(half.mean()) for half in halves)
    error, _ = mean_error(points - np.repeat((before, after), [half.size for half in halves]), np.ones(points.size))
    return after - before, min(2 * error, _UNKNOWN)


def moves(slope: Estimate, delta: float) -> bool:
    if slope.value is None or slope.low is None or slope.high is None:
        return False
    return abs(slope.value) > delta and not slope.low <= 0 <= slope.high


# Overload: the backlog of requests, and whether it keeps growing.

_BLOCKS = 20  # of the trend: enough for a slope, few enough to be nearly independent
_TREND_LEVEL = 0.99  # one steady run in a hundred may be called overloaded


def overload(requests: Requests, order: np.ndarray, fill: int) -> tuple[float, Finding] | None:
    """How fast the backlog grows and the finding on it; None where it does not.

    Two tests have to agree at 99 %. Arrivals less ends in each block must have a mean above 0: below capacity they
    sum to a bounded number, above it they are the steps of a walk with a drift. And the Theil–Sen slope of requests
    in flight must be above 0, so that one stall, from which the server recovers, is no overload.
    """
    begin_ns, last_ns = int(requests.intended_ns[order[fill]]), int(requests.intended_ns[order[-1]])
    if last_ns - begin_ns < _BLOCKS or len(order) - fill < 2 * _BLOCKS:
        return None
    edges = np.linspace(begin_ns, last_ns, _BLOCKS + 1).astype(np.int64)
    arrived, ended = (np.histogram(times, edges)[0] for times in (requests.intended_ns, requests.end_ns))
    growth = (arrived - ended).astype(np.float64)
    drift = reach(growth, _TREND_LEVEL)
    level = in_flight(requests.intended_ns, requests.end_ns, edges)
    slope, low, _ = theil_sen(level, _TREND_LEVEL)
    if drift.independent < FEWEST_INDEPENDENT or float(growth.mean()) <= drift.below or low <= 0:
        return None
    block_s = (last_ns - begin_ns) / 1e9 / _BLOCKS
    numbers = {
        "in_flight_first": level[0],
        "in_flight_last": level[-1],
        "due": int(arrived.sum()),
        "ended": int(ended.sum()),
        "waits": _waits(requests, order),
    }
    return slope / block_s, Finding("overload", "disqualifies", "", numbers)


def _waits(requests: Requests, order: np.ndarray) -> Literal["client", "admission", "server"]:
    """Where late requests waited most: held by the admission policy, in the client, or at the server."""
    late = order[-max(1, len(order) // 5) :]
    stay = float(np.mean(requests.end_ns[late] - requests.intended_ns[late]))
    sent = requests.sent_ns[late]
    released = released_ns(requests)[late]
    held = float(np.mean(released - requests.intended_ns[late]))
    client = float(np.mean(np.maximum(sent - released, 0.0)))  # what was never sent waited for nobody
    if stay > 0 and client > stay / 2:
        return "client"
    if stay > 0 and held > stay / 2:
        return "admission"
    return "server"


def released_ns(requests: Requests) -> np.ndarray:
    """When each row was free to be sent: the policy's release, or the intended time where no policy held it."""
    return np.asarray(np.where(np.isnan(requests.released_ns), requests.intended_ns, requests.released_ns))


def in_flight(begin_ns: np.ndarray, end_ns: np.ndarray, edges_ns: np.ndarray) -> np.ndarray:
    """The mean number of requests between begin and end in each interval of `edges_ns` [k + 1]. Shape: (k,).

    Those under way at its beginning stay for all of it, and each arrival adds what is left of it; each end takes that
    off. No sum grows with the run, so none loses digits.
    """
    (begun, rest), (ended, spared) = (_passed(_in_order(times), edges_ns) for times in (begin_ns, end_ns))
    width = np.diff(edges_ns.astype(np.float64))
    return np.asarray(begun - ended + (rest - spared) / width)


def _passed(times_ns: np.ndarray, edges_ns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """How many sorted `times_ns` each interval begins after [k], and the sum of times from those inside to its end."""
    at = np.searchsorted(times_ns, edges_ns, side="right")
    inside = zip(at[:-1].tolist(), at[1:].tolist(), edges_ns[1:].tolist(), strict=True)
    return at[:-1], np.array([(end_ns - times_ns[begin:end]).sum(dtype=np.float64) for begin, end, end_ns in inside])


def _in_order(times_ns: np.ndarray) -> np.ndarray:
    """Times by size. Rows are nearly in order, so they are merged: half of what a quick sort takes."""
    return times_ns if (times_ns[1:] >= times_ns[:-1]).all() else np.sort(times_ns, kind="stable")


# Test for a regular swing of row time.

_FEWEST_WINDOWS = 4  # of a turn: what comes in every second or third window depends on how windows fall


def find_cycle(calm: NDArray[np.float64], starts: list[int], rule: SteadyRule) -> tuple[float, int] | None:
    """Size and rows of a cycle over windows, from row 0 or from a level that starts in the first third."""
    most = window_count(calm.size, rule)
    for start in (s for s in starts if s <= calm.size / 3):
        rest = calm[start:]
        windows = max(1, rest.size * most // calm.size)
        found = period(group_means(rest, group_edges(rest.size, windows)), rule.cycle_strength)
        if found is None or found[0] < _FEWEST_WINDOWS or found[1] <= 2 * rule.delta:
            continue
        finer = min(rest.size, 4 * windows)
        fine_lag = round(found[0] * finer / windows)
        turn = first_return(group_means(rest, group_edges(rest.size, finer)), fine_lag)
        if turn * windows >= _FEWEST_WINDOWS * finer:
            return float(np.expm1(min(found[1], 700.0))), round(rest.size / finer * turn)
    return None
