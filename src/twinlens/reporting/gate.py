"""The go / no-go of a lower precision, as one word and the numbers beside it."""

from __future__ import annotations

from typing import Literal

from twinlens.reporting.wording.finding import clause_of
from twinlens.stats.summary.group import Group

Word = Literal["go", "no-go", "reference", "not measured"]


def gate_word(group: Group) -> Word:
    """ "go" only if every run that was compared passed, "no-go" if any failed; fp32 is the reference of itself."""
    gates = [run.gate for run in group.runs if run.gate]
    if not gates:
        return "reference" if group.point.get("precision") == "fp32" else "not measured"
    return "go" if all(gate.go for gate in gates) else "no-go"


def gate_reason(group: Group) -> str:
    """Which limits the first run that was compared did not keep; "" where none was."""
    gate = next((run.gate for run in group.runs if run.gate), None)
    if gate is None:
        return ""
    return "; ".join(map(clause_of, gate.broken)) or "within tolerance"
