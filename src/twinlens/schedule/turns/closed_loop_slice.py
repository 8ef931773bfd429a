"""One turn of a closed loop: so many requests, or those of so long, from the moment the first is asked for."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice

from twinlens.record.request import Request
from twinlens.schedule.loop.closed_loop import ClosedLoop
from twinlens.schedule.request import ScheduledRequest


class ClosedSlice:
    """`concurrency` requests in flight until `requests` were asked or, where that is None, `slice_ns` have passed.

    A turn begins with nothing in flight and ends when all that was asked has ended. So many requests are rounded up to
    whole waves of `concurrency`: with answers of one length no slot stays empty while others work.
    """

    def __init__(
        self, concurrency: int, upcoming: Iterator[ScheduledRequest], *, requests: int | None, slice_ns: int
    ) -> None:
        self._concurrency, self._upcoming = concurrency, upcoming
        self._count = None if requests is None else -(-requests // concurrency) * concurrency
        self._slice_ns = slice_ns
        self._loop: ClosedLoop | None = None

    def due(self, now_ns: int) -> tuple[ScheduledRequest, ...]:
        if self._loop is None:
            upcoming = self._upcoming if self._count is None else islice(self._upcoming, self._count)
            until_ns = now_ns + self._slice_ns if self._count is None else None
            self._loop = ClosedLoop(self._concurrency, upcoming, start_ns=now_ns, until_ns=until_ns)
        return self._loop.due(now_ns)

    def next_due_ns(self) -> int | None:
        return 0 if self._loop is None else self._loop.next_due_ns()

    def done(self, request: Request) -> None:
        self._begun.done(request)

    def coming(self, place: int) -> ScheduledRequest | None:
        """As SeesEnds says."""
        return self._begun.coming(place)

    def take(self, now_ns: int) -> ScheduledRequest | None:
        """As SeesEnds says."""
        return self._begun.take(now_ns)

    def done_with_follower(self, request: Request) -> None:
        """As SeesEnds says."""
        self._begun.done_with_follower(request)

    def rest(self) -> Iterator[ScheduledRequest]:
        """Requests not sent yet: the next turn goes on with them."""
        return self._upcoming if self._loop is None else chain(self._loop.left, self._upcoming)

    @property
    def _begun(self) -> ClosedLoop:
        assert self._loop is not None
        return self._loop
