"""All that is checked before money or hours go, in one value."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from twinlens.planning.check.interconnect import Joined
from twinlens.planning.check.stack import Ruling, Stack
from twinlens.planning.figure import Figure, each_once
from twinlens.planning.fit.placement import Placement
from twinlens.planning.fit.serving import Serving
from twinlens.planning.fit.training import Training
from twinlens.record.codec import encode
from twinlens.record.finding import Finding


@dataclass(frozen=True, slots=True)
class Check:
    """`power`, `errors`, `time` (device-hours, time on these, devices for each deadline), `speed` (users at a pace)."""

    plan: Serving | Training
    stack: Stack
    devices: int
    rulings: tuple[Ruling, ...]
    memory: Placement
    power: tuple[Figure, ...]
    link: Joined | None
    errors: tuple[Figure, ...]
    time: tuple[Figure, ...] = ()
    speed: tuple[Figure, ...] = ()

    @property
    def passes(self) -> bool | None:
        """False where something forbids it, None where something that decides is not known."""
        verdicts = [each.verdict for each in self.rulings]
        if "no" in verdicts or self.memory.fits is False:
            return False
        return None if "unknown" in verdicts or self.memory.fits is None else True

    def figures(self) -> tuple[Figure, ...]:
        link = () if self.link is None else (self.link.needed, self.link.has, self.link.taken)
        return (*self.power, *link, *self.errors, *self.time, *self.speed)

    def assumptions(self) -> tuple[Finding, ...]:
        """All that was taken for granted, each once."""
        return each_once(self._assumed())

    def _assumed(self) -> Iterator[Finding]:
        yield from self.memory.needed.all_assumptions()
        yield from self.memory.usable.assumptions
        for figure in self.figures():
            yield from figure.all_assumptions()

    def __json__(self) -> dict[str, Any]:
        """The arithmetic, as plain data."""
        link = self.link
        return {
            **encode(self.plan),
            "passes": self.passes,
            "device": self.stack.device.name,
            "devices": self.devices,
            "driver": self.stack.driver,
            "works": self.rulings,
            "memory": self.memory,
            "power": self.power,
            "link": None if link is None else {
                "name": link.link, "enough": link.enough, "needed": link.needed, "has": link.has,
                "taken": link.taken,
            },
            "errors": self.errors,
            "ecc": self.stack.device.ecc,
            "time": self.time,
            "speed": self.speed,
            "assumptions": self.assumptions(),
        }  # fmt: skip
