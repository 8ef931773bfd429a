"""Place of a model: what one device can do at most, how many there are, and how they share the model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from twinlens.errors import BadInput
from twinlens.planning.prediction.work import Stored
from twinlens.spec.catalogue import Catalogue, shipped
from twinlens.spec.device import Device
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


# Ceilings of a device of the catalogue, in the formats that a model is stored and multiplied in.

USUAL_SHARE = 0.75
"""Measured over quoted matrix rate where nobody published a measurement of the device: a median of those that were."""
_BUS_BYTES_PER_S = 32e9
_VISIBLE = 0.93
"""Usable over nominal memory in GiB over GB, where the driver's figure is not known: 80 GB is 79.2 to 80 GiB."""
_WIDER = {"fp4": ("fp4", "fp8", "bf16"), "fp8": ("fp8", "bf16"), "int8": ("int8", "bf16"), "bf16": ("bf16", "fp16")}
_NEEDED = ("bf16", "fp16", "fp32")
_ACCUMULATES_NARROW = {"llama.cpp"}
"""Engines whose 16-bit products accumulate in 16 bits, twice as fast on GeForce cards."""


def rates_of(device: Device, stored: Stored, engine: str = "", catalogue: Catalogue | None = None) -> Rates:
    """Ceilings of one device for a model stored so. Raises BadInput for a device without a known rate."""
    known = catalogue or shipped()
    link = known.link_of(device)
    bus = known.link(device.bus).one_way_bytes_per_s if device.bus else _BUS_BYTES_PER_S
    between = known.network_of(device).one_way_bytes_per_s
    narrow = engine in _ACCUMULATES_NARROW
    return Rates(
        bytes_per_s=device.bandwidth_bytes_per_s,
        flop_per_s=product_rate(device, stored.product, narrow),
        expert_flop_per_s=product_rate(device, stored.expert_product, narrow),
        wide_flop_per_s=product_rate(device, "bf16", narrow),
        link_bytes_per_s=device.achieved_link_bytes_per_s or (link.one_way_bytes_per_s if link else bus),
        net_bytes_per_s=bus if device.domain < 8 else between,
        memory_bytes=device.memory_visible_bytes or device.memory_bytes * _VISIBLE * 2**30 / 1e9,
        domain=max(device.domain, 1),
    )


def product_rate(device: Device, product: str, narrow: bool = False) -> float:
    """FLOP/s of large products in a format, or in the next wider one that the device has; in fp32 at worst.

    Raises BadInput (TL231) where none of them is known: attention runs in 16 bits, whatever weights are stored in.
    """
    if narrow and device.narrow_accumulate_flop_per_s and device.narrow_accumulate_flop_per_s.fp16:
        return device.narrow_accumulate_flop_per_s.fp16 * USUAL_SHARE
    for form in (*_WIDER.get(product, (product,)), *_NEEDED):
        quoted = device.rate(form)
        if quoted:
            return quoted * _share(device)
    raise BadInput(
        f"{device.name} has no published rate in 16 bits or fp32, so its speed is not predicted; probe the machine",
        code="TL231",
    )


def is_rated(device: Device) -> bool:
    """Whether a rate of the arithmetic that every model needs is known: of 16 bits, or of fp32."""
    return any(device.rate(each) for each in _NEEDED)


def _share(device: Device) -> float:
    """Measured over quoted rate in 16 bits: makers' figures of narrow formats exceed what is reached as those do.

    A part that nobody measured reaches no more than those of its architecture and form that were.
    """
    measured = _measured_share(device)
    if measured is not None:
        return measured
    return _least_shares().get((device.vendor, architecture(device), device.form), USUAL_SHARE)


@lru_cache(maxsize=1)
def _least_shares() -> Mapping[tuple[str, str, str | None], float]:
    """The least share of the shipped parts of a kind that were measured, at most the usual one."""
    found: dict[tuple[str, str, str | None], float] = {}
    for each in shipped().devices:
        kind, measured = (each.vendor, architecture(each), each.form), _measured_share(each)
        if measured is not None:
            found[kind] = min(found.get(kind, USUAL_SHARE), measured)
    return found


def _measured_share(device: Device) -> float | None:
    measured, quoted = device.achieved("bf16"), device.rate("bf16")
    return measured / quoted if measured and quoted else None


def is_calibrated_kind(device: Device) -> bool:
    """Whether shipped constants are of such devices: they are of accelerators, so a processor needs a measurement."""
    return device.form != "processor" or device.achieved_flop_per_s is not None


def architecture(device: Device) -> str:
    """The architecture as groups name it: without the processor that it is joined to."""
    return (device.architecture or "unknown").split("+")[0].split(" (")[0].strip()
