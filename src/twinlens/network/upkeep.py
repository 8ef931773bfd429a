"""Upkeep of the event loop every 10 ms: clocks, quiet answers, and the time to wait for more reads."""

from __future__ import annotations

from twinlens.network.coalesce import Coalescing
from twinlens.network.counts import Counts
from twinlens.network.in_flight import InFlight
from twinlens.network.timestamp import WallOffset

_QUIET_NS = 200_000_000
_NEAR_SHARE = 0.15


class Upkeep:
    """`offset`: of the wall clock. `coalescing`: says when to `tick` again. `stamps`: whether the kernel was asked for
    them."""

    def __init__(self, in_flight: InFlight, counts: Counts, *, stamps: bool) -> None:
        self._in_flight, self._counts, self._stamps = in_flight, counts, stamps
        self._quiet_ns = 0
        self.offset, self.coalescing = WallOffset(), Coalescing()

    @property
    def wake_ns(self) -> int | None:
        """When to wake for it though nothing comes; None: nothing is under way."""
        return max(self._quiet_ns, self.coalescing.next_ns) if self._in_flight.running else None

    def tick(self, now: int) -> None:
        """To be called once it is `coalescing.next_ns`."""
        running, counts = self._in_flight.running, self._counts
        if now >= self.offset.next_ns:
            self.offset.watch(now)
        if now >= self._quiet_ns:
            self._quiet_ns = now + _QUIET_NS
            for connection in running.values():
                exchange = connection.exchange
                if exchange is not None and exchange.got and exchange.got[-1] < now - _QUIET_NS:
                    self._in_flight.queue_look(connection, exchange)
        stamped = self._stamps and not counts.unstamped_connections
        ends = len(self._in_flight.near) > _NEAR_SHARE * len(running)  # at once: their followers are to leave at once
        self.coalescing.choose(now, counts.reads, len(running), is_stamped=stamped and not ends)
        counts.gather_ns = self.coalescing.most_ns
