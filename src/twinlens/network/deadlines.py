"""Deadlines of the event loop: a request is due, an answer takes too long, or it is time to tick."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from twinlens.network.in_flight import InFlight
from twinlens.network.upkeep import Upkeep
from twinlens.network.wakeup import Timer


class Deadlines:
    """`timeout_ns`: how long an exchange may take from when it was sent."""

    def __init__(self, in_flight: InFlight, upkeep: Upkeep, timeout_ns: int, now_ns: Callable[[], int]) -> None:
        self._in_flight, self._upkeep, self._timeout_ns, self._now_ns = in_flight, upkeep, timeout_ns, now_ns
        self._timer = Timer()
        self._set_ns: int | None = None
        self._ends: deque[tuple[int, int]] = deque()  # of exchanges: when at the latest, and the key

    @property
    def fd(self) -> int | None:
        """Becomes readable when it is time; None where the poll has to count."""
        return self._timer.fd

    def add(self, key: int, sent_ns: int) -> None:
        """An exchange has begun."""
        self._ends.append((sent_ns + self._timeout_ns, key))

    def fail_late(self, now: int) -> None:
        """End what has taken too long."""
        ends, running = self._ends, self._in_flight.running
        while ends and (now >= ends[0][0] or ends[0][1] not in running):
            _, key = ends.popleft()
            if (connection := running.get(key)) is not None:
                self._in_flight.fail(connection, f"no end after {self._timeout_ns / 1e9:g} s")

    def has_passed(self, now: int) -> bool:
        """Whether the first of them has."""
        return bool(self._ends) and now >= self._ends[0][0]

    def heard(self) -> None:
        """The timer has fired."""
        self._timer.heard()
        self._set_ns = None

    def set(self, until_ns: int | None) -> None:
        """Wake then, or for the upkeep, or when an exchange has taken too long.

        A wake-up that comes too early costs little; so it is moved forward at once, and back when it comes.
        """
        ends, running = self._ends, self._in_flight.running
        while ends and ends[0][1] not in running:
            ends.popleft()
        times = [at for at in (until_ns, ends[0][0] if ends else None, self._upkeep.wake_ns) if at is not None]
        if times and (self._set_ns is None or min(times) < self._set_ns):
            self._set_ns = min(times)
            self._timer.set(self._set_ns)

    def set_where_none(self, until_ns: int | None) -> None:
        """`set`, where no wake-up is to come."""
        if self._set_ns is None:
            self.set(until_ns)

    def wait_s(self, until_ns: int | None) -> float:
        """How long a poll may take that has no timer, -1: for ever."""
        self.set(until_ns)
        at_ns, self._set_ns = self._set_ns, None
        return -1.0 if at_ns is None else max(0.0, (at_ns - self._now_ns()) / 1e9)

    def close(self) -> None:
        self._timer.close()
