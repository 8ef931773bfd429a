"""Ceilings of a device of the catalogue, in the formats that a model is stored and multiplied in."""

from __future__ import annotations

from twinlens.errors import BadInput
from twinlens.planning.prediction.place import Rates
from twinlens.planning.prediction.stored import Stored
from twinlens.spec.catalogue import Catalogue, shipped
from twinlens.spec.device import Device

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
    kind = (device.vendor, architecture(device), device.form)
    alike = (_measured_share(each) for each in shipped().devices
             if (each.vendor, architecture(each), each.form) == kind)  # fmt: skip
    return min(USUAL_SHARE, *(each for each in alike if each is not None), USUAL_SHARE)


def _measured_share(device: Device) -> float | None:
    measured, quoted = device.achieved("bf16"), device.rate("bf16")
    return measured / quoted if measured and quoted else None


def is_calibrated_kind(device: Device) -> bool:
    """Whether shipped constants are of such devices: they are of accelerators, so a processor needs a measurement."""
    return device.form != "processor" or device.achieved_flop_per_s is not None


def architecture(device: Device) -> str:
    """The architecture as groups name it: without the processor that it is joined to."""
    return (device.architecture or "unknown").split("+")[0].split(" (")[0].strip()
