"""The offset of another machine's clock from ours, and its uncertainty (Cristian 1989; NTP does the same).

Their reading lies between our sending and our hearing of it, so half the round trip bounds the error of taking the
middle, whatever the way there and back took. The shortest of several round trips has the smallest bound.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

_TRIPS = 60


@dataclass(frozen=True, slots=True)
class Offset:
    """Their clock minus ours is `offset_ns`, give or take `bound_ns`; nanoseconds."""

    offset_ns: int
    bound_ns: int


def measured_offset(
    their_ns: Callable[[], int], trips: int = _TRIPS, now_ns: Callable[[], int] = time.monotonic_ns
) -> Offset:
    """Ask for their time so many times and take the shortest round trip."""
    best: Offset | None = None
    for _ in range(trips):
        before = now_ns()
        theirs = their_ns()
        after = now_ns()
        bound = -(-(after - before) // 2) + 1  # rounded up: a bound that is a nanosecond short is none
        if best is None or bound < best.bound_ns:
            best = Offset(theirs - (before + after) // 2, bound)
    assert best is not None
    return best


def bound_over(before: Offset, after: Offset) -> int:
    """How far off `before` can have been at any time up to that of `after`, if the clocks drift steadily: ns."""
    return max(before.bound_ns, abs(after.offset_ns - before.offset_ns) + after.bound_ns)
