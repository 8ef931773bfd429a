"""Sides that were tuned: executors are compared as tuned only where all had the same freedom and the same effort."""

from __future__ import annotations

from collections.abc import Iterator

from twinlens.comparison.side import Side
from twinlens.record.finding import Finding, Severity
from twinlens.record.sections import Tuned

NOT_TUNED = "the other was not tuned"


def tuned_findings(a: Side, b: Side) -> Iterator[Finding]:
    """What a comparison of `a` and `b` says of tuning.

    `tuned-unequally`: one side is the winner of a tuning, and the other was not tuned by the same bound; two executors
    are then not compared, one executor with itself is, with that said. `tuned-alike`: both are winners by one bound.
    `of-a-search`: a side is a candidate of a search, whose values chose the winner.
    """
    sides = {"A": a, "B": b}
    known = {letter: side.runs[0].sections.tuned for letter, side in sides.items()}
    if searched := [letter for letter, tuned in known.items() if tuned is not None and tuned.role == "candidate"]:
        yield Finding("of-a-search", "warns", "", {"sides": searched})
        return
    winners = {letter: tuned for letter, tuned in known.items() if tuned is not None and tuned.role == "tuned"}
    bounds = {tuned.bound if tuned is not None else "" for tuned in known.values()}
    if not winners or len(bounds) == 1:
        if len(winners) == 2:
            yield Finding("tuned-alike", "notes", "", {"bound": winners["A"].bound})
        return
    kinds = {side.runs[0].spec.executor.kind for side in sides.values()}
    severity: Severity = "warns" if len(kinds) == 1 else "disqualifies"
    one = min(winners)
    other = "B" if one == "A" else "A"
    terms = _terms(known[one], winners.get(other))
    yield Finding("tuned-unequally", severity, "", {"tuned": one, "other": other, "terms": terms})


def _terms(one: Tuned | None, other: Tuned | None) -> list[str]:
    """The terms of the two bounds that differ, by name."""
    if one is None or other is None:
        return [NOT_TUNED]
    names = sorted({*one.terms, *other.terms})
    return [name for name in names if one.terms.get(name) != other.terms.get(name)]
