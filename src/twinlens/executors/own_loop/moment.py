"""Moments of a loop: the processor's clock. Those on a GPU's stream are in torch_moment.py."""

from __future__ import annotations

import time
from typing import Any, Protocol


class Moments(Protocol):
    """A clock whose moments may become known later than they are taken."""

    def now(self) -> Any:
        """This moment."""
        ...

    def between_ns(self, begin: Any, end: Any) -> int:
        """Nanoseconds from one moment to a later one, both reached."""
        ...

    def is_reached(self, moment: Any) -> bool:
        """Whether it has passed, so that its time is known."""
        ...

    def wait(self) -> None:
        """Until all moments that were taken are reached."""
        ...

    def anchor(self) -> tuple[Any, int]:
        """A moment, and what the processor's monotonic clock said then, in nanoseconds."""
        ...


class HostMoments:
    """Nanoseconds of the monotonic clock."""

    def now(self) -> int:
        return time.monotonic_ns()

    def between_ns(self, begin: int, end: int) -> int:
        return end - begin

    def is_reached(self, moment: int) -> bool:
        return True

    def wait(self) -> None:
        pass

    def anchor(self) -> tuple[int, int]:
        now_ns = time.monotonic_ns()
        return now_ns, now_ns
