"""Candidates of one lens: a device in a precision and its smallest system that does the work; ranks with ties."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from twinlens.planning.choose.wanted import Offer
from twinlens.record.codec import by_fields
from twinlens.record.finding import Finding
from twinlens.theory.figure import Figure

Resource = Literal["bandwidth", "compute", "narrow", "link", "network", "memory", "overhead"]
FELT = 1.1
"""A gain below this is none that a plan should count on."""
MORE = 1.1
"""Of a row of the datasheet, to see what the tokens/s gain."""
_FELT_OF_MORE = 1.01


@dataclass(frozen=True, slots=True)
class Limit:
    """Tokens/s with a tenth more of each row of the datasheet (MORE), over those of now, and the row that gives most.

    `overhead`: no row gives 1 %. Memory changes the layout, by whole devices: its mean slope up to twice as much.
    """

    resource: Resource
    gains: Mapping[str, float]

    def __json__(self) -> dict[str, Any]:
        return {"resource": self.resource, "more": MORE, "gains": self.gains}


@dataclass(frozen=True, slots=True)
class Candidate:
    """`devices`: of whole boards, racks or hosts, as they are sold; the layout works on `used` of them.

    `rate`: tokens/s of one of `devices`, by which it is ranked. `times`: the latencies and their parts in seconds.
    `rank`: the best and the worst place that comparisons allow. `split`: parallel degrees by name.
    """

    device: str
    precision: str
    devices: int
    used: int
    split: Mapping[str, int]
    rate: Figure
    times: tuple[Figure, ...]
    limit: Limit
    offer: Offer
    memory_share: float
    """Of the usable memory of each device that is used."""
    rank: tuple[int, int] = (1, 1)
    links: Mapping[str, Any] = field(default_factory=dict)
    """Exposed communication and bubble, in seconds, with what joins the devices and without."""
    model: str = ""
    """Of a part: the model that has these devices to itself."""
    parts: tuple[Candidate, ...] = ()
    """Of several models: the system of each, in the order in which they were asked."""

    @property
    def power_w(self) -> float | None:
        """Most watts of its machines."""
        return None if self.offer.power is None else self.offer.power.number

    def time(self, name: str) -> Figure | None:
        return next((each for each in self.times if each.name == name), None)

    def __json__(self) -> dict[str, Any]:
        return {
            "device": self.device, "precision": self.precision, "devices": self.devices, "used": self.used,
            "split": self.split,
            "rank": self.rank, "rate": self.rate, "times": self.times,
            "limit": self.limit, "power_w": self.power_w, "offer": self.offer,
            "memory_share": self.memory_share, "links": self.links, "model": self.model or None,
            "parts": self.parts,
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Rejected:
    """A device in a precision that does not do it, and the constraint that fails."""

    device: str
    precision: str
    reason: Finding


@dataclass(frozen=True, slots=True)
class Ranking:
    """One lens alone: candidates in the order of `ranked`, and what was rejected."""

    lens: Literal["inference", "training"]
    candidates: tuple[Candidate, ...]
    rejected: tuple[Rejected, ...]
    evaluated: int
    """Layouts of which step times were computed."""

    def of(self, device: str) -> Candidate | None:
        """The best candidate of a device."""
        return next((each for each in self.candidates if each.device == device), None)

    def __json__(self) -> dict[str, Any]:
        return by_fields(self, "lens", "evaluated")


Reach = Callable[[Candidate, Candidate], float | None]
"""How many times faster one must be predicted than the other to be ahead; None: their bands must lie apart."""


def ranked(candidates: Sequence[Candidate], reach: Reach) -> tuple[Candidate, ...]:
    """By the number of those that are ahead for certain; of tied ones the cheaper first, then the faster.

    A place is only given away to one that is ahead by more than the reach of a comparison.
    """
    by_rate = sorted(candidates, key=lambda each: -each.rate.number)
    better, worse = [0] * len(by_rate), [0] * len(by_rate)
    for one, other in itertools.combinations(range(len(by_rate)), 2):
        if _ahead(by_rate[one], by_rate[other], reach):
            better[other] += 1
            worse[one] += 1
    placed = [replace(each, rank=(1 + better[place], len(by_rate) - worse[place]))
              for place, each in enumerate(by_rate)]  # fmt: skip
    priced = len({each.offer.million.unit for each in candidates if each.offer.million.value is not None}) == 1
    return tuple(sorted(placed, key=lambda each: (
        each.rank[0], each.offer.million.number if priced and each.offer.million.value is not None else float("inf"),
        -each.rate.number, each.power_w or float("inf"),
    )))  # fmt: skip


def _ahead(one: Candidate, other: Candidate, reach: Reach) -> bool:
    """Whether the faster of two is ahead for certain."""
    times = reach(one, other)
    if times is None:
        return one.rate.end("low") > other.rate.end("high")
    return one.rate.number > times * other.rate.number


def limit_of(gains: Mapping[str, float]) -> Limit:
    """The resource of which a tenth more gives most."""
    best = max(gains, key=lambda name: gains[name])
    resource: Resource = best if gains[best] >= _FELT_OF_MORE else "overhead"  # type: ignore[assignment]
    return Limit(resource, gains)


# Distance of a candidate that is left out from what was asked.

_DISTANCE: dict[str, Callable[[Mapping[str, Any]], float]] = {
    "tpot": lambda n: n["best_s"] / n["target_s"],
    "ttft": lambda n: n["best_s"] / n["target_s"],
    "memory": lambda n: n["needed_bytes"] / n["usable_bytes"],
    "deadline": lambda n: n["tokens_per_s"] / n["best_tokens_per_s"] if n["best_tokens_per_s"] else float("inf"),
    "power": lambda n: n["needed_w"] / n["cap_w"] if n.get("cap_w") else float("inf"),
    "whole-nodes": lambda n: 1.0,
    "together": lambda n: n["devices"] / n["most"],
}
"""How many times a constraint is missed, by constraint."""


def has_distance(reason: Finding) -> bool:
    return reason.subject in _DISTANCE


def missed(reason: Finding) -> tuple[bool, bool, float]:
    """Greater where more is missed: a constraint without a distance most, then memory, then a target by its times."""
    if not has_distance(reason):
        return True, True, 0.0
    return False, reason.subject in ("memory", "whole-nodes"), float(_DISTANCE[reason.subject](reason.numbers))
