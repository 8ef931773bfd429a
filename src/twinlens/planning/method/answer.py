"""The method that meets most of a need for the fewest device-hours, and single changes that make it another."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from twinlens.planning.figure import each_once
from twinlens.planning.method.rule import FEW_EXAMPLES, MANY_EXAMPLES
from twinlens.planning.method.way import WAYS, Asked, Way, way_of
from twinlens.record.finding import Finding

_REQUESTS = (0.001, 0.01, 0.1, 10.0, 100.0, 1000.0)


@dataclass(frozen=True, slots=True)
class Method:
    """`ways` in the order of `WAYS`; `chosen` None where all are out of the question. `flips`: what changes it."""

    asked: Asked
    ways: tuple[Way, ...]
    chosen: Way | None
    flips: tuple[Finding, ...] = ()

    def assumptions(self) -> tuple[Finding, ...]:
        """All that was taken for granted, each once."""
        costs = (each for way in self.ways for each in way.cost.all_assumptions())
        return each_once((*self.asked.subject.assumed, *costs))

    def __json__(self) -> dict[str, Any]:
        """The arithmetic, as plain data."""
        need = self.asked.need
        return {
            "model": self.asked.subject.name,
            "device": self.asked.device.name,
            "devices": self.asked.devices,
            "needs": need.parts,
            "requests": need.requests,
            "months": need.months,
            "chosen": self.chosen.name if self.chosen else None,
            "ways": self.ways,
            "flips": self.flips,
            "assumptions": self.assumptions(),
        }


def method_answer(asked: Asked) -> Method:
    """All ways, the one that is chosen, and what would change that."""
    ways = tuple(way_of(name, asked) for name in WAYS)
    chosen = chosen_of(ways)
    return Method(asked, ways, chosen, tuple(_flips(asked, chosen)))


def chosen_of(ways: tuple[Way, ...]) -> Way | None:
    """Of those that are possible the one that lacks least; of these the one of the fewest hours, then the simplest."""
    possible = [each for each in ways if not each.against and each.hours.value is not None]
    return min(possible, key=lambda way: (way.shortfall, way.hours.number), default=None)


def _flips(asked: Asked, chosen: Way | None) -> Iterator[Finding]:
    """One input changed at a time, kept where another way is then chosen; of requests the nearest on each side."""
    name = chosen.name if chosen else None
    sides: set[bool] = set()
    for what, numbers, other in _others(asked):
        now = chosen_of(tuple(way_of(each, other) for each in WAYS))
        if now is None or now.name == name:
            continue
        more = what == "requests" and other.need.requests > asked.need.requests
        if what == "requests":
            if more in sides:
                continue
            sides.add(more)
        yield Finding("plan-method-flip", "notes", what, {**numbers, "way": now.name})


def _others(asked: Asked) -> Iterator[tuple[str, dict[str, Any], Asked]]:
    need = asked.need

    def changed(what: str, value: Any, **fields: Any) -> tuple[str, dict[str, Any], Asked]:
        return what, {"value": value}, replace(asked, need=replace(need, **fields))

    if need.corpus:
        yield changed("no-corpus", 0, corpus=0.0)
        yield from (changed("changes", each, changes=each) for each in ("never", "daily") if each != need.changes)
    else:
        yield changed("corpus", 10_000_000, corpus=1e7)
    yield changed("no-style" if need.style else "style", not need.style, style=not need.style)
    yield from (
        changed("examples", many, examples=many) for many in (0, FEW_EXAMPLES, MANY_EXAMPLES) if many != need.examples
    )
    for times in sorted(_REQUESTS, key=lambda each: max(each, 1 / each)):
        yield changed("requests", need.requests * times, requests=need.requests * times)
    if need.budget is not None:
        yield changed("no-budget", 0, budget=None)
    if need.deadline_s is not None:
        yield changed("no-deadline", 0, deadline_s=None)
    for many in (8, 64):
        if many > asked.devices:
            yield "devices", {"value": many, "device": asked.device.name}, replace(asked, devices=many)
    if not need.own_weights:
        yield changed("own-weights", 1, own_weights=True)
