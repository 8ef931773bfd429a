"""The self-test on one screen: each case, what was found, and the numbers that decided."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group as Stack
from rich.console import RenderableType
from rich.text import Text

from twinlens.proof.carry_out import Result
from twinlens.reporting.text.fitted import FittedTable
from twinlens.reporting.text.footnote import hanging
from twinlens.reporting.wording.self_test import decided_by

_MARKS = {"right": "✓", "wrong": "✗", "undecided": "?", "not tested": "–"}
_MORE = "explain diagnosis: the cases and how it decides; --json: every number"


def self_test_screen(results: Sequence[Result]) -> RenderableType:
    """A line or two for each case. At most 24 lines at 80 columns."""
    rows = tuple(_row(each) for each in results)
    heads = ("", "saturated", "found", "decided by")
    return Stack(
        FittedTable(heads, ("left",) * 4, rows, gap=1, remarks=True).table(),
        Text(""),
        hanging("", _counted(results), "bold"),
        hanging("more   ", _MORE, "dim"),
    )


def _row(result: Result) -> tuple[Text, ...]:
    found = result.found.verdict.code if result.found else "not tested"
    told = "the same" if result.outcome == "right" else found
    return tuple(map(Text, (_MARKS[result.outcome], result.case.expected, told, decided_by(result))))


def _counted(results: Sequence[Result]) -> str:
    """ "7 of 8 named rightly, 1 undecided": a busy machine leaves cases undecided, which is no fault."""
    count = {outcome: sum(each.outcome == outcome for each in results) for outcome in _MARKS}
    others = [f"{count[outcome]} {outcome}" for outcome in ("wrong", "undecided", "not tested") if count[outcome]]
    return ", ".join([f"{count['right']} of {len(results)} named rightly", *others]) + "."
