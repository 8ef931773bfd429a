"""Points that cannot be had here: on record as refused, with the reason, and the study goes on.

What a device lacks may be known only when torch is asked, in the run itself. A shuffled study must not end there,
perhaps after hours, and end there again when it is resumed. A ladder of runtimes may leave out those that are not
installed; it says so in the same way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from twinlens.errors import BadInput, TwinlensError
from twinlens.record.run import Run
from twinlens.record.store import create_run, end_run, read_run, update_run
from twinlens.spec.study import RunSpec

_CODES = ("TL203", "TL243")


def is_refusal(error: TwinlensError) -> bool:
    """Whether an error says that a precision or an exchange cannot be had here, which is no fault of the others."""
    return isinstance(error, BadInput) and error.code in _CODES


def was_refused(run: Run) -> bool:
    """Whether a run was never measured because its precision or exchange cannot be had here."""
    return run.sections.refused


def without_refused(folder: Path, specs: Sequence[RunSpec]) -> list[RunSpec]:
    """Those of `specs` at whose point no run of the study folder was refused; others go on record as refused too."""
    refused = [run for record in folder.glob("*/run.json") if was_refused(run := read_run(record.parent))]
    left = []
    for spec in specs:
        same = [run for run in refused if run.spec.point_fingerprint() == spec.point_fingerprint()]
        if not same:
            left.append(spec)
        elif spec.fingerprint() not in {run.spec.fingerprint() for run in same}:
            _record(folder, spec, same[0].error)
    return left


def record_refused(folder: Path, specs: Sequence[RunSpec], reasons: Mapping[str, BadInput]) -> list[RunSpec]:
    """Those of `specs` at whose point nothing is refused; the others go on record, unless they are there already.

    `reasons`: what is known before anything starts, by the fingerprint of the point.
    """
    known = {
        run.spec.fingerprint() for record in folder.glob("*/run.json") if was_refused(run := read_run(record.parent))
    }
    for spec in specs:
        if (reason := reasons.get(spec.point_fingerprint())) and spec.fingerprint() not in known:
            _record(folder, spec, str(reason))
    return [spec for spec in specs if spec.point_fingerprint() not in reasons]


def _record(folder: Path, spec: RunSpec, reason: str | None) -> None:
    run = create_run(folder, spec)
    end_run(run, "failed", reason)
    update_run(run, refused=True)
