"""Place of a model: what one device can do at most, how many there are, and how they share the model."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from twinlens.theory.number import Number


@dataclass(frozen=True, slots=True)
class Rates:
    """What one device reaches at most: FLOP/s of large products, bytes/s of memory and of its links, one way."""

    bytes_per_s: Number
    flop_per_s: Number
    """In the format of dense products."""
    expert_flop_per_s: Number
    wide_flop_per_s: Number
    """In 16 bits: attention."""
    link_bytes_per_s: Number
    """Between devices of one domain; 0 where there is none."""
    net_bytes_per_s: Number
    """Between nodes."""
    memory_bytes: Number
    domain: Number
    """Devices that the fast link joins."""


@dataclass(frozen=True, slots=True)
class Layout:
    """How devices share one copy of the model while serving: devices = tensor · data · pipeline."""

    tensor: Number = 1
    data: Number = 1
    """Groups that hold attention of their own, and share the experts."""
    pipeline: Number = 1
    expert: Number = 1
    """Devices that divide the experts among them; the rest of the group divides each expert's width."""
    serial: Number = 0
    """1: layers are split over devices that work one after another (llama.cpp)."""

    @property
    def devices(self) -> Number:
        return self.tensor * self.data * self.pipeline


SERIAL = ("llama.cpp",)
"""Engines that split layers over devices, which then work one after another."""


def layout_of(engine: str, tensor: Number, pipeline: Number, data: Number = 1.0) -> Layout:
    """How an engine shares a copy over that many devices: llama.cpp is calibrated layer by layer, and predicted so.

    Alone, a tensor group divides the width of each expert; groups divide whole experts over all their devices.
    """
    if engine in SERIAL:
        one = tensor * 0 + 1.0
        return Layout(one, one, one, one, one)
    return Layout(tensor, data, pipeline, np.where(np.asarray(data) > 1, data * tensor, 1.0))
