"""The go / no-go of a lower precision, as one word and the numbers beside it."""

from __future__ import annotations

from typing import Literal

from twinlens.reporting.display import clean
from twinlens.reporting.finding_text import in_words
from twinlens.stats.summary.group import Group

Word = Literal["go", "no-go", "reference", "not measured"]


def gate_word(group: Group) -> Word:
    """ "go" only if every finished run passed, "no-go" if any failed; fp32 is the reference of itself."""
    gates = [run.gate for run in group.runs if run.gate]
    if not gates:
        return "reference" if group.point.get("precision") == "fp32" else "not measured"
    words = {_word(gate) for gate in gates}
    for word in ("no-go", "not measured", "reference"):
        if word in words:
            return word
    return "go"


def gate_reason(group: Group) -> str:
    """Why, as the gate says it; "" where it says nothing."""
    for run in group.runs:
        for key in ("reason", "because", "sentence"):
            if run.gate and run.gate.get(key):
                return clean(in_words(str(run.gate[key])))
    return ""


def _word(gate: dict[str, object]) -> Word:
    said = gate.get("verdict", gate.get("go", gate.get("passed")))
    if said is True or said == "go":
        return "go"
    if said is False or said in ("no-go", "no go"):
        return "no-go"
    return "reference" if said == "reference" else "not measured"
