"""A placement: work on some devices of one kind, what it needs on each, and what each has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from twinlens.planning.figure import Figure, Input, assumed, total
from twinlens.spec.device import Device

SHARED_SHARE = 0.75
"""Of a memory that the processor shares, what a GPU may take."""
MEMORY_ERROR = 0.03
"""Share by which a sum of parts may be off, against what was measured (tests/planning/test_memory_accuracy.py)."""
TRAINING_SHORT = 0.2
"""Share by which a step of training may need more: caution, for no public run says what did not fit, nor a measured
peak (docs/results/memory-of-plans.md). None that fitted is told No."""


@dataclass(frozen=True, slots=True)
class Placement:
    """`parts`: bytes on the fullest device; `split`: parallel degrees by name; `devices` is their product."""

    device: str
    devices: int
    parts: tuple[Figure, ...]
    usable: Figure
    split: Mapping[str, int] = field(default_factory=dict)
    short: float = MEMORY_ERROR
    """Share by which such sums may be too small."""

    @property
    def needed(self) -> Figure:
        """Their sum, within the share by which such sums were found to be off."""
        whole = total("needed", "bytes", self.parts)
        if whole.value is None:
            return whole
        value = float(whole.value)
        return replace(whole, low=value * (1 - MEMORY_ERROR), high=value * (1 + self.short))

    @property
    def is_close(self) -> bool:
        """Whether the error of such sums could turn the answer."""
        low, high, room = self.needed.low, self.needed.high, self.usable.number
        return low is not None and high is not None and float(low) <= room <= float(high)

    @property
    def fits(self) -> bool | None:
        """None where a part is not known and the others would fit."""
        known = sum(float(part.value) for part in self.parts if part.value is not None)
        if known > self.usable.number:
            return False
        return None if any(part.value is None for part in self.parts) else True

    @property
    def left_bytes(self) -> float | None:
        """What stays free on each device; negative where it does not fit, None where a part is not known."""
        needed = self.needed.value
        return None if needed is None else self.usable.number - float(needed)

    def __json__(self) -> dict[str, Any]:
        return {
            "device": self.device,
            "devices": self.devices,
            "split": self.split,
            "fits": self.fits,
            "left_bytes": self.left_bytes,
            "usable": self.usable,
            "needed": self.needed,
        }


def usable(device: Device, share: float, source: str = "") -> Figure:
    """Bytes of a device that a runtime may use: of what its driver shows, else of its nominal size."""
    if device.shares_memory and share > SHARED_SHARE:
        share, source = SHARED_SHARE, "the processor needs the rest, as macOS has it by default"
    seen = device.memory_visible_bytes
    memory = Input("memory", seen or device.memory_bytes, "bytes", device.source)
    inputs = (Input("memory-share", share, "1", source), memory)
    notes = () if seen else (assumed("memory-nominal", device.name, memory_bytes=device.memory_bytes),)
    return Figure(
        "usable", share * float(memory.value), "bytes", "{0} × {1}", inputs, origin="quoted", assumptions=notes
    )
