"""A claim as values: numbers with their kind, names and topics, each with its place, and words not understood."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from twinlens.errors import BadInput
from twinlens.record.finding import Finding
from twinlens.theory.figure import Figure, Input

UNREADABLE = "TL230"
_FINEST, _COARSEST, _ABOUT = 0.01, 0.05, 0.1
_COARSEST_INPUT = 0.025
_EXACT = {"devices", "sequences", "drafts", "layers", "heads", "kv_heads", "head_dim", "bits", "card_bytes", "epochs",
          "bytes_per_param", "hours_day", "link_bits"}  # fmt: skip
"""Counts, and sizes by their name: they are not rounded."""
_MOST = {
    "params": 1e15, "bandwidth": 1e16, "bytes": 1e18, "kv_token": 1e12, "bytes_per_param": 1e3, "rate": 1e12,
    "flop_rate": 1e22, "power": 1e10, "tokens": 1e18, "context": 1e9, "sequences": 1e9, "devices": 1e7,
    "token_time": 1e6, "time": 1e10, "bits": 64, "share": 100, "ratio": 1e9, "layers": 1e5, "kv_heads": 1e5,
    "head_dim": 1e5, "drafts": 1e3, "hours_day": 24, "price_kwh": 1e3,
}  # fmt: skip
"""Beyond these a number is a slip of the pen, in SI units."""


class MoreThanWhole(BadInput):
    """A share of a whole above 100 %, which no other reading makes right."""


@dataclass(frozen=True, slots=True)
class Said:
    """A number of one kind in SI units, from `low` to `high`; both None where a letter stands for it ("X tokens/s").

    `off`: how far a computed value may be from it, as a share, for it to be the same number rounded. `off_input`:
    how far it may be itself where something else is computed from it. `side`: it is a bound, "at least" or "at most".
    `per`: it is of each user, device or group of devices (a node). `at`: its place in the sentence.
    """

    kind: str
    low: float | None
    high: float | None
    text: str
    off: float = _FINEST
    off_input: float = _FINEST
    side: Literal["", "least", "most"] = ""
    per: Literal["", "user", "device", "group"] = ""
    at: int = -1

    @property
    def value(self) -> float:
        """One number: the middle of a range. Raises BadInput where a letter stands for it."""
        low, high = self._ends
        return (low + high) / 2

    @property
    def range(self) -> tuple[float, float]:
        """From low to high, widened by what rounding allows."""
        low, high = self._ends
        return low * (1 - self.off), high * (1 + self.off)

    @property
    def factors(self) -> tuple[float, float]:
        """How far it may be below and above its value where something else is computed from it."""
        if self.kind == "bytes_per_param" or (self.kind in _EXACT and self.low == self.high):
            return 1.0, 1.0
        off = self.off_input
        low, high = self._ends
        return low * (1 - off) / self.value, high * (1 + off) / self.value

    @property
    def _ends(self) -> tuple[float, float]:
        if self.low is None or self.high is None:
            raise BadInput(f"{self.text!r} needs a number in place of the letter", code=UNREADABLE)
        return self.low, self.high


@dataclass(frozen=True, slots=True)
class Word:
    """A name or a topic that was understood, by its kind ("model", "device", "topic" …)."""

    kind: str
    name: str
    text: str
    at: int = -1


Token = Said | Word
"""What a sentence says that may decide something."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim as it was read. Words that mean nothing here are of the kind "unread"."""

    text: str
    said: tuple[Said, ...] = ()
    words: tuple[Word, ...] = ()

    def all(self, kind: str) -> tuple[Said, ...]:
        return tuple(each for each in self.said if each.kind == kind)

    def names(self, kind: str) -> tuple[str, ...]:
        """Different names of a kind, in their order."""
        return tuple(dict.fromkeys(each.name for each in self.words if each.kind == kind))


@dataclass(slots=True)
class View:
    """A claim as a rule reads it: what it asks for is `used`."""

    claim: Claim
    used: set[Token] = field(default_factory=set)

    def peek(self, kind: str) -> bool:
        """Whether a number of a kind is said; it does not count as used."""
        return bool(self.claim.all(kind))

    def about(self, *topics: str) -> bool:
        """Whether one of the topics is there; it does not count as used."""
        return any(each.kind == "topic" and each.name in topics for each in self.claim.words)

    def all(self, kind: str) -> tuple[Said, ...]:
        found = self.claim.all(kind)
        self.used.update(found)
        return found

    def one(self, kind: str) -> Said | None:
        """The only number of a kind, None where there is none. Raises BadInput where there are several."""
        found = distinct(self.all(kind))
        if len(found) > 1:
            raise BadInput(two_values(found), code=UNREADABLE)
        return next(iter(found), None)

    def value(self, kind: str) -> float | None:
        """The only number of a kind; None where there is none."""
        found = self.one(kind)
        return None if found is None else found.value

    def name(self, kind: str) -> str | None:
        """The only name of a kind. Raises BadInput where there are several."""
        places = {each.at for each in self.claim.words if each.kind == kind}  # an optimizer is a topic as well
        self.used.update(each for each in self.claim.words if each.at in places)
        found = self.claim.names(kind)
        if len(found) > 1:
            raise BadInput(two_names(found), code=UNREADABLE)
        return found[0] if found else None

    def says(self, *topics: str) -> bool:
        """Whether one of the topics is there."""
        found = [each for each in self.claim.words if each.kind == "topic" and each.name in topics]
        self.used.update(found)
        return bool(found)


def distinct(said: Iterable[Said]) -> tuple[Said, ...]:
    """Numbers of one kind without those that say one before again, rounded otherwise: "141 GB (131.4 GiB)"."""
    found: list[Said] = []
    for each in said:
        if not any(is_again(each, other) for other in found):
            found.append(each)
    return tuple(found)


def is_again(one: Said, other: Said) -> bool:
    """Whether a number says another of its kind again."""
    if one.low is None or other.low is None or one.kind in _EXACT or one.per != other.per:
        return (one.low, one.high) == (other.low, other.high)
    return abs(one.value / other.value - 1) <= one.off_input + other.off_input and one.side == other.side


def two_values(found: tuple[Said, ...]) -> str:
    texts = " and ".join(repr(each.text) for each in found)
    return f"{texts} are two values of one thing: the claim contradicts itself, or is two claims in one"


def two_names(found: tuple[str, ...]) -> str:
    return f"the claim names {' and '.join(found)}; which one is meant?"


def checked(said: Said) -> Said:
    """The same number. Raises BadInput for one that is zero, negative or absurd."""
    for value in (said.low, said.high):
        if value is not None and not value > 0:
            raise BadInput(f"{said.text!r} must be above 0", code=UNREADABLE)
        if value is not None and value > _MOST.get(said.kind, 1e40):
            raise BadInput(f"{said.text!r} is beyond anything that exists; is its unit right?", code=UNREADABLE)
    return said


def part_of_whole(said: Said | None) -> Said | None:
    """The same share. Raises BadInput for a part of a whole that is more than the whole."""
    if said is not None and said.low is not None and said.low > 1:
        raise MoreThanWhole(f"{said.text!r} is more than the whole: a share of it is at most 100 %", code=UNREADABLE)
    return said


def rounding(digits: str, is_about: bool) -> float:
    """How far a number may be off as it is written: half of its last digit that is not 0, within 1 % and 5 %."""
    plain = digits.replace(",", "").lower().partition("e")[0]
    significant = plain.replace(".", "").strip("0")
    half = 0.5 / float(significant) if significant else _FINEST
    off = min(_COARSEST, max(_FINEST, half))
    return max(off, _ABOUT) if is_about else off


def rounding_of_input(digits: str) -> float:
    """How far an input may be off: half of its last digit as written, within 1 % and 2.5 %."""
    plain = digits.replace(",", "").lower().partition("e")[0].replace(".", "").lstrip("0")
    return min(_COARSEST_INPUT, max(_FINEST, 0.5 / float(plain))) if plain else _FINEST


# An answer to a claim: the figure as claimed and as computed, with its arithmetic, and what that rests on.

Ruling = Literal["holds", "holds under an assumption", "incomplete", "wrong"]
Bound = Literal["same", "at-most", "at-least"]


def by_name(*inputs: Input) -> dict[str, Input | Figure]:
    """Inputs by their names, where those are the names of a law."""
    return {each.name: each for each in inputs}


@dataclass(frozen=True, slots=True)
class Answer:
    """Claimed and computed. `cases` are the figure in each reading, the usual one first, all of one name and unit.

    `bound`: whether the claim is right where it is the same, or where it is at most (a rate), or at least.
    `assumed` were taken for all cases, `missing` was not said, `solutions` would make the claim right.
    """

    claimed: Said | None
    cases: tuple[Figure, ...]
    bound: Bound = "same"
    also: tuple[Figure, ...] = ()
    """Rarer readings, which count where none of the usual ones is right."""
    assumed: tuple[Finding, ...] = ()
    missing: tuple[str, ...] = ()
    solutions: tuple[Finding, ...] = ()
    remarks: tuple[Finding, ...] = ()
    is_open: bool = False
    """Whether what is missing decides: the claim may be right or wrong."""
    is_arithmetic: bool = False
    """Whether it is of numbers alone: the name of a model or a device beside them changes nothing."""
    is_limit: bool = False
    """Whether the bound itself is the claim: "at least 29 ms", "at most 48 tokens/s"."""
    refuted: Finding | None = None
    """What makes the claim impossible, whatever was computed: the model does not fit on the device."""

    @property
    def quantity(self) -> str:
        return self.cases[0].name

    @property
    def unit(self) -> str:
        return self.cases[0].unit


@dataclass(frozen=True, slots=True)
class Gap:
    """What a claim lacks before anything can be computed; `quantity` names the figure that was asked for."""

    quantity: str
    missing: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Judged:
    """The ruling on a claim, with all that it rests on as data."""

    ruling: Ruling
    findings: tuple[Finding, ...] = field(default=())

    def of(self, *codes: str) -> tuple[Finding, ...]:
        return tuple(each for each in self.findings if each.code in codes)


def assumed(what: str, taken: str, **numbers: float) -> Finding:
    """One thing that the claim does not say, and what was taken for it."""
    return Finding("claim-assumed", "notes", what, {"taken": taken, **numbers})


def beside(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """The same assumptions where they decide nothing: a size alone gives the weights, whatever the layers."""
    return tuple(replace(each, numbers={**each.numbers, "decides": False}) for each in findings)


def remark(what: str, **numbers: Any) -> Finding:
    """One thing that is worth knowing beside the ruling."""
    return Finding("claim-remark", "notes", what, numbers)


def solved(quantity: str, unit: str, value: float, settings: Mapping[str, Any]) -> Finding:
    """One change that would make the claim right: `settings`, and the value that comes out."""
    numbers = {"settings": dict(settings), "value": value, "unit": unit}
    return Finding("claim-solved", "notes", quantity, numbers)


def lacking(needed: Mapping[str, Any]) -> tuple[str, ...]:
    """The names of what is None."""
    return tuple(name for name, value in needed.items() if value is None)


def values(cases: Iterable[Figure]) -> tuple[float, float]:
    """The least and the greatest of computed values."""
    found = [case.number for case in cases]
    return min(found), max(found)
