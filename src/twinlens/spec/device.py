"""Accelerators and what their makers say of them: dense rates, memory, bandwidth, power, with sources.

A datasheet figure is a quoted ceiling. A measured one replaces it wherever there is one.
"""

from __future__ import annotations

import tomllib
from functools import lru_cache
from importlib import resources

from pydantic import PositiveFloat, PositiveInt

from twinlens.errors import BadInput, nearest
from twinlens.spec.frozen import Spec


class DenseRates(Spec):
    """Matrix rates in FLOP/s (int8 in operations/s) without structured sparsity. None where none is certain.

    `fp32` is the rate of plain fp32 arithmetic, `tf32` of fp32 data through the matrix engines. 16-bit
    and fp8 rates accumulate in fp32, which halves them on GeForce parts.
    """

    fp32: PositiveFloat | None = None
    tf32: PositiveFloat | None = None
    bf16: PositiveFloat | None = None
    fp16: PositiveFloat | None = None
    fp8: PositiveFloat | None = None
    int8: PositiveFloat | None = None
    fp4: PositiveFloat | None = None


class Device(Spec):
    """One accelerator. `reported_names` are what its driver calls it, letter for letter.

    `memory_bytes` is the nominal capacity; `memory_visible_bytes` is the driver's, None where unknown.
    """

    name: str
    vendor: str
    reported_names: tuple[str, ...]
    memory_bytes: PositiveInt
    memory_visible_bytes: PositiveInt | None = None
    bandwidth_bytes_per_s: PositiveFloat
    tdp_w: PositiveFloat
    dense_flop_per_s: DenseRates
    source: str

    def rate(self, number_format: str) -> float | None:
        """Dense FLOP/s of matrix products in a format ("bf16", "fp8-e4m3"); None where it has none."""
        field = number_format.split("-")[0]
        if field not in DenseRates.model_fields:
            return None
        value: float | None = getattr(self.dense_flop_per_s, field)
        return value


def list_devices() -> tuple[str, ...]:
    """Names in the catalogue, in its order."""
    return tuple(device.name for device in _devices())


def load_device(name: str) -> Device:
    """The device the catalogue calls `name`. Raises BadInput (TL204) with the nearest name."""
    for device in _devices():
        if device.name == name:
            return device
    raise BadInput(f"no device {name!r} in the catalogue; {nearest(name, list_devices())}", code="TL204")


def find_device(reported_name: str) -> Device | None:
    """The device whose driver reports exactly this name; a name that is not known stays unknown."""
    wanted = " ".join(reported_name.split())
    return next((device for device in _devices() if wanted in device.reported_names), None)


@lru_cache(maxsize=1)
def _devices() -> tuple[Device, ...]:
    text = (resources.files("twinlens.spec") / "catalog" / "devices.toml").read_text(encoding="utf-8")
    entries = tomllib.loads(text)["device"]
    return tuple(Device(**{**entry, "reported_names": tuple(entry["reported_names"])}) for entry in entries)
