"""The backlog of reads: understood once nothing more comes, or once they have waited too long."""

from __future__ import annotations

from twinlens.network.in_flight import InFlight

_AT_ONCE = 8
_MOST_LATE_NS = 10_000_000  # where more comes all the time
_NEAR_LATE_NS = 50_000_000  # the same while answers are about to end, whose followers go first


class Backlog:
    """Works off the queue of what is in flight, one answer at a time between two polls."""

    def __init__(self, in_flight: InFlight) -> None:
        self._in_flight = in_flight
        self._since_ns = 0  # since when something has waited; 0: nothing does

    def work(self, now: int, reads: int, *, follows: bool) -> None:
        """As little as can be while more comes, which may end an answer, after which another request is due."""
        queue, look = self._in_flight.queue, self._in_flight.look
        if not reads:
            look(*queue.popleft(), follows=follows)
        elif not follows or self._is_late(now):
            for _ in range(1 + min(len(queue) // _AT_ONCE, _AT_ONCE)):  # a client that is late must not gather more
                look(*queue.popleft(), follows=follows)
        if not queue:
            self._since_ns = 0

    def _is_late(self, now: int) -> bool:
        self._since_ns = self._since_ns or now
        return now - self._since_ns > (_NEAR_LATE_NS if self._in_flight.near else _MOST_LATE_NS)
