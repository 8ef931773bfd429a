"""Runs that others disturbed are taken again, a bounded number of times; every attempt is kept and counted."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from twinlens.errors import BadInput
from twinlens.measurement.refused import was_refused
from twinlens.measurement.summary_file import store_summary
from twinlens.record.run import Run
from twinlens.record.store import read_run
from twinlens.spec.study import RunSpec
from twinlens.stats.summary.group import Summary


def finished_attempts(folder: Path) -> dict[str, list[Run]]:
    """Finished runs of a study folder by fingerprint, first attempts first; what cannot be read is left out.

    Refused ones too: what this device lacks is done with.
    """
    attempts: dict[str, list[Run]] = {}
    for record in sorted(folder.glob("*/run.json")):
        try:
            run = read_run(record.parent)
        except BadInput:
            continue
        if run.is_finished or was_refused(run):
            attempts.setdefault(run.spec.fingerprint(), []).append(run)
    return {key: sorted(runs, key=attempt_of) for key, runs in attempts.items()}


def attempt_of(run: Run) -> int:
    """Which attempt at its repeat a run is, from 1."""
    return run.sections.attempt


def is_owed(spec: RunSpec, attempts: Sequence[Run]) -> bool:
    """Whether a repeat is to be measured (again): not yet, or its last attempt was disturbed and another is allowed.

    One whose rows are damaged is as good as none.
    """
    if not attempts:
        return True
    if spec.protocol.pairing == "slices":  # what disturbed it met the others of its repeat as well: their ratio stands
        return False
    try:
        return len(attempts) <= spec.protocol.retakes and disturbed_by_others(store_summary(attempts[-1]))
    except BadInput:
        return True


def disturbed_by_others(summary: Summary) -> bool:
    """Whether a run was not ranked and the work of others went with its slow moments, in passing.

    The choice rests on what the others did and never on the figure itself. A neighbour that was there throughout will
    be there again: no reason for another attempt.
    """
    causes = (cause.numbers for cause in summary.findings if cause.code == "cause")
    return not summary.ranked and any(cause.get("external") and cause.get("how") == "in time" for cause in causes)
