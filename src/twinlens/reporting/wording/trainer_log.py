"""Sentences on rows that were read from a trainer's log."""

from __future__ import annotations

from typing import Any

from twinlens.record.finding import Finding
from twinlens.reporting.wording.number import number, numbers
from twinlens.units import SECONDS, show


def _read_from_log(finding: Finding) -> str:
    lines, first, last, resolution_s = numbers(finding, "lines", "first", "last", "resolution_s")
    counted = "; ".join(words for words in (_counted(finding, *each) for each in _COUNTS) if words)
    phases = finding.numbers.get("phases") or ()
    known = f"Of phases it says {', '.join(map(str, phases))}." if phases else "It says no phases, so none are known."
    between = "lies in the rows" if finding.numbers.get("gaps") == "inside" else "lies in no row"
    return (
        f"Read from a log of {finding.subject}: {lines:,} lines that say a step's time, steps {first:,} to {last:,}, "
        f"to {show(float(resolution_s), SECONDS, 2)}{f' ({counted})' if counted else ''}; nothing was measured here. "
        f"{known} What came between steps (evaluations, checkpoints) {between}."
    )


_COUNTS = (
    ("unread", 0, "unreadable lines: {:,}"),
    ("others", 0, "lines left out, of other processes or on the same step: {:,}"),
    ("starts", 1, "starts: {:,}"),
    ("skipped", 0, "skipped steps: {:,}"),
    ("nan", 0, "steps with a loss that is no number: {:,}"),
)


def _counted(finding: Finding, name: str, usual: int, words: str) -> str:
    found: Any = finding.numbers.get(name)
    return words.format(found) if isinstance(found, int) and found > usual else ""


def _mean_of_steps(finding: Finding) -> str:
    return (
        f"A line of this log stands for up to {number(finding, 'steps_each')} steps, so a row is no single step: step "
        "times are those of means, whose quantiles and scatter say nothing of steps."
    )


SENTENCES = {"read-from-log": _read_from_log, "log-interval-mean": _mean_of_steps}
