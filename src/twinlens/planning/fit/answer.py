"""The answer to whether work fits: where it was asked for, where else, what would change it, and how far it goes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from twinlens.planning.fit.serving import Serving
from twinlens.planning.fit.training import Training
from twinlens.record.codec import encode
from twinlens.record.finding import Finding
from twinlens.spec.device import Device
from twinlens.spec.model.shape import DecoderShape
from twinlens.theory.figure import Figure, Input, assumed, total

# A placement: work on some devices of one kind, what it needs on each, and what each has.

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


# Parallel degrees that are legal: heads, key-value heads, layers and experts must divide.

MOST_DEVICES = 1024
_NODE = 8
COUNTS = (1, 2, 4, *range(_NODE, MOST_DEVICES + 1, _NODE))
"""Devices that are tried: up to a node of 8, then whole nodes."""


def tensor_degrees(shape: DecoderShape, most: int = MOST_DEVICES) -> tuple[int, ...]:
    """Degrees that divide the heads and the inner width, and that the KV heads divide or that divide them.

    With more devices than KV heads each of those is copied, which needs a whole number of copies.
    """
    heads = shape.fewest_kv_heads
    inner = shape.experts.intermediate if shape.experts else shape.intermediate
    return tuple(
        degree
        for degree in range(1, min(most, shape.heads) + 1)
        if shape.heads % degree == 0
        and inner % degree == 0
        and (shape.mla is not None or heads % degree == 0 or degree % heads == 0)
    )


def pipeline_degrees(shape: DecoderShape, most: int = MOST_DEVICES) -> tuple[int, ...]:
    """Degrees that divide the layers."""
    return tuple(degree for degree in range(1, min(most, shape.layers) + 1) if shape.layers % degree == 0)


def expert_degrees(shape: DecoderShape, most: int = MOST_DEVICES) -> tuple[int, ...]:
    """Degrees that divide the routed experts; 1 alone without any."""
    experts = shape.experts.count if shape.experts else 1
    return tuple(degree for degree in range(1, min(most, experts) + 1) if experts % degree == 0)


def may_group(device: Device) -> bool:
    """Whether groups that share experts are proposed on a device: where a fast link joins the devices of a machine.

    They send every token to other devices in every layer, and no measurement holds that over a bus.
    """
    return device.domain >= _NODE


def group_degrees(shape: DecoderShape, tensor: int = 1, most: int = MOST_DEVICES) -> tuple[int, ...]:
    """Groups of attention, each on `tensor` devices, that share the experts; 1 alone without any.

    Together they have as many devices as are tried, and at most as many as there are experts.
    """
    devices = min(most, shape.experts.count) if shape.experts else 1
    shared = (count // tensor for count in COUNTS if tensor < count <= devices and count % tensor == 0)
    return (1, *shared)


def copy_layouts(shape: DecoderShape, most: int, most_tensor: int = 8) -> tuple[tuple[int, int], ...]:
    """Tensor degree and groups of copies that share experts, the fewest devices first."""
    found = [(tensor, groups) for tensor in tensor_degrees(shape, most_tensor)
             for groups in group_degrees(shape, tensor, most)[1:]]  # fmt: skip
    return tuple(sorted(found, key=lambda each: (each[0] * each[1], each[0])))


@dataclass(frozen=True, slots=True)
class Fit:
    """`asked`: on the device that was named, else None. `others`: the fewest of each device that do.

    `changes`: what flips the answer, one thing at a time. `most`: the largest number of users or sequences, and tokens.
    `legal`: parallel degrees that divide the model.
    """

    plan: Serving | Training
    asked: Placement | None
    others: tuple[Placement, ...]
    changes: tuple[Finding, ...] = ()
    most: tuple[Figure, ...] = ()
    legal: tuple[tuple[str, tuple[int, ...]], ...] = ()

    @property
    def fits(self) -> bool | None:
        return self.asked.fits if self.asked else (any(each.fits for each in self.others) or None)

    def assumptions(self) -> tuple[Finding, ...]:
        """All that was taken for granted, each once."""
        shown = self.asked or next(iter(self.others), None)
        return () if shown is None else (*shown.needed.all_assumptions(), *shown.usable.assumptions)

    def __json__(self) -> dict[str, Any]:
        """The arithmetic, as plain data."""
        return {
            **encode(self.plan),
            "fits": self.fits,
            "close": None if self.asked is None else self.asked.is_close,
            "asked": self.asked,
            "others": self.others,
            "changes": self.changes,
            "most": self.most,
            "legal": dict(self.legal),
            "assumptions": self.assumptions(),
        }


def change(what: str, **numbers: Any) -> Finding:
    """One thing that, changed alone, makes it fit."""
    return Finding("plan-change", "notes", what, numbers)
