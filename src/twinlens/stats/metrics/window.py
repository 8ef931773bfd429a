"""Which requests of a served run count, and whether the run held still: fill-up, warm-up, steadiness, overload.

A request belongs to the window if it was *intended* inside it, however late it was sent or ended. The window ends
with the last intended request, so what is left to drain afterwards lowers no rate.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from twinlens.record.request import Requests
from twinlens.stats.interval import mean_interval
from twinlens.stats.judge import Label, SteadyRule
from twinlens.stats.steady import segment
from twinlens.stats.trend import theil_sen
from twinlens.units import COUNT

ServingLabel = Label | Literal["overload", "whole run"]
Loop = Literal["open", "closed", "whole"]

# Latency under load wanders by chance far more than the time of a step does: 1 % would call every queue unsteady.
SERVING_DELTA = 0.05
# A batching policy makes latency a saw-tooth by design, so a cycle is no fault: no correlation reaches this.
_NO_CYCLES = 10.0
_POINTS = 400  # latencies are averaged over neighbours beyond that: more show no more levels
_BLOCKS = 20  # of the trend: enough for a slope, few enough to be nearly independent
_TREND_LEVEL = 0.99  # one steady run in a hundred may be called overloaded
_FILL_TIMES = 2.0  # an empty server is full again after about two stays of a request
_MOST_FILL = 1 / 3  # more than that for filling up leaves too little to look at


@dataclass(frozen=True, slots=True)
class Window:
    """The rows that count: `rows` are indexes in the order of intended time, [begin_ns, end_ns] the time they span.

    `first`, `last` are positions of the window in that order (half open). `in_flight_slope_per_s`: how fast the
    number of unanswered requests grew inside the window (Theil–Sen), None where it was not tested.
    """

    rows: np.ndarray
    begin_ns: int
    end_ns: int
    first: int
    last: int
    label: ServingLabel
    ranked: bool
    reason: str
    in_flight_slope_per_s: float | None = None

    @property
    def seconds(self) -> float:
        return (self.end_ns - self.begin_ns) / 1e9


def find_window(requests: Requests, loop: Loop, rule: SteadyRule = SteadyRule()) -> Window | None:
    """The window of a served run; None where there are no rows.

    `loop`: "open" (arrivals do not wait for answers: may be overloaded), "closed" (they do), or "whole" for load that
    changes by design (all at once, a ramp, a trace), where every row counts.
    """
    if not len(requests):
        return None
    order = np.argsort(requests.intended_ns, kind="stable")
    if loop == "whole":
        end_ns = int(requests.end_ns.max())
        reason = "the load changes by design, so every request of the run counts"
        return _window(requests, order, 0, "whole run", reason, end_ns=end_ns)
    fill = _fill_rows(requests, order)
    if fill is None:
        reason = "the run is shorter than three stays of a request"
        return _window(requests, order, 0, "too short", reason)
    if loop == "open":
        growing = _overload(requests, order, fill)
        if growing is not None:
            slope_per_s, reason = growing
            return _window(requests, order, fill, "overload", reason, slope_per_s=slope_per_s)
    return _steady(requests, order, fill, rule)


def in_flight(begin_ns: np.ndarray, end_ns: np.ndarray, edges_ns: np.ndarray) -> np.ndarray:
    """The mean number of requests between begin and end in each interval of `edges_ns` [k + 1]. Shape: (k,).

    Exact: the integral of arrivals less that of ends, each from sorted times and their prefix sums.
    """
    area = _integral(np.sort(begin_ns), edges_ns) - _integral(np.sort(end_ns), edges_ns)
    return np.asarray(np.diff(area) / np.diff(edges_ns.astype(np.float64)))


def _integral(times_ns: np.ndarray, at_ns: np.ndarray) -> np.ndarray:
    """The integral of the number of `times_ns` passed, from the first edge to each of `at_ns`."""
    origin = int(at_ns[0])
    since = times_ns.astype(np.float64) - origin
    passed = np.searchsorted(times_ns, at_ns, side="right")
    sums = np.concatenate([[0.0], np.cumsum(since)])
    return np.asarray(passed * (at_ns.astype(np.float64) - origin) - sums[passed])


def _fill_rows(requests: Requests, order: np.ndarray) -> int | None:
    """How many of the first rows came before the server had filled up; None where that is most of the run.

    The stay is that of the first tenth of requests, which a growing queue has not reached yet.
    """
    intended = requests.intended_ns[order]
    early = order[: max(1, len(order) // 10)]
    stay_ns = float(np.median(requests.end_ns[early] - requests.intended_ns[early]))
    span_ns = float(intended[-1] - intended[0])
    if stay_ns > span_ns * _MOST_FILL:
        return None
    until = intended[0] + min(_FILL_TIMES * stay_ns, span_ns * _MOST_FILL)
    return int(np.searchsorted(intended, until))


def _overload(requests: Requests, order: np.ndarray, fill: int) -> tuple[float, str] | None:
    """How fast the backlog grows and a sentence on it; None where it does not.

    Two tests have to agree at 99 %. Arrivals less ends in each block must have a mean above 0: below capacity they
    sum to a bounded number, above it they are the steps of a walk with a drift. And the Theil–Sen slope of requests
    in flight must be above 0, so that one stall, from which the server recovers, is no overload.
    """
    begin_ns, last_ns = int(requests.intended_ns[order[fill]]), int(requests.intended_ns[order[-1]])
    if last_ns - begin_ns < _BLOCKS or len(order) - fill < 2 * _BLOCKS:
        return None
    edges = np.linspace(begin_ns, last_ns, _BLOCKS + 1).astype(np.int64)
    arrived, ended = (np.histogram(times, edges)[0] for times in (requests.intended_ns, requests.end_ns))
    drift = mean_interval(arrived - ended, unit=COUNT, level=_TREND_LEVEL)
    level = in_flight(requests.intended_ns, requests.end_ns, edges)
    slope, low, _ = theil_sen(level, _TREND_LEVEL)
    if drift.low is None or drift.low <= 0 or low <= 0:
        return None
    block_s = (last_ns - begin_ns) / 1e9 / _BLOCKS
    offered, done = int(arrived.sum()), int(ended.sum())
    reason = (
        f"requests in flight grow from {level[0]:.3g} to {level[-1]:.3g}: in the window {offered} were due and "
        f"{done} ended; {_where(requests, order)}"
    )
    return slope / block_s, reason


def _where(requests: Requests, order: np.ndarray) -> str:
    """Where late requests waited: held by the admission policy, in the client, or at the server."""
    late = order[-max(1, len(order) // 5) :]
    stay = float(np.mean(requests.end_ns[late] - requests.intended_ns[late]))
    sent = requests.sent_ns[late]
    released = released_ns(requests)[late]
    held = float(np.mean(released - requests.intended_ns[late]))
    client = float(np.mean(sent - released))
    if stay > 0 and client > stay / 2:
        return "most of the wait is in the client, before anything is sent: the client is overloaded, not the server"
    if stay > 0 and held > stay / 2:
        return "most of the wait is in the admission policy, in front of the server"
    return "the server does not keep up"


def released_ns(requests: Requests) -> np.ndarray:
    """When each row was free to be sent: the policy's release, or the intended time where no policy held it."""
    return np.asarray(np.where(np.isnan(requests.released_ns), requests.intended_ns, requests.released_ns))


def _steady(requests: Requests, order: np.ndarray, fill: int, rule: SteadyRule) -> Window:
    """Levels of latency per output token over the answered requests, judged as row times are."""
    at = np.flatnonzero(requests.outcome[order] == "ok")
    if at.size < max(2, rule.min_rows):
        reason = f"{at.size} of {len(order)} requests ended well, at least {rule.min_rows} are asked for"
        return _window(requests, order, 0, "too short", reason)
    size = -(-at.size // _POINTS)
    heads = at[::size]
    rows = order[at]
    stay_ns = (requests.end_ns - requests.intended_ns)[rows].astype(np.float64)
    firsts = np.arange(0, at.size, size)
    tokens = np.add.reduceat(np.maximum(1, requests.output_tokens[rows]), firsts)
    per_token = np.maximum(np.add.reduceat(stay_ns, firsts), 1.0) / tokens
    times = requests.intended_ns[order[heads]]
    spans_s = np.maximum(np.diff(times, append=requests.intended_ns[order[-1]]) / 1e9, 1e-9)
    early = np.flatnonzero(heads < fill)
    if early.size >= heads.size - 1:
        early = early[:0]
    serving = SteadyRule(min_rows=min(rule.min_rows, heads.size), min_seconds=rule.min_seconds, delta=SERVING_DELTA, cycle_strength=_NO_CYCLES)
    found = segment(spans_s, work=spans_s / per_token, tagged_rows=early, rule=serving)
    reason = found.reason.replace("row time", "latency per token").replace("rows", "points").replace("row", "point")
    first = int(heads[found.steady_begin]) if found.steady_begin < heads.size else 0
    return _window(requests, order, first if first > size else 0, found.label, reason)


def _window(
    requests: Requests,
    order: np.ndarray,
    first: int,
    label: ServingLabel,
    reason: str,
    *,
    end_ns: int | None = None,
    slope_per_s: float | None = None,
) -> Window:
    intended = requests.intended_ns[order]
    return Window(
        rows=order[first:],
        begin_ns=int(intended[first]),
        end_ns=int(intended[-1]) if end_ns is None else end_ns,
        first=first,
        last=len(order),
        label=label,
        ranked=label in ("flat", "warm-up", "whole run"),
        reason=reason,
        in_flight_slope_per_s=slope_per_s,
    )
