"""Accelerators and what their makers say of them: dense rates, memory, bandwidth, power, with sources.

A datasheet figure is a quoted ceiling. A measured one replaces it wherever there is one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, PositiveFloat, PositiveInt

from twinlens.errors import BadInput, nearest
from twinlens.spec.frozen import Spec
from twinlens.system.document import toml_of


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


_RATE_OF = {"nvfp4": "fp4", "mxfp4": "fp4", "mxfp8": "fp8"}
"""Formats in blocks, by the rate that makers state: the scales of blocks cost no rate."""
Form = Literal[
    "datacentre-module", "datacentre-card", "workstation-card", "consumer-card", "desktop-system", "processor",
    "cloud-only",
]  # fmt: skip


Cell = Literal["memory", "bandwidth", "rates", "power", "ecc", "link"]


class MatrixUnits(Spec):
    """Units with matrix engines (multiprocessors, compute units), and what one does per clock in 16 bits, dense."""

    count: PositiveInt
    flop_per_clock: PositiveInt


class Device(Spec):
    """One accelerator. `reported_names` are what its driver calls it, letter for letter.

    `memory_bytes` is the nominal capacity; `memory_visible_bytes` is the driver's, None where unknown. `link` joins
    `domain` devices at most; `bus` is how it is plugged in; both are names of links. `narrow_accumulate_flop_per_s`
    does not accumulate in fp32. `achieved_flop_per_s` was measured of large products, by `achieved_source`.
    `sparse_times`: what the maker multiplies dense rates with for 2:4 sparsity. `uncertain`: cells to check, in words.
    """

    name: Annotated[str, Field(min_length=1, max_length=60, pattern=r"^[a-z0-9][a-z0-9.-]*$")]
    vendor: str
    reported_names: tuple[str, ...] = ()
    memory_bytes: PositiveInt
    memory_visible_bytes: PositiveInt | None = None
    bandwidth_bytes_per_s: PositiveFloat
    tdp_w: PositiveFloat | None = None
    dense_flop_per_s: DenseRates
    architecture: str | None = None
    year: PositiveInt | None = None
    compute_capability: str | None = None
    memory_type: str | None = None
    bus: str | None = None
    link: str | None = None
    domain: PositiveInt = 1
    form: Form | None = None
    ecc: bool | None = None
    shares_memory: bool = False
    """Memory is the processor's too, and a driver may give a part of it."""
    matrix_units: MatrixUnits | None = None
    narrow_accumulate_flop_per_s: DenseRates | None = None
    achieved_flop_per_s: DenseRates | None = None
    achieved_link_bytes_per_s: PositiveFloat | None = None
    """Bus bandwidth of all-reduces over its links, one way, as it was measured: it goes before the link's own."""
    achieved_source: str | None = None
    sparse_times: PositiveFloat | None = None
    uncertain: str | None = None
    sold_in: PositiveInt = 1
    """Devices of the smallest thing that can be bought or hired: 1 card, a board of 4 or 8, a rack of 72."""
    machine_w: PositiveFloat | None = None
    """The most that a whole machine of `machine_devices` draws, host, fans and network with it; None: nobody says."""
    machine_devices: PositiveInt = 8
    machine_source: str | None = None
    unverified: tuple[Cell, ...] = ()
    """What stands here from memory: no source of it was read."""
    source: str

    @property
    def known_memory_bytes(self) -> float:
        """The capacity as the driver shows it, else as it is sold."""
        return float(self.memory_visible_bytes or self.memory_bytes)

    @property
    def is_datacentre(self) -> bool:
        return self.form in ("datacentre-module", "datacentre-card")

    def achieved(self, number_format: str) -> float | None:
        """FLOP/s that large products were measured to reach; None where nobody has published it."""
        rates = self.achieved_flop_per_s
        field = number_format.split("-")[0]
        value: float | None = getattr(rates, field, None) if rates else None
        return value

    def rate(self, number_format: str) -> float | None:
        """Dense FLOP/s of matrix products in a format ("bf16", "fp8-e4m3"); None where it has none."""
        field = _RATE_OF.get(number_format, number_format.split("-")[0])
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
    raise no_device(name, list_devices())


_NEAR = {
    "laptop": "the desktop card of that number", "5080": "rtx-5090", "5070": "rtx-5090", "5060": "rtx-5090",
    "h800": "h100-sxm-80gb", "a800": "a100-sxm-80gb", "r9700": "no Radeon card", "m5": "m4-max",
    "mi450": "mi355x", "mi455": "mi355x", "vr200": "gb300",
}  # fmt: skip
"""Parts of names of devices that nothing with a source was read of, and what is nearest to each in the catalogue."""


def no_device(word: str, names: Iterable[str]) -> BadInput:
    """The error (TL204) of a device that is not among `names`: what is near it, and how to plan with its datasheet."""
    letters = "".join(each for each in word.lower() if each.isalnum())
    near = next((near for part, near in _NEAR.items() if part in letters), None)
    if near is None:
        return BadInput(f"no device {word[:60]!r} in the catalogue; {nearest(word.lower(), names)}", code="TL204")
    return BadInput(
        f"no device {word[:60]!r} in the catalogue: nothing with a source was read of it, and nearest to it is {near}; "
        "plan with its datasheet in a devices.toml of yours, --catalogue FOLDER",
        code="TL204",
    )


def find_device(reported_name: str) -> Device | None:
    """The device whose driver reports exactly this name; a name that is not known stays unknown."""
    wanted = " ".join(reported_name.split())
    return next((device for device in _devices() if wanted in device.reported_names), None)


@lru_cache(maxsize=1)
def _devices() -> tuple[Device, ...]:
    text = (Path(__file__).parent / "catalog" / "devices.toml").read_text(encoding="utf-8")
    return tuple(device_from(entry) for entry in toml_of(text)["device"])


def device_from(entry: dict[str, Any]) -> Device:
    """A device from a table of a TOML file. Raises ValidationError for fields that are wrong."""
    fields: dict[str, Any] = {name: tuple(each) if isinstance(each, list) else each for name, each in entry.items()}
    return Device(**fields)


# The device that a spec asks for, read once: "auto", "cpu", "cuda" or "cuda:N".


@dataclass(frozen=True, slots=True)
class AskedDevice:
    """`index`: which of the GPUs that this process may see, from 0; None: whichever comes first."""

    kind: Literal["auto", "cpu", "cuda"]
    index: int | None = None

    def __str__(self) -> str:
        return self.kind if self.index is None else f"{self.kind}:{self.index}"

    @property
    def names_gpu(self) -> bool:
        """It is a GPU and nothing else will do."""
        return self.kind == "cuda"


def asked_device(word: str) -> AskedDevice:
    """Raises BadInput (TL208) for a word that names no device, here or anywhere."""
    kind, colon, number = word.partition(":")
    if kind == "mps":
        raise BadInput("executor.device 'mps': Apple GPUs are not supported; use cpu", code="TL208")
    if kind == "cuda" and (number.isdecimal() if colon else True):
        return AskedDevice("cuda", int(number) if colon else None)
    if word == "auto":
        return AskedDevice("auto")
    if word == "cpu":
        return AskedDevice("cpu")
    raise BadInput(f"executor.device {word!r} is not one of auto, cpu, cuda, cuda:N", code="TL208")


# Links between devices, on their bus, and between machines: bandwidth of one device in one direction.


class Link(Spec):
    """`one_way_bytes_per_s`: of one device, in one direction. Makers quote NVLink and Infinity Fabric both ways.

    `kind`: between devices of a machine, on the bus of one, or between machines.
    """

    name: Annotated[str, Field(min_length=1, max_length=60, pattern=r"^[a-z0-9][a-z0-9.-]*$")]
    kind: Literal["device", "bus", "network"]
    one_way_bytes_per_s: Annotated[PositiveFloat, Field(le=1e14)]
    topology: Literal["switch", "mesh", "pairs", "bridge", "ring", "torus", "bus"]
    uncertain: str | None = None
    unverified: bool = False
    """It stands here from memory: no source of it was read."""
    source: str
