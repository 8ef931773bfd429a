"""A server that stood still: time in which no chunk came though several requests were in flight."""

from __future__ import annotations

import numpy as np

from twinlens.record.request import Requests
from twinlens.stats.steady.disturbed import UNDISTURBED, Disturbance, Disturbed

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
