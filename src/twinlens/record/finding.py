"""A finding is data: a code and its numbers. `reporting/wording` alone turns it into sentences."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from twinlens.record.codec import OPTIONAL, decode, reads
from twinlens.record.estimate import Estimate

Severity = Literal["disqualifies", "warns", "notes"]
"""`disqualifies`: the run is not ranked, and `--gate` exits 1. `warns`: read this first. `notes`: good to know."""
IN_WORDS = "in-words"
"""The code of what an older version, or an executor of somebody else, wrote as a sentence."""


def _from_words(data: Any) -> Any:
    """A text, which older versions wrote in the place of a finding, is `in_words`."""
    return {"code": IN_WORDS, "severity": "notes", "numbers": {"text": data}} if isinstance(data, str) else data


@reads(_from_words)
@dataclass(frozen=True, slots=True)
class Finding:
    """One conclusion. `code`: words joined by hyphens, which `twinlens explain` knows.

    `subject`: what it is about (a metric's id, a tensor class, a check), "" where the code says it all.
    `numbers`: what decided, as plain JSON values, units in the names; a number that is not finite is None.
    `evidence`: the estimates that decided, by name. `where`: the stretch it is about, in seconds from the start of the
    run; None: all of it. `because`: the findings it rests on.
    Raises ValueError for a severity that does not exist.
    """

    code: str
    severity: Severity
    subject: str = ""
    numbers: Mapping[str, Any] = field(default_factory=dict)
    evidence: Mapping[str, Estimate] = field(default_factory=dict, metadata=OPTIONAL)
    where: tuple[float, float] | None = field(default=None, metadata=OPTIONAL)
    because: tuple[Finding, ...] = field(default=(), metadata=OPTIONAL)

    def __post_init__(self) -> None:
        if self.severity not in get_args(Severity):
            raise ValueError(f"a finding disqualifies, warns or notes, not {self.severity!r}")
        object.__setattr__(self, "numbers", _plain(self.numbers))  # ours, and such that it survives JSON unchanged


def in_words(text: str) -> Finding:
    """A sentence by somebody else, which is shown as it stands."""
    return decode(Finding, text)


def each_once(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Each finding once, where it was first said."""
    once: list[Finding] = []
    for finding in findings:
        if finding not in once:
            once.append(finding)
    return tuple(once)


def worst_first(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Each finding once; those that disqualify first, then those that warn, each kind in the order given."""
    order = get_args(Severity)
    return tuple(sorted(each_once(findings), key=lambda finding: order.index(finding.severity)))


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if hasattr(value, "item"):  # a numpy scalar
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value


# The state of a result: what may be said of a run, of a point over its repeats, or of a ratio.

Validity = Literal["valid", "provisional", "not valid"]
"""`valid`: it was shown to be steady. `provisional`: nothing wrong was seen, but a change could hide; the interval is
widened by it. `not valid`: something wrong was seen, or too little to say anything."""


def weakest(states: Iterable[Validity]) -> Validity:
    """The weakest of some states; valid where there are none."""
    return max(states, key=get_args(Validity).index, default="valid")
