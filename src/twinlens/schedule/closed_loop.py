"""Closed loops: a fixed number of requests in flight, each end starts the next. Never on one axis with open loops."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import islice

from twinlens.record.request import Request
from twinlens.schedule.request import ScheduledRequest

# A server that is gone refuses at once: without a rest each slot would ask it thousands of times a second.
_REST_NS = 100_000_000


class ClosedLoop:
    """`concurrency` requests in flight; the next is intended at the very moment at which one ends.

    After a refusal its slot rests for a tenth of a second.

    Over when `upcoming` are, or when `until_ns` has passed and at least `min_requests` are done. `from_first`: times
    count from the moment at which it is first asked what is due.
    """

    def __init__(
        self,
        concurrency: int,
        upcoming: Iterable[ScheduledRequest],
        *,
        until_ns: int | None = None,
        min_requests: int = 0,
        from_first: bool = False,
    ) -> None:
        self._upcoming: Iterator[ScheduledRequest] = iter(upcoming)
        self._free_ns = [0] * concurrency  # a heap: when each idle slot became free
        self._until_ns, self._min_requests, self._from_first = until_ns, min_requests, from_first
        self._ended = 0
        self._coming: deque[ScheduledRequest] = deque()

    def due(self, now_ns: int) -> tuple[ScheduledRequest, ...]:
        if self._from_first:
            self._free_ns, self._from_first = [now_ns] * len(self._free_ns), False
            self._until_ns = None if self._until_ns is None else self._until_ns + now_ns
        due: list[ScheduledRequest] = []
        while (at_ns := self.next_due_ns()) is not None and at_ns <= now_ns:
            heapq.heappop(self._free_ns)
            due.append(replace(self._coming.popleft(), intended_ns=at_ns))
        return tuple(due)

    def next_due_ns(self) -> int | None:
        if not self._free_ns or self._is_over(self._free_ns[0]) or self.coming(0) is None:
            return None
        return self._free_ns[0]

    def coming(self, place: int) -> ScheduledRequest | None:
        """As SeesEnds says."""
        while len(self._coming) <= place:
            scheduled = next(self._upcoming, None)
            if scheduled is None:
                return None
            self._coming.append(scheduled)
        return self._coming[place]

    def take(self, now_ns: int) -> ScheduledRequest | None:
        """As SeesEnds says; None too once the time is over."""
        if self._until_ns is not None and now_ns >= self._until_ns:
            return None
        if not self._coming and self.coming(0) is None:  # a call costs more than a look
            return None
        return self._coming.popleft()

    @property
    def left(self) -> tuple[ScheduledRequest, ...]:
        """Requests taken from `upcoming` and not handed out."""
        return tuple(self._coming)

    def done_with_follower(self, request: Request) -> None:
        """As SeesEnds says: no slot is free."""
        self._ended += 1

    def done(self, request: Request) -> None:
        self._ended += 1
        heapq.heappush(self._free_ns, request.end_ns + (_REST_NS if request.outcome == "refused" else 0))

    def _is_over(self, now_ns: int) -> bool:
        return self._until_ns is not None and now_ns >= self._until_ns and self._ended >= self._min_requests


def closed_slice(
    concurrency: int, upcoming: Iterator[ScheduledRequest], *, requests: int | None, slice_ns: int
) -> ClosedLoop:
    """`concurrency` requests in flight until `requests` were asked or, where that is None, `slice_ns` have passed.

    A turn begins with nothing in flight and ends when all that was asked has ended. So many requests are rounded up to
    whole waves of `concurrency`: with answers of one length no slot stays empty while others work. What it leaves:
    `left` of it, and then `upcoming`.
    """
    if requests is None:
        return ClosedLoop(concurrency, upcoming, until_ns=slice_ns, from_first=True)
    return ClosedLoop(concurrency, islice(upcoming, -(-requests // concurrency) * concurrency), from_first=True)
