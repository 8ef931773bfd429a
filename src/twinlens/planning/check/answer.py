"""All that is checked before money or hours go, in one value."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, get_args

from twinlens.errors import BadInput
from twinlens.planning.check.interconnect import Joined
from twinlens.planning.fit.answer import Placement
from twinlens.planning.fit.serving import Serving
from twinlens.planning.fit.training import Training
from twinlens.record.codec import encode
from twinlens.record.finding import Finding, each_once
from twinlens.spec.compatibility import Axis, Rule, Verdict
from twinlens.spec.device import Device
from twinlens.theory.figure import Figure

# Compatibility of model, precision, runtime, driver and device, by a dated table; what it lacks is not known.

NEEDS_RUNTIME = ("runtime-device", "runtime-precision", "runtime-model", "driver-runtime")


@dataclass(frozen=True, slots=True)
class Stack:
    """What is to run together. `runtime` and `driver` None: nobody said."""

    model: str
    precision: str
    device: Device
    runtime: str | None = None
    driver: str | None = None


@dataclass(frozen=True, slots=True)
class Ruling:
    """One axis of a stack. `says`, `source` and `date`: of the row that decided; "" where none did."""

    axis: str
    verdict: Verdict
    says: str = ""
    driver_from: str | None = None
    source: str = ""
    date: str = ""


def rulings(stack: Stack, rules: Sequence[Rule]) -> tuple[Ruling, ...]:
    """One for each axis that was asked about, the first row that matches deciding. Raises BadInput for a driver."""
    return tuple(_rulings(stack, rules))


def _rulings(stack: Stack, rules: Sequence[Rule]) -> Iterator[Ruling]:
    for axis in get_args(Axis):
        if stack.runtime is None and axis in NEEDS_RUNTIME:
            continue
        row = next((each for each in rules if each.axis == axis and _holds(each, stack)), None)
        if row is None:
            yield Ruling(axis, "unknown")
        else:
            verdict = row.verdict if row.driver_from is None else _of_driver(stack.driver, row.driver_from)
            yield Ruling(axis, verdict, row.says, row.driver_from, row.source, row.date)


def _holds(row: Rule, stack: Stack) -> bool:
    return row.holds(stack.device, stack.runtime, stack.precision, stack.model)


def _of_driver(driver: str | None, oldest: str) -> Verdict:
    """Unknown without a driver, and where only the beginning of its version was said: 575 of 575.51.03."""
    if driver is None:
        return "unknown"
    said, needed = version(driver), version(oldest)
    if said == needed[: len(said)] and len(said) < len(needed):
        return "unknown"
    return "yes" if said >= needed else "no"


def version(text: str) -> tuple[int, ...]:
    """ "570.124.06" as numbers. Raises BadInput (TL231) for what is none."""
    if not re.fullmatch(r"\d{1,6}(\.\d{1,6}){0,3}", text.strip()):
        raise BadInput(f"--driver {text[:40]!r} is no version; write --driver 570.124", code="TL231")
    return tuple(int(part) for part in text.strip().split("."))


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
