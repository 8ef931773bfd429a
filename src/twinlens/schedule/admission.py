"""Holding requests back in front of a server, to compare ways of batching on the same arrivals.

The intended time stays what it was, so waiting here is part of the latency like any other queue. `released_ns` is when
an ideal gate would have let the request go, worked out from arrivals and ends and not from when anyone came to look:
what lies between it and `sent_ns` is the client's own lateness.
"""

from __future__ import annotations

import heapq
from collections import deque
from dataclasses import dataclass, replace

import numpy as np

from twinlens.record.request import Request
from twinlens.schedule.request import Schedule, ScheduledRequest


class BatchAdmission:
    """Batches of up to `size`, one at a time: the next goes when every answer of the one before has ended.

    `timeout_ns` None is static batching: it waits until a batch is full. A number is dynamic batching: it waits at
    most so long after the oldest waiting ask was intended. Where nothing more can come before something is done, a
    batch goes as it is: waiting would be for ever. Asks of one batch share a `group`.
    """

    def __init__(self, schedule: Schedule, size: int, timeout_ns: int | None = None) -> None:
        self._schedule, self._size, self._timeout_ns = schedule, size, timeout_ns
        self._waiting: deque[ScheduledRequest] = deque()
        self._running = self._batch = self._free_ns = 0

    def due(self, now_ns: int) -> tuple[ScheduledRequest, ...]:
        self._waiting.extend(self._schedule.due(now_ns))
        at_ns = self._release_ns()
        if at_ns is None or at_ns > now_ns:
            return ()
        members: list[ScheduledRequest] = []
        while self._waiting and len(members) < self._size and self._waiting[0].intended_ns <= at_ns:
            members.append(replace(self._waiting.popleft(), group=self._batch, released_ns=at_ns))
        self._batch += 1
        self._running = len(members)
        return tuple(members)

    def next_due_ns(self) -> int | None:
        if self._running:
            return None
        times = (self._release_ns(), self._schedule.next_due_ns())
        return min((at_ns for at_ns in times if at_ns is not None), default=None)

    def done(self, request: Request) -> None:
        self._running -= 1
        self._free_ns = max(self._free_ns, request.end_ns)
        self._schedule.done(request)

    def _release_ns(self) -> int | None:
        """When the next batch goes, from what is known now; None where that is not settled yet."""
        if self._running or not self._waiting:
            return None
        first = [self._waiting[i].intended_ns for i in range(min(self._size, len(self._waiting)))]
        times: list[int] = []
        if len(first) == self._size or (self._timeout_ns is None and self._schedule.next_due_ns() is None):
            times.append(max(first))
        if self._timeout_ns is not None:
            times.append(first[0] + self._timeout_ns)
        return max(self._free_ns, min(times)) if times else None


class Continuous:
    """Every request goes at once or, with a `limit`, as soon as fewer are in flight: first come, first served."""

    def __init__(self, schedule: Schedule, limit: int | None = None) -> None:
        self._schedule = schedule
        self._free_ns: list[int] | None = None if limit is None else [0] * limit  # a heap of idle slots
        self._waiting: deque[ScheduledRequest] = deque()

    def due(self, now_ns: int) -> tuple[ScheduledRequest, ...]:
        self._waiting.extend(self._schedule.due(now_ns))
        due: list[ScheduledRequest] = []
        while self._waiting and self._has_slot():
            scheduled = self._waiting.popleft()
            free_ns = heapq.heappop(self._free_ns) if self._free_ns is not None else 0
            due.append(replace(scheduled, released_ns=max(scheduled.intended_ns, free_ns)))
        return tuple(due)

    def next_due_ns(self) -> int | None:
        if not self._has_slot():
            return None
        return self._waiting[0].intended_ns if self._waiting else self._schedule.next_due_ns()

    def done(self, request: Request) -> None:
        if self._free_ns is not None:
            heapq.heappush(self._free_ns, request.end_ns)
        self._schedule.done(request)

    def _has_slot(self) -> bool:
        return self._free_ns is None or bool(self._free_ns)


@dataclass(frozen=True, slots=True)
class Held:
    """Why each request waited between its intended and its released time, nanoseconds of shape (rows,); they add up to
    it.

    `queued`: every slot was taken. `blocked`: a slot was free, but the batch before had an answer left to finish
    (head-of-line blocking). `gathering`: nothing ran, and the batch was not full yet.
    """

    queued_ns: np.ndarray
    blocked_ns: np.ndarray
    gathering_ns: np.ndarray


def held(group: np.ndarray, intended_ns: np.ndarray, released_ns: np.ndarray, end_ns: np.ndarray, size: int) -> Held:
    """Take apart what the rows of a batched run waited for; all of shape (rows,). `size` is that of a full batch."""
    first = np.unique(group, return_index=True)[1]
    order = np.argsort(released_ns[first], kind="stable")
    batch = np.searchsorted(group[first], group)
    count = np.bincount(batch)[order]
    begins = released_ns[first][order].astype(float)
    first_end, last_end = (_ends(of, batch, end_ns)[order] for of in (np.minimum, np.maximum))
    first_end = np.where(count < size, begins, first_end)  # a batch that is not full leaves a slot free from the start
    waited = (intended_ns, released_ns)
    queued, blocked = (_overlap(*waited, *busy) for busy in ((begins, first_end), (first_end, last_end)))
    return Held(queued, blocked, released_ns - intended_ns - queued - blocked)


def _ends(of: np.ufunc, batch: np.ndarray, end_ns: np.ndarray) -> np.ndarray:
    ends = np.full(batch.max(initial=-1) + 1, np.inf if of is np.minimum else -np.inf)
    of.at(ends, batch, end_ns)
    return ends


def _overlap(start_ns: np.ndarray, stop_ns: np.ndarray, begins: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """How much of each stretch from start to stop lies in the intervals, which do not overlap each other."""
    edges = np.stack([begins, ends], axis=1).ravel()
    total = np.stack([np.cumsum(ends - begins) - (ends - begins), np.cumsum(ends - begins)], axis=1).ravel()
    if not len(edges):
        return np.zeros(len(start_ns), dtype=np.int64)
    return np.asarray(np.rint(np.interp(stop_ns, edges, total) - np.interp(start_ns, edges, total)), dtype=np.int64)
