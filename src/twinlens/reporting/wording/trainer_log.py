"""Sentences on rows that were read from a trainer's log."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from twinlens.record.finding import Finding
from twinlens.reporting.display import clean
from twinlens.reporting.wording.number import number, numbers
from twinlens.units import BYTES, JOULES, SECONDS, WATTS, show


def _read_from_log(finding: Finding) -> str:
    lines, first, last, resolution_s = numbers(finding, "lines", "first", "last", "resolution_s")
    counted = "; ".join(words for words in (_counted(finding, *each) for each in _COUNTS) if words)
    phases = finding.numbers.get("phases") or ()
    known = f"Of phases it says {', '.join(map(str, phases))}." if phases else "It says no phases, so none are known."
    of_clock = "command" in finding.numbers
    nowhere = "lies in rows of its own, which no rate counts" if of_clock else "lies in no row"
    between = "lies in the rows" if finding.numbers.get("gaps") == "inside" else nowhere
    return (
        f"{_whence(finding)}: {lines:,} lines that say a step's time, steps {first:,} to {last:,}, "
        f"to {show(float(resolution_s), SECONDS, 2)}{f' ({counted})' if counted else ''}{_measured(finding)}. "
        f"{known}{_of_gpu(finding)} What came between steps (evaluations, checkpoints) {between}{_clock(finding)}."
    )


def _whence(finding: Finding) -> str:
    command = finding.numbers.get("command")
    if isinstance(command, str):
        return f"This run started `{clean(command, 320)}` and quotes the lines of {finding.subject} that it wrote"
    return f"{'Followed' if finding.numbers.get('followed') else 'Read from'} a log of {finding.subject}"


def _measured(finding: Finding) -> str:
    if "command" not in finding.numbers:
        return "; nothing was measured here"
    return (
        ". Step times, losses and counts are quoted from it; what is told of power, energy, temperature, memory and "
        "processors was measured here meanwhile"
    )


def _clock(finding: Finding) -> str:
    """How the log's step times lie on the clock of the run that read them while they were written."""
    if "command" not in finding.numbers:
        return ""
    before, between_s, ahead_s = (float(finding.numbers.get(name) or 0.0) for name in _ON_CLOCK)
    gaps = f": {show(between_s, SECONDS, 2)} in all" if between_s else ""
    early = f"; lines from before sampling began: {before:.0f}" if before else ""
    wrong = f"; its step times add up to {show(ahead_s, SECONDS, 2)} more than passed here" if ahead_s > _LATE_S else ""
    return f"{gaps}{early}{wrong}"


_ON_CLOCK = ("before", "between_s", "ahead_s")
_LATE_S = 1.0


def _of_gpu(finding: Finding) -> str:
    """What it says of one GPU; how many there are it does not say, so that nothing can be summed."""
    found = finding.numbers.get("of_gpu")
    said = found if isinstance(found, Mapping) else {}
    words = [f"{show(float(said[name]), unit)} {what}" for name, unit, what in _OF_GPU if name in said]
    return f" Of one GPU it says {', '.join(words)}; of how many GPUs, it does not say." if words else ""


_OF_GPU = (
    ("allocated_bytes", BYTES, "allocated at most"),
    ("reserved_bytes", BYTES, "reserved at most"),
    ("energy_j", JOULES, "a step"),
    ("power_w", WATTS, "mean power"),
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
