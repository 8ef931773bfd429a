"""The time of a step or a request, split into parts on one clock: they add up to all of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

Unit = Literal["step", "request"]
UNATTRIBUTED = "unattributed"
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Partition:
    """The mean time of one `unit` in seconds, by part, in the order in which it passes; "unattributed" comes last.

    `count`: steps or requests behind it. `reason`: why there is none; then `parts` is empty.
    """

    unit: Unit
    parts: Mapping[str, float]
    count: int
    reason: str | None = None

    @property
    def seconds(self) -> float:
        """The mean time of one step or request."""
        return sum(self.parts.values())

    def share(self, part: str) -> float:
        """The share of a part, 0 to 1; 0 of a part that does not exist here."""
        return self.parts.get(part, 0.0) / self.seconds if self.seconds else 0.0

    def __json__(self) -> dict[str, Any]:
        """A plain mapping, with the share of each part."""
        parts = [{"part": name, "seconds": s, "share": self.share(name)} for name, s in self.parts.items()]
        plain = {"unit": self.unit, "seconds": self.seconds, "count": self.count, "parts": parts}
        return plain | ({"reason": self.reason} if self.reason else {})


def partition_of(unit: Unit, total_s: float, spent_s: Mapping[str, float], count: int) -> Partition:
    """A partition of `total_s`, summed over `count` steps or requests; what `spent_s` leaves is unattributed.

    Absent where the parts come to more than there was: they then overlap, and no share of them means anything.
    """
    if count <= 0 or total_s <= 0:
        return absent(unit, "no step or request of the window ended well")
    left = total_s - sum(spent_s.values())
    if left < -_ROUNDING * total_s or any(spent < -_ROUNDING * total_s for spent in spent_s.values()):
        return absent(unit, "the parts overlap: together they are more than the time there was")
    parts = {name: max(0.0, spent) / count for name, spent in spent_s.items()}
    return Partition(unit, parts | {UNATTRIBUTED: max(0.0, left) / count}, count)


def absent(unit: Unit, reason: str) -> Partition:
    """No partition, and why."""
    return Partition(unit, {}, 0, reason)
