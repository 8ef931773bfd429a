"""The quality check of a lower precision: pass or fail, and the numbers beside it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from twinlens.record.estimate import Estimate
from twinlens.reporting import display
from twinlens.reporting.wording.finding import clause_of
from twinlens.stats.metrics.definition import METRICS
from twinlens.stats.metrics.fidelity import AGREEMENTS
from twinlens.stats.summary.group import Group

Word = Literal["pass", "fail", "reference", "not measured"]


def gate_word(group: Group) -> Word:
    """ "pass" only if every run that was compared passed, "fail" if any failed; fp32 is the reference of itself."""
    gates = [run.gate for run in group.runs if run.gate]
    if not gates:
        return "reference" if group.point.get("precision") == "fp32" else "not measured"
    return "pass" if all(gate.go for gate in gates) else "fail"


AGREEMENT = {"top1_agreement": "top-1", "answer_agreement": "answer"}
"""Agreements, in the cell of a quality check."""


def agreement_words(group: Group) -> str:
    """ "top-1 98.2%"; "" for a group without a reference."""
    known = next((name for name in AGREEMENTS if (one := group.metrics.get(name)) and one.value is not None), None)
    return "" if known is None else f"{AGREEMENT[known]} {display.value(group.metrics[known])}"


def agreement_of(group: Group) -> tuple[str, Estimate] | None:
    """The label and value of the share of tokens on which a group agrees with its reference; None where it has none."""
    known = [(METRICS[name].label, group.metrics[name]) for name in AGREEMENTS if name in group.metrics]
    return next((pair for pair in known if pair[1].value is not None), None)


def gate_legend(groups: Sequence[Group]) -> str:
    """The numbers that stand under the words of a quality check."""
    seen = {pair[0] for group in groups if (pair := agreement_of(group))}
    named = " or ".join(name for name in (METRICS[key].label for key in AGREEMENTS) if name in seen)
    return f"quality: pass or fail against fp32 (ref), and {named or METRICS[AGREEMENTS[0]].label}."


def why_no_gate(group: Group) -> str:
    """Why nothing was compared, for a group whose quality check says "not measured"."""
    absent = [group.metrics[name] for name in AGREEMENTS if name in group.metrics]
    return absent[0].reason or "" if absent else "no output was compared with a reference"


def gate_reason(group: Group) -> str:
    """Which limits the first run that was compared did not keep; "" where none was."""
    gate = next((run.gate for run in group.runs if run.gate), None)
    if gate is None:
        return ""
    return "; ".join(map(clause_of, gate.broken)) or "within tolerance"
