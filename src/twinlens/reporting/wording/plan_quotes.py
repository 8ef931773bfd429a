"""Sentences on two quotes: what each says at the same work, and the axes on which they are not equivalent."""

from __future__ import annotations

from typing import TYPE_CHECKING

from twinlens.reporting.display import clean
from twinlens.units import digits

if TYPE_CHECKING:
    from twinlens.planning.quotes import Quotes
    from twinlens.record.finding import Finding

_AXES = {"commitment_months": "months of commitment", "slo": "SLO", "counts": "tokens that the throughput counts"}


def head_words(answer: Quotes) -> str:
    """The answer in one sentence."""
    one, other = (clean(each.name, 40) for each in answer.quotes)
    if answer.ratio.value is None:
        return f"{one} and {other} cannot be held against each other in money."
    many = f"{len(answer.unlike)} axes are" if len(answer.unlike) != 1 else "1 axis is"
    like = f"{many} not equivalent" if answer.unlike else "they are equivalent on every axis"
    return f"{other} costs {digits(float(answer.ratio.value))} times what {one} does per output token; {like}."


def differ(finding: Finding) -> str:
    numbers, axis = finding.numbers, finding.subject
    if axis == "work":
        shown = [
            " in, ".join("?" if each is None else f"{each:,}" for each in numbers[of]) for of in ("quoted", "asked")
        ]
        return f"work: {clean(str(numbers['name']), 40)} was quoted at {shown[0]} out, and this is {shown[1]} out"
    if axis == "kind":
        return "kind: one sells hours, and the other sells tokens"
    if numbers["one"] is None and numbers["other"] is None:
        return f"{_AXES.get(axis, axis)}: neither says it"
    said = ["not said" if numbers[of] is None else clean(str(numbers[of]), 60) for of in ("one", "other")]
    return f"{_AXES.get(axis, axis)}: {said[0]} against {said[1]}"
