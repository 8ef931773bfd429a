"""Findings on saves and on the recovery from a rank that was killed: what they show, and what they do not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal

import numpy as np

from twinlens.record.finding import Finding
from twinlens.record.run import Run
from twinlens.record.sections import Checkpoints, Resumed
from twinlens.stats.summary.group import Verdict

_IN_MEMORY = ("tmpfs", "ramfs")
_FEWEST = 2


def of_saves(run: Run, verdict: Verdict) -> Iterable[Finding]:
    """Nothing of a run that neither saved nor was to lose a rank."""
    known, kill = run.sections.checkpoints, run.spec.protocol.kill
    if kill is not None and (known is None or known.recovery is None) and run.is_finished:
        steps = int((run.steps.kind == "step").sum())
        yield Finding("kill-not-reached", "disqualifies", "", {"at_step": kill.at_step, "steps": steps})
    if known is None:
        return
    if known.filesystem in _IN_MEMORY:
        yield Finding("saves-in-memory", "warns", known.filesystem)
    yield from _in_window(run, known, verdict)
    if known.recovery is not None:
        down_s = (known.recovery.loaded_ns - known.recovery.killed_ns) / 1e9
        numbers = {"rank": known.recovery.rank, "at_step": known.recovery.at_step, "seconds": down_s,
                   "from_step": known.recovery.from_step, "restarts": known.recovery.restarts}  # fmt: skip
        yield Finding("rank-killed", "notes", "", numbers)
        yield from _resumed("recovery", known.recovery.resumed, "disqualifies")
    if known.restore is not None:
        yield from _resumed("restore", known.restore.resumed, "warns")


def _in_window(run: Run, known: Checkpoints, verdict: Verdict) -> Iterator[Finding]:
    """A sustained rate holds saves only where its window does."""
    steps = run.steps
    paid_s = steps.end_ns[np.nan_to_num(steps.phases_ns["checkpoint"]) > 0] / 1e9
    inside = int(((paid_s > verdict.begin_s) & (paid_s <= verdict.end_s)).sum())
    if inside < _FEWEST:
        yield Finding("few-saves", "warns", "", {"saves": inside, "every_steps": known.every_steps})


def _resumed(subject: str, resumed: Resumed, severity: Literal["warns", "disqualifies"]) -> Iterator[Finding]:
    """`severity`: of steps that nobody compared. Losses that differ always disqualify."""
    numbers = {"steps": resumed.steps, "worst": resumed.worst, "tolerance": resumed.tolerance}
    if resumed.unknown:
        numbers["unknown"] = resumed.unknown
    if resumed.is_equal is None:
        yield Finding("resumed-not-compared", severity, subject)
    elif resumed.is_equal:
        yield Finding("resumed-equal", "notes", subject, numbers)
    else:
        yield Finding("resumed-differs", "disqualifies", subject, numbers)
