"""Compatibility and rates of failure, as somebody dated said them: a table in the package, and a user's own."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, PositiveFloat, ValidationError

from twinlens.errors import BadInput
from twinlens.spec.device import Device
from twinlens.spec.frozen import Spec
from twinlens.system.document import read_toml, toml_of

Axis = Literal[
    "runtime-device", "runtime-precision", "runtime-model", "driver-device", "driver-runtime",
]  # fmt: skip
Verdict = Literal["yes", "limited", "no", "unknown"]
UNUSABLE = "TL232"
_MOST_BYTES = 2**20
Day = Annotated[str, Field(pattern=r"^20\d\d-\d\d-\d\d$")]


class Rule(Spec):
    """One row. A field that is None holds of everything; `models`, `devices`, `formats`: how names begin.

    `capability`: from (included), to (left out). `driver_from`: the oldest driver, which then decides.
    """

    axis: Axis
    runtime: str | None = None
    vendor: str | None = None
    vendors: tuple[str, ...] | None = None
    capability: tuple[float, float] | None = None
    devices: tuple[str, ...] | None = None
    formats: tuple[str, ...] | None = None
    models: tuple[str, ...] | None = None
    driver_from: str | None = None
    verdict: Verdict = "unknown"
    says: Annotated[str, Field(max_length=200)]
    date: Day
    source: Annotated[str, Field(min_length=1, max_length=300)]

    def holds(self, device: Device, runtime: str | None, precision: str, model: str) -> bool:
        """Whether it is of this device, runtime, format and model."""
        vendors = (self.vendor,) if self.vendor else self.vendors
        return (
            (self.runtime is None or self.runtime == runtime)
            and (vendors is None or device.vendor in vendors)
            and (self.devices is None or device.name.startswith(self.devices))
            and (self.formats is None or precision.startswith(self.formats))
            and (self.models is None or model.startswith(self.models))
            and self._is_of(device)
        )

    def _is_of(self, device: Device) -> bool:
        """A range of compute capabilities is of NVIDIA alone; a device of another maker has none to be in it."""
        if self.capability is None or device.vendor != "NVIDIA":
            return True
        low, high = self.capability
        return device.compute_capability is not None and low <= float(device.compute_capability) < high


class FailureRate(Spec):
    """`events` of one kind that were counted in `device_hours` of a device."""

    device: str
    what: Literal["interruption", "memory-error"]
    events: Annotated[int, Field(ge=0, le=10**9)]
    device_hours: Annotated[PositiveFloat, Field(le=1e15)]
    date: Day
    source: Annotated[str, Field(min_length=1, max_length=300)]


@lru_cache(maxsize=1)
def _shipped() -> dict[str, Any]:
    text = (Path(__file__).parent / "catalog" / "compatibility.toml").read_text(encoding="utf-8")
    return toml_of(text)


@lru_cache(maxsize=1)
def shipped_rules() -> tuple[Rule, ...]:
    """The rules of the package, in their order."""
    return tuple(Rule(**_frozen(entry)) for entry in _shipped()["rule"])


@lru_cache(maxsize=1)
def shipped_rates() -> tuple[FailureRate, ...]:
    """The rates of the package."""
    return tuple(FailureRate(**entry) for entry in _shipped()["rate"])


def read_compatibility(path: Path) -> tuple[tuple[Rule, ...], tuple[FailureRate, ...]]:
    """Rules and rates of a user's file, [[rule]] and [[rate]]; its rules stand before the package's.

    Raises BadInput (TL232) for a file that cannot be read, and for the first entry that is wrong.
    """
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise BadInput(f"{path.name} is too large for a table of compatibility; keep it below 1 MB", code=UNUSABLE)
        data = read_toml(path)
    except (OSError, ValueError) as wrong:
        raise BadInput(f"{path.name!r} cannot be read as TOML ({wrong})", code=UNUSABLE) from None
    found: dict[str, list[Any]] = {"rule": [], "rate": []}
    for kind, entries in data.items():
        if kind not in found or not isinstance(entries, list) or not all(isinstance(each, dict) for each in entries):
            raise BadInput(f"{path.name} holds [[rule]] and [[rate]] and nothing else, not {kind!r}", code=UNUSABLE)
        for place, entry in enumerate(entries, start=1):
            try:
                made = Rule(**_frozen(entry)) if kind == "rule" else FailureRate(**entry)
            except (ValidationError, TypeError) as wrong:
                raise BadInput(f"{kind} {place} in {path.name}: {_first(wrong)}", code=UNUSABLE) from None
            found[kind].append(made)
    return tuple(found["rule"]), tuple(found["rate"])


def _frozen(entry: dict[str, Any]) -> dict[str, Any]:
    return {key: tuple(value) if isinstance(value, list) else value for key, value in entry.items()}


def _first(wrong: Exception) -> str:
    if not isinstance(wrong, ValidationError):
        return str(wrong)
    error = wrong.errors(include_url=False)[0]
    return f"{'.'.join(map(str, error['loc']))}: {error['msg']}"
