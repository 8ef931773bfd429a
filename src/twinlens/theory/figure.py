"""A figure that explains itself: value, formula, inputs, source, assumptions, and what would change it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Literal

from twinlens.record.codec import OPTIONAL, UNWRITTEN, by_fields
from twinlens.record.estimate import Origin
from twinlens.record.finding import Finding, each_once
from twinlens.theory.law import LAWS, Constant

End = Literal["value", "low", "high"]
Amount = int | float | Decimal
"""Money is a Decimal, all else an int or a float."""


@dataclass(frozen=True, slots=True)
class Input:
    """A number or a word that a figure was computed from. `source`: "asked", "assumed", "law", or where it was read."""

    name: str
    value: Amount | str
    unit: str
    source: str = "asked"


@dataclass(frozen=True, slots=True)
class Figure:
    """`value` in SI units with its band `low` to `high` at `level`, or None with a `reason`; never 0 or inf instead.

    `formula` joins the inputs: "{0} × {1}". `inputs` are numbers, or figures that explain themselves in turn.
    `assumptions`: what was taken for granted; `inverse`: what would make the figure another one; both as findings.
    `law`: the row of theory (`LAWS`) that it is an instance of; `reading`: which of several meanings of what was said.
    Raises ValueError for what is neither finite nor absent with a reason, and for a band that lacks its value.
    """

    name: str
    value: Amount | None
    unit: str
    formula: str = ""
    inputs: tuple[Input | Figure, ...] = ()
    low: Amount | None = None
    high: Amount | None = None
    level: float | None = None
    origin: Origin = "modelled"
    source: str = ""
    assumptions: tuple[Finding, ...] = ()
    inverse: tuple[Finding, ...] = ()
    reason: Finding | None = None
    law: str | None = field(default=None, metadata=OPTIONAL)
    reading: str = field(default="", metadata=UNWRITTEN)

    def __post_init__(self) -> None:
        if any(number is not None and not math.isfinite(number) for number in (self.value, self.low, self.high)):
            raise ValueError(f"{self.name} is finite or absent")
        if self.value is None and self.reason is None:
            raise ValueError(f"{self.name} is absent and does not say why")
        ends = (self.low, self.value, self.high)
        known = [float(end) for end in ends if end is not None]
        if known != sorted(known):
            raise ValueError(f"{self.name} lies outside its own band: {ends}")

    @property
    def number(self) -> float:
        """Its value. Raises ValueError where it is absent: 0 never stands for what is not known."""
        return self.end("value")

    def end(self, name: End) -> float:
        """An end of its band, and its value where it has none. Raises ValueError where it is absent."""
        at = getattr(self, name)
        found = self.value if at is None else at
        if found is None:
            raise ValueError(f"{self.name} is absent, and has no number")
        return float(found)

    def __json__(self) -> dict[str, Any]:
        return by_fields(self, "name", "value", "unit", "low", "high", "level", "origin")

    def all_assumptions(self) -> tuple[Finding, ...]:
        """Its own assumptions and those of the figures that it was computed from, each once."""
        return each_once(_assumptions(self))


def product(name: str, unit: str, inputs: Sequence[Input | Figure], **more: Any) -> Figure:
    """The product of its inputs. Raises ValueError for an input that is a word, and KeyError for none."""
    value: Amount = 1
    for each in inputs:
        value = value * _number(each)
    return Figure(name, value, unit, " × ".join(f"{{{place}}}" for place in range(len(inputs))), tuple(inputs), **more)


def by_law(law: str, given: Mapping[str, Input | Figure], name: str = "", unit: str = "", **more: Any) -> Figure:
    """The figure that a law gives of its inputs, by their names there; those that are left out are as usual."""
    row = LAWS[law]
    formula, places = row.shown(given)
    inputs = (_constant(row.constants[place]) if place in row.constants else given[place] for place in places)
    value = float(row.value({each: _number(own) for each, own in given.items()}))
    return Figure(name or law, value, unit or row.unit, formula, tuple(inputs), law=law, **more)


def total(name: str, unit: str, inputs: Sequence[Input | Figure], **more: Any) -> Figure:
    """The sum of its inputs; absent, for the same reason, where one of them is."""
    unknown = next((each for each in inputs if each.value is None), None)
    formula = " + ".join(f"{{{place}}}" for place in range(len(inputs)))
    if isinstance(unknown, Figure):
        return Figure(name, None, unit, formula, tuple(inputs), reason=unknown.reason, **more)
    return Figure(name, sum(_number(each) for each in inputs), unit, formula, tuple(inputs), **more)


def absent(name: str, unit: str, reason: Finding) -> Figure:
    """A figure that cannot be said, and why."""
    return Figure(name, None, unit, reason=reason)


def assumed(what: str, taken: object, **numbers: object) -> Finding:
    """One thing that nobody said, and what was taken for it."""
    return Finding("plan-assumed", "notes", what, {"taken": taken, **numbers})


_SHOWN = {"s/h": ("factor", "s"), "day/month": ("days", "days")}
"""Constants of a law that are shown with a unit, and their name as inputs."""


def _constant(each: Constant) -> Input:
    name, unit = _SHOWN.get(each.unit, ("factor", "1"))
    return Input(name, each.value, unit, "law")


def _assumptions(figure: Figure) -> Iterator[Finding]:
    yield from figure.assumptions
    for each in figure.inputs:
        if isinstance(each, Figure):
            yield from _assumptions(each)


def _number(each: Input | Figure) -> Any:
    if each.value is None or isinstance(each.value, str):
        raise ValueError(f"{each.name} is no number")
    return each.value
