"""Sentences with their rulings and values (tests/vectors/claims.tsv); run it for the score of each part."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import twinlens as tl

_TABLE = Path(__file__).parents[1] / "vectors" / "claims.tsv"
_SAID = {"holds": "holds", "holds under an assumption": "holds", "wrong": "wrong"}


@dataclass(frozen=True, slots=True)
class Sentence:
    """One sentence: its part of the corpus, the rulings that are right, its value in SI units, the figures read."""

    part: str
    rulings: frozenset[str]
    value: float | None
    read: str
    text: str


def sentences() -> tuple[Sentence, ...]:
    lines = (line for line in _TABLE.read_text("utf-8").splitlines() if not line.startswith("#"))
    rows = (line.split("\t") for line in lines)
    return tuple(
        Sentence(part, frozenset(rulings.split(",")), None if value == "-" else float(value), read, text)
        for part, rulings, value, read, text in rows
    )


@cache
def claimed(text: str) -> tl.ClaimResult | None:
    """The answer to a sentence of the corpus, worked out once; None where it is refused."""
    try:
        return tl.claim(text)
    except tl.BadInput:
        return None


def outcome(sentence: Sentence) -> str:
    """ "understood", "not understood" (said so, without a ruling), or "misread": a ruling or a value that is wrong."""
    if (found := claimed(sentence.text)) is None:
        said, near = "open", True
    else:
        said = _SAID.get(found.ruling, "open")
        near = sentence.value is None or any(abs(each / sentence.value - 1) < 0.03 for each in found.computed)
    if said == "open":
        return "understood" if sentence.rulings & {"open", "none"} else "not understood"
    return "understood" if said in sentence.rulings and near else "misread"


if __name__ == "__main__":
    for part in dict.fromkeys(each.part for each in sentences()):
        counts = Counter(outcome(each) for each in sentences() if each.part == part)
        print(part, sum(counts.values()), dict(counts))
