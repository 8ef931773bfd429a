"""The window of a served run in which rows count, and stretches in which the server stood still.

A request belongs to the window if it was *intended* inside it, however late it was sent or ended. The window ends
with the last intended request, so what is left to drain afterwards lowers no rate.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from twinlens.record.finding import Finding, Validity
from twinlens.record.request import Requests
from twinlens.stats.steady.disturbed import UNDISTURBED, Disturbance, Disturbed
from twinlens.stats.steady.label import Label
from twinlens.stats.steady.levels import SteadyRule
from twinlens.stats.steady.segment import VALIDITY, segment
from twinlens.stats.steady.slope import Trend, overload

ServingLabel = Label | Literal["overload", "failing", "whole run"]
LoopKind = Literal["open", "closed", "whole"]

# Latency under load wanders by chance far more than the time of a step does: 1 % would call every queue unsteady.
SERVING_DELTA = 0.05
SERVING_NEAR = 5 * SERVING_DELTA  # as for steps, five times what counts as one level
SERVING_HIDDEN = 1.0  # queues wander by nature; a latency that may have doubled unseen is not steady
# A batching policy makes latency a saw-tooth by design, so a cycle is no fault: no correlation reaches this.
_NO_CYCLES = 10.0
_POINTS = 400  # latencies are averaged over neighbours beyond that: more show no more levels
_FILL_TIMES = 2.0  # an empty server is full again after about two stays of a request
_MOST_FAILED = 0.05  # beyond that not even p95 can be given, and what is left says little of the server
_MOST_FILL = 1 / 3  # more than that for filling up leaves too little to look at


@dataclass(frozen=True, slots=True)
class Window:
    """The rows that count: `rows` are indexes in the order of intended time, [begin_ns, end_ns] the time they span.

    `first`, `last` are positions of the window in that order (half open). `in_flight_slope_per_s`: how fast the
    number of unanswered requests grew inside the window (Theil–Sen), None where it was not tested. `disturbed`: the
    stretches of requests that left the level of latency, by position and time; they are in every figure.
    `least_visible_change`: of latency per token, None where it was not tested.
    """

    rows: np.ndarray
    begin_ns: int
    end_ns: int
    first: int
    last: int
    label: ServingLabel
    validity: Validity
    reason: Finding
    in_flight_slope_per_s: float | None = None
    disturbed: Disturbed = UNDISTURBED
    least_visible_change: float | None = None
    loop: LoopKind = "open"
    trend: Trend | None = None

    @property
    def seconds(self) -> float:
        return (self.end_ns - self.begin_ns) / 1e9


def find_window(requests: Requests, loop: LoopKind, rule: SteadyRule = SteadyRule()) -> Window | None:
    """The window of a served run; None where there are no rows.

    `loop`: "open" (arrivals do not wait for answers: may be overloaded), "closed" (they do), or "whole" for load that
    changes by design (all at once, a ramp, a trace), where every row counts.
    """
    if not len(requests):
        return None
    window = replace(_settled_window(requests, loop, rule), loop=loop)
    failed = int((~requests.ok[window.rows]).sum())
    if window.validity == "not valid" or failed <= _MOST_FAILED * window.rows.size:
        return window
    reason = Finding("failing", "disqualifies", "", {"failed": failed, "requests": window.rows.size})
    return replace(window, label="failing", validity="not valid", reason=reason)


def _settled_window(requests: Requests, loop: LoopKind, rule: SteadyRule) -> Window:
    """The window, whatever became of its requests."""
    order = np.argsort(requests.intended_ns, kind="stable")
    fewest = max(2, rule.min_rows)
    if loop == "whole":
        end_ns = int(requests.end_ns.max())
        if len(order) < fewest:  # by design or not: so few say nothing of another run
            return _window(requests, order, 0, "too short", _too_few(requests, order, fewest), end_ns=end_ns)
        return _window(requests, order, 0, "whole run", Finding("whole-run", "notes"), end_ns=end_ns)
    fill = _fill_rows(requests, order)
    if fill is None:
        return _window(requests, order, 0, "too short", Finding("shorter-than-stays", "disqualifies"))
    if loop == "open":
        growing = overload(requests, order, fill)
        if growing is not None:
            slope_per_s, reason = growing
            return _window(requests, order, fill, "overload", reason, slope_per_s=slope_per_s)
    return _steady(requests, order, fill, rule)


def _too_few(requests: Requests, order: np.ndarray, fewest: int) -> Finding:
    answered = int(requests.ok[order].sum())
    numbers = {"answered": answered, "requests": len(order), "fewest": fewest}
    return Finding("few-answers", "disqualifies", "", numbers)


def _fill_rows(requests: Requests, order: np.ndarray) -> int | None:
    """How many of the first rows came before the server had filled up; None where that is most of the run.

    The stay is that of the first tenth of requests, which a growing queue has not reached yet, or that of all where
    it is shorter: a stall early on does not fill a server.
    """
    intended = requests.intended_ns[order]
    early = order[: max(1, len(order) // 10)]
    stays_ns = requests.end_ns - requests.intended_ns
    stay_ns = min(float(np.median(stays_ns[early])), float(np.median(stays_ns)))
    span_ns = float(intended[-1] - intended[0])
    if stay_ns > span_ns * _MOST_FILL:
        return None
    until = intended[0] + min(_FILL_TIMES * stay_ns, span_ns * _MOST_FILL)
    return int(np.searchsorted(intended, until))


def _steady(requests: Requests, order: np.ndarray, fill: int, rule: SteadyRule) -> Window:
    """Levels of latency per output token over the answered requests, judged as row times are."""
    answered = np.flatnonzero(requests.ok[order])
    if answered.size < (fewest := max(2, rule.min_rows)):
        return _window(requests, order, 0, "too short", _too_few(requests, order, fewest))
    size = -(-answered.size // _POINTS)
    heads = answered[::size]
    per_token = _stay_per_token(requests, order[answered], size)
    times = requests.intended_ns[order[heads]]
    spans_s = np.maximum(np.diff(times, append=requests.intended_ns[order[-1]]) / 1e9, 1e-9)
    early = np.flatnonzero(heads < fill)
    if early.size >= heads.size - 1:
        early = early[:0]
    serving = replace(
        rule,
        min_rows=min(rule.min_rows, heads.size),
        delta=SERVING_DELTA,
        near=SERVING_NEAR,
        most_error=SERVING_NEAR,
        most_hidden=SERVING_HIDDEN,
        cycle_strength=_NO_CYCLES,
    )
    # What a stall costs shows in the mean latency, in which each request counts once.
    even = np.ones_like(per_token)
    work = spans_s / per_token
    levels = segment(spans_s, work=work, tagged_rows=early, rule=serving, weight=even)
    if levels.validity != "not valid" and levels.steady_begin > early.size:
        # What was slow after the fill is no warm-up if requests of the fill had been at the level already.
        whole = segment(spans_s, work=work, rule=serving, weight=even)
        levels = whole if whole.label == "disturbed" and whole.steady_begin <= early.size else levels
    # From the first request, unless what was answered there was warm-up: a failure alone never ends one.
    first = int(heads[levels.steady_begin]) if 0 < levels.steady_begin < heads.size else 0
    failed = first - int(np.searchsorted(answered, first))
    reason = _of_requests(levels.reason, size, {"before": first, "failed_before": failed} if failed else {})
    window = _window(requests, order, first, levels.label, reason)
    disturbed = _in_positions(requests, order, np.append(heads, len(order)), levels.disturbed)
    window = replace(window, disturbed=disturbed, least_visible_change=levels.least_visible_change, trend=levels.trend)
    stood = standstills(requests, order, first, SERVING_DELTA)
    if stood.heavy and window.label != "too short":
        # Latencies may show it as well; no other repeat refutes a standstill, as it may refute a level or a drift.
        stretches = disturbed if disturbed.stretches else stood
        reason = _stood_still(stood)
        return replace(window, disturbed=stretches, label="disturbed", validity="not valid", reason=reason)
    if window.validity == "not valid" or disturbed.stretches:
        return window
    return replace(window, disturbed=stood) if stood.stretches else window


def _stood_still(stood: Disturbed) -> Finding:
    longest = stood.largest
    lasted_s = (longest.end_s or 0.0) - (longest.begin_s or 0.0)
    numbers = {"count": len(stood.stretches), "share": stood.effect, "longest_s": lasted_s, "begin_s": longest.begin_s}
    return Finding("stood-still", "disqualifies", "", numbers)


def _in_positions(requests: Requests, order: np.ndarray, edges: np.ndarray, disturbed: Disturbed) -> Disturbed:
    """Disturbances of points as those of requests: from the first that was due in one to the last that ended."""

    def times_s(begin: int, end: int) -> tuple[float, float]:
        rows = order[begin:end]
        return float(requests.intended_ns[rows[0]]) / 1e9, float(requests.end_ns[rows].max()) / 1e9

    moved = tuple(
        replace(stretch, begin_row=int(edges[stretch.begin_row]), end_row=int(edges[stretch.end_row]))
        for stretch in disturbed.stretches
    )
    return replace(disturbed, stretches=moved).placed(times_s)


def _stay_per_token(requests: Requests, rows: np.ndarray, size: int) -> np.ndarray:
    """Time from intent to end over output tokens, summed over `size` neighbours each; above 0."""
    stay_ns = (requests.end_ns - requests.intended_ns)[rows].astype(np.float64)
    firsts = np.arange(0, rows.size, size)
    tokens = np.add.reduceat(np.maximum(1, requests.output_tokens[rows]), firsts)
    return np.asarray(np.maximum(np.add.reduceat(stay_ns, firsts), 1.0) / tokens)


def _of_requests(reason: Finding, size: int, before: dict[str, int]) -> Finding:
    """The reason of the steady test, whose rows are here `size` requests each, and what failed before the window."""
    of = {"of": "request"} if size == 1 else {"of": "point", "requests_per_point": size}
    return replace(reason, numbers={**reason.numbers, **of, **before})


def _window(
    requests: Requests,
    order: np.ndarray,
    first: int,
    label: ServingLabel,
    reason: Finding,
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
        validity="valid" if label == "whole run" else VALIDITY.get(label, "not valid"),
        reason=reason,
        in_flight_slope_per_s=slope_per_s,
    )


# A server that stood still: time in which no chunk came though several requests were in flight.

_FEWEST_GAPS = 30  # between chunks: fewer do not show how long a gap is by habit
_RARE = 5  # gaps that come more often are a habit of the server
_LONGER = 3.0  # times the longest gap that is a habit
_BLOCK = 4096
_FEWEST_WAITING = 2  # requests that all waited: one alone may be a long one


def standstills(requests: Requests, order: np.ndarray, first: int, delta: float) -> Disturbed:
    """The standstills of a window, which begins at position `first` of `order` (rows by intended time).

    A gap between two chunks or ends is one if at least two requests were in flight all through it, and it is three
    times as long as all but the five longest. `heavy` where together they take more of the window than counts as
    one level (`delta`), times the root of their number. The rate shows them where mean latencies of a closed loop hide
    them: 5 s in a minute add 9 % to these, and a request in ten.
    """
    rows = order[first:]
    begin, end = int(requests.intended_ns[rows[0]]), int(requests.intended_ns[rows[-1]])
    events = np.concatenate((requests.chunk_ns, requests.end_ns))
    # In order almost, since rows are: a merge takes half of a quick sort, and numpy's unique ten times as long.
    events = np.sort(events[(events >= begin) & (events <= end)], kind="stable")
    gaps = np.diff(events)
    if np.count_nonzero(gaps) < _FEWEST_GAPS or end <= begin:
        return UNDISTURBED
    habit = _longest_but(_RARE, gaps)
    stays = (requests.end_ns - requests.intended_ns)[rows].astype(float)
    usual, found = float(np.median(stays)), []
    for place in np.flatnonzero(gaps > _LONGER * habit).tolist():
        left, right = events[place], events[place + 1]
        waiting = np.flatnonzero((requests.sent_ns[rows] <= left) & (requests.end_ns[rows] >= right))
        if waiting.size >= _FEWEST_WAITING:
            share, factor = float(right - left) / (end - begin), max(1.0, float(stays[waiting].mean()) / usual)
            at = (first + int(waiting[0]), first + int(waiting[-1]) + 1)
            found.append(Disturbance(*at, share, factor, float(left) / 1e9, float(right) / 1e9))
    effect = sum(one.share for one in found)
    return Disturbed(tuple(found), effect, bool(found) and effect > delta * len(found) ** 0.5)


def _longest_but(few: int, gaps: np.ndarray) -> float:
    """The longest gap but a few. Only those are put in order that reach the same place among the longest of blocks."""
    longest = np.maximum.reduceat(gaps, np.arange(0, gaps.size, _BLOCK))
    if longest.size > few:
        gaps = gaps[gaps >= np.partition(longest, longest.size - 1 - few)[longest.size - 1 - few]]
    return float(np.partition(gaps, gaps.size - 1 - few)[gaps.size - 1 - few])
