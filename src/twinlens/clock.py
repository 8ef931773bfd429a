"""Time as a value that can be passed: a monotonic clock for real runs, a virtual one for laws and tests."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Integer nanoseconds from an arbitrary origin; never steps back."""

    def now_ns(self) -> int: ...
    def sleep_until_ns(self, deadline_ns: int) -> None: ...


class MonotonicClock:
    """The system's monotonic clock (CLOCK_MONOTONIC on Linux)."""

    def now_ns(self) -> int:
        return time.monotonic_ns()

    def sleep_until_ns(self, deadline_ns: int) -> None:
        """Sleep to an absolute deadline: a relative sleep would add its own lateness to every later event."""
        while (left := deadline_ns - time.monotonic_ns()) > 0:
            time.sleep(left / 1e9)


class VirtualClock:
    """A clock that moves only when told to, so hours of schedule pass in no time and exactly."""

    def __init__(self, start_ns: int = 0) -> None:
        self._now_ns = start_ns

    def now_ns(self) -> int:
        return self._now_ns

    def sleep_until_ns(self, deadline_ns: int) -> None:
        self._now_ns = max(self._now_ns, deadline_ns)

    def advance_ns(self, duration_ns: int) -> None:
        """Move on by a duration in nanoseconds (not negative)."""
        if duration_ns < 0:
            raise ValueError("a clock never steps back")
        self._now_ns += duration_ns
