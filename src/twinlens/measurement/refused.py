"""Points whose precision this device or model turned out to lack: on record as refused, and the study goes on.

What a device lacks is known only when torch is asked, in the run itself. A shuffled study must not end there, perhaps
after hours, and end there again when it is resumed.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from twinlens.errors import BadInput, TwinlensError
from twinlens.record.run import Run
from twinlens.record.store import create_run, end_run, read_run, update_run
from twinlens.spec.study import RunSpec

_CODE = "TL203"


def is_refusal(error: TwinlensError) -> bool:
    """Whether an error says that a precision cannot be had here, which is no fault of the others."""
    return isinstance(error, BadInput) and error.code == _CODE


def was_refused(run: Run) -> bool:
    """Whether a run was never measured because its precision cannot be had here."""
    return run.sections.refused


def without_refused(folder: Path, specs: Sequence[RunSpec]) -> list[RunSpec]:
    """Those of `specs` at whose point no run of the study folder was refused; others go on record as refused too."""
    refused = [run for record in folder.glob("*/run.json") if was_refused(run := read_run(record.parent))]
    left = []
    for spec in specs:
        same = [run for run in refused if run.spec.point == spec.point]
        if not same:
            left.append(spec)
        elif spec.fingerprint() not in {run.spec.fingerprint() for run in same}:
            folder_of_run = create_run(folder, spec)
            end_run(folder_of_run, "failed", same[0].error)
            update_run(folder_of_run, refused=True)
    return left


def refusals(runs: Sequence[Run]) -> list[str]:
    """Sentences on what was not measured and why, equal ones once."""
    sentences = (f"not measured: {run.error}" for run in runs if was_refused(run))
    return list(dict.fromkeys(sentences))
