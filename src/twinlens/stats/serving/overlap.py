"""The number of requests that share the server at once, and the length of run that an interval of waits needs."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from twinlens.record.request import Requests
from twinlens.stats.estimator.independent import Queue, queue
from twinlens.stats.estimator.series import MOST_WAITING
from twinlens.stats.serving.overload import in_flight
from twinlens.stats.serving.window import Window

# A queue of N requests lasts for some N² arrivals before it is another one, and some 400 such times show how long.
_TIMES = 400


@dataclass(frozen=True, slots=True)
class Overlap:
    """`together`: requests that share one moment, so that neighbours in time are one observation. `why_not`: why no
    interval within the run can rest on its requests; "" where one can. `waiting`: where arrivals do not wait for
    answers, the requests in flight when each was due, and how long they resemble themselves."""

    together: int = 1
    why_not: str = ""
    waiting: Queue | None = None


def overlap(requests: Requests, window: Window) -> Overlap:
    """Dependence among the requests of a window.

    In a closed loop as many are always under way: its streams, which end together where a batch decodes in step.
    Where arrivals do not wait for answers their number wanders, and with it every latency. How far cannot be seen in
    the latencies of many servers, where the noise of single requests hides it; the number in flight bounds it.
    """
    if window.end_ns <= window.begin_ns:
        return Overlap(why_not="the window has no length")
    at_once = mean_in_flight(requests, window)
    if window.loop == "closed":
        return Overlap(together=max(1, round(at_once)))
    wanted, n = math.ceil(_TIMES * at_once**2), window.rows.size
    rows = window.rows
    is_few = n <= MOST_WAITING
    waiting = queue(in_flight_when_due(requests.intended_ns[rows], requests.end_ns[rows])) if is_few else None
    if n >= wanted:
        return Overlap(waiting=waiting)
    why_not = f"with {at_once:.2g} requests in flight it takes some {wanted:,} to see how long a queue lasts"
    return Overlap(why_not=why_not, waiting=waiting)


def in_flight_when_due(intended: np.ndarray, end: np.ndarray) -> np.ndarray:
    """How many earlier requests of [n] in order of intent had not ended when each was due; `inf` ends never do."""
    ended = np.searchsorted(np.sort(end), intended, side="right")
    return np.asarray(np.arange(intended.size) - ended, dtype=np.float64)


def mean_in_flight(requests: Requests, window: Window) -> float:
    """Requests between intent and end, the mean over the window."""
    edges = np.array([window.begin_ns, window.end_ns])
    return float(in_flight(requests.intended_ns, requests.end_ns, edges)[0])
