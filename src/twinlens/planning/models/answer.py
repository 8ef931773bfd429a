"""The Pareto set of models that keep all constraints: less memory, less time per token, more tokens, more quality."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from twinlens.planning.models.candidate import Candidate
from twinlens.spec.device import Device


@dataclass(frozen=True, slots=True)
class Choice:
    """`candidates` in the order asked for; `beaten`: a possible model and one that is as good on each axis."""

    device: Device
    devices: int
    candidates: tuple[Candidate, ...]
    beaten: tuple[tuple[str, str], ...]

    @property
    def best(self) -> tuple[str, ...]:
        """The Pareto set."""
        lost = {name for name, _ in self.beaten}
        return tuple(each.name for each in self.candidates if not each.against and each.name not in lost)

    def __json__(self) -> dict[str, Any]:
        """The arithmetic, as plain data."""
        return {
            "device": self.device.name,
            "devices": self.devices,
            "best": self.best,
            "beaten": self.beaten,
            "models": self.candidates,
        }


def choice(candidates: Sequence[Candidate], device: Device, devices: int) -> Choice:
    """What is left after the constraints, and which of it is beaten by what."""
    possible = [each for each in candidates if not each.against]
    beaten = []
    for each in possible:
        by = next((other for other in possible if other is not each and beats(other, each)), None)
        if by is not None:
            beaten.append((each.name, by.name))
    return Choice(device, devices, tuple(candidates), tuple(beaten))


def beats(one: Candidate, other: Candidate) -> bool:
    """As good on every axis and better on one; one with a score and one without are not compared."""
    pairs = list(zip(_axes(one), _axes(other), strict=True))
    mine, its = one.told.quality, other.told.quality
    if (mine is None) != (its is None):
        return False
    if mine is not None and its is not None:
        pairs.append((-mine, -its))
    return all(a <= b for a, b in pairs) and any(a < b for a, b in pairs)


def _axes(one: Candidate) -> tuple[float, float, float]:
    """Smaller is better."""
    if one.bytes is None or one.tpot.value is None or one.throughput.value is None:
        raise ValueError(f"{one.name} has no figures to be compared by")
    return one.bytes, float(one.tpot.value), -float(one.throughput.value)
