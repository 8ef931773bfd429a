"""A finding is data: a code and its numbers. `reporting/finding_text.py` makes the sentence."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Self, get_args

Severity = Literal["disqualifies", "warns", "notes"]
"""`disqualifies`: the run is not ranked, and `--gate` exits 1. `warns`: read this first. `notes`: good to know."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One conclusion. `code`: words joined by hyphens, with a page `pages/findings/CODE.md`.

    `subject`: what it is about (a metric's id, a tensor class, a guard), "" where the code says it all.
    `numbers`: what decided, as plain JSON values, units in the names; a number that is not finite is None.
    Raises ValueError for a severity that does not exist.
    """

    code: str
    severity: Severity
    subject: str = ""
    numbers: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.severity not in get_args(Severity):
            raise ValueError(f"a finding disqualifies, warns or notes, not {self.severity!r}")
        object.__setattr__(self, "numbers", _plain(self.numbers))  # ours, and such that it survives JSON unchanged

    def to_json(self) -> dict[str, Any]:
        """A plain mapping."""
        return {"code": self.code, "severity": self.severity, "subject": self.subject, "numbers": dict(self.numbers)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """The inverse of `to_json`."""
        return cls(data["code"], data["severity"], data.get("subject", ""), data.get("numbers", {}))


def worst_first(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Each finding once; those that disqualify first, then those that warn, each kind in the order given."""
    order = get_args(Severity)
    once: list[Finding] = []
    for one in findings:
        if one not in once:
            once.append(one)
    return tuple(sorted(once, key=lambda one: order.index(one.severity)))


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if hasattr(value, "item"):  # a numpy scalar
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value
