"""An answer to a claim: the figure as claimed and as computed, with its arithmetic, and what that rests on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from twinlens.claims.said import Said
from twinlens.record.finding import Finding

Ruling = Literal["holds", "holds under an assumption", "incomplete", "wrong"]
Bound = Literal["same", "at-most", "at-least"]


@dataclass(frozen=True, slots=True)
class Term:
    """One number of an arithmetic, with its unit: `Term("kv-per-token", 327680, "bytes/token")`."""

    name: str
    value: float
    unit: str


@dataclass(frozen=True, slots=True)
class Case:
    """One reading of a claim and its computed value. `assumed`: what was chosen for it, "" where nothing was.

    `formula` joins the terms: "{0} × {1}".
    """

    value: float
    terms: tuple[Term, ...] = ()
    formula: str = ""
    assumed: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """Claimed and computed. `quantity` names the figure, `unit` is SI; `cases` are the readings, the usual one first.

    `bound`: whether the claim is right where it is the same, or where it is at most (a rate), or at least.
    `assumed` were taken for all cases, `missing` was not said, `solutions` would make the claim right.
    """

    quantity: str
    unit: str
    claimed: Said | None
    cases: tuple[Case, ...]
    bound: Bound = "same"
    also: tuple[Case, ...] = ()
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


def product(terms: Sequence[Term]) -> str:
    """The formula that multiplies all terms."""
    return " × ".join(f"{{{place}}}" for place in range(len(terms)))


def values(cases: Iterable[Case]) -> tuple[float, float]:
    """The least and the greatest of computed values."""
    found = [case.value for case in cases]
    return min(found), max(found)
