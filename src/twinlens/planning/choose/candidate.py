"""Candidates of one lens: a device in a precision and its smallest system that does the work; ranks with ties."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from twinlens.planning.figure import Figure
from twinlens.record.finding import Finding

Resource = Literal["bandwidth", "compute", "link", "memory", "overhead"]
FELT = 1.1
"""A gain below this is none that a plan should count on."""


@dataclass(frozen=True, slots=True)
class Limit:
    """What twice as much of each resource would give, as a factor of `of`, and the resource that gives most.

    `overhead`: no resource of the device gives a tenth more. Memory is judged with the layout chosen anew.
    """

    resource: Resource
    gains: Mapping[str, float]
    of: str

    def to_json(self) -> dict[str, Any]:
        return {"resource": self.resource, "gains": dict(self.gains), "of": self.of}


@dataclass(frozen=True, slots=True)
class Candidate:
    """`rate`: tokens/s of one device, by which it is ranked. `times`: the latencies and their parts in seconds.

    `rank`: the best and the worst place that the bands allow. `split`: parallel degrees by name.
    """

    device: str
    precision: str
    devices: int
    split: Mapping[str, int]
    rate: Figure
    times: tuple[Figure, ...]
    limit: Limit
    power_w: float | None
    memory_share: float
    """Of the usable memory of each device."""
    rank: tuple[int, int] = (1, 1)
    links: Mapping[str, Any] = field(default_factory=dict)
    """Exposed communication and bubble, in seconds, with what joins the devices and without."""
    model: str = ""
    """Of a part: the model that has these devices to itself."""
    parts: tuple[Candidate, ...] = ()
    """Of several models: the system of each, in the order in which they were asked."""

    def time(self, name: str) -> Figure | None:
        return next((each for each in self.times if each.name == name), None)

    def to_json(self) -> dict[str, Any]:
        return {
            "device": self.device, "precision": self.precision, "devices": self.devices, "split": dict(self.split),
            "rank": list(self.rank), "rate": self.rate.why(), "times": [each.why() for each in self.times],
            "limit": self.limit.to_json(), "power_w": self.power_w,
            "memory_share": self.memory_share, "links": dict(self.links), "model": self.model or None,
            "parts": [each.to_json() for each in self.parts],
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Rejected:
    """A device in a precision that does not do it, and the constraint that fails."""

    device: str
    precision: str
    reason: Finding

    def to_json(self) -> dict[str, Any]:
        return {"device": self.device, "precision": self.precision, "reason": self.reason.to_json()}


@dataclass(frozen=True, slots=True)
class Ranking:
    """One lens alone: candidates by tokens/s of one device, and what was rejected."""

    lens: Literal["inference", "training"]
    candidates: tuple[Candidate, ...]
    rejected: tuple[Rejected, ...]
    evaluated: int
    """Layouts of which step times were computed."""

    def of(self, device: str) -> Candidate | None:
        """The best candidate of a device."""
        return next((each for each in self.candidates if each.device == device), None)

    def to_json(self) -> dict[str, Any]:
        return {
            "lens": self.lens,
            "evaluated": self.evaluated,
            "candidates": [each.to_json() for each in self.candidates],
            "rejected": [each.to_json() for each in self.rejected],
        }


def ranked(candidates: Sequence[Candidate]) -> tuple[Candidate, ...]:
    """By rate. A place is only given away to one whose whole band lies above: those that overlap are tied."""
    ordered = sorted(candidates, key=lambda each: -each.rate.number)
    lows, highs = [each.rate.end("low") for each in ordered], [each.rate.end("high") for each in ordered]
    return tuple(
        replace(each, rank=(1 + sum(low > high for low in lows), len(ordered) - sum(other < low_ for other in highs)))
        for each, high, low_ in zip(ordered, highs, lows, strict=True)
    )


def limit_of(gains: Mapping[str, float], of: str) -> Limit:
    """The resource whose doubling gives most."""
    best = max(gains, key=lambda name: gains[name])
    resource: Resource = best if gains[best] >= FELT else "overhead"  # type: ignore[assignment]
    return Limit(resource, gains, of)
