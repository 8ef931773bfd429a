"""Document of the self-test: each case, what was found, and the numbers that decided."""

from __future__ import annotations

from collections.abc import Sequence

from twinlens.proof.carry_out import Result
from twinlens.reporting.document.block import Cell, Document, Line, Table, cells, row
from twinlens.reporting.wording.self_test import decided_by

_MARKS = {"right": "✓", "wrong": "✗", "undecided": "?", "not tested": "–"}
_MORE = "explain diagnosis: the cases and how it decides; --json: every number"


def self_test_document(results: Sequence[Result]) -> Document:
    """A line or two for each case. At most 24 lines at 80 columns."""
    heads = ("", "saturated", "found", "decided by")
    blocks = (
        Table("Cases.", heads, tuple(map(_row, results)), ("left",) * 4, gap=1, remarks=True),
        Line(_counted(results), is_lead=True),
        row("more", [_MORE], "dim"),
    )
    return Document("Self-test of the diagnosis", _counted(results), blocks)


def _row(result: Result) -> tuple[Cell, ...]:
    found = result.found.verdict.code if result.found else "not tested"
    told = "the same" if result.outcome == "right" else found
    return cells((_MARKS[result.outcome], result.case.expected, told, decided_by(result)))


def _counted(results: Sequence[Result]) -> str:
    """ "7 of 8 named rightly, 1 undecided": a busy machine leaves cases undecided, which is no fault."""
    count = {outcome: sum(each.outcome == outcome for each in results) for outcome in _MARKS}
    others = [f"{count[outcome]} {outcome}" for outcome in ("wrong", "undecided", "not tested") if count[outcome]]
    return ", ".join([f"{count['right']} of {len(results)} named rightly", *others]) + "."
