"""The verb that tries the falsifier of a diagnosis: the changed point and the old one, measured in turns."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from twinlens.api.diagnose import diagnosed
from twinlens.api.measuring.progress import Progress
from twinlens.api.measuring.studies import measure
from twinlens.api.measuring.trials import by_turns_of, place_of
from twinlens.api.runs import read
from twinlens.diagnosis.diagnosis import Diagnosis
from twinlens.errors import BadInput, ExecutorFailed
from twinlens.measurement.event import Watch
from twinlens.proof.falsifier import cannot, change_of, metric_of, ruled, study_data
from twinlens.record.beside import keep
from twinlens.record.finding import Finding
from twinlens.record.run import Run
from twinlens.spec.load import parse


def falsify(
    run: str | Path | Run | Iterable[Run], out: str | Path | None = None, *, watch: Watch | Progress | None = None
) -> Finding:
    """Try the falsifier of a run's diagnosis: measure its change beside the run's own point, in turns, and rule on it.

    The ruling is kept with the run, and `diagnose` shows it from then on. `out`: where the two runs go; None: beside
    the study of the run. Raises BadInput (TL228) where the change cannot be made, ExecutorFailed where it failed.
    """
    runs = (run,) if isinstance(run, Run) else tuple(read(run) if isinstance(run, str | Path) else run)
    if len(runs) != 1:
        raise BadInput(f"one run at a time: its falsifier is measured, and there are {len(runs)} here", code="TL228")
    (((material, _), found),) = diagnosed(runs)
    return tried_on(material, found, Path(out) if out is not None else None, watch)


def tried_on(run: Run, found: Diagnosis, out: Path | None, watch: Watch | Progress | None) -> Finding:
    """The same from a run and its diagnosis."""
    change = change_of(run.spec, found, run.facts)
    together = found.verdict.numbers.get("batch")
    data = study_data(run.spec, change, found.partition.seconds, together)
    try:
        study = parse(data)
    except BadInput as error:
        raise cannot(found, str(error)) from None
    outcome = measure(study, out or place_of(run), watch=watch, fresh=True)
    ratios, grown = by_turns_of(change, outcome.runs)
    if not ratios:
        why = f": {outcome.failures[0]}" if outcome.failures else ""
        raise ExecutorFailed(f"the falsifier gave no pair of runs{why}; see {outcome.folder}", code="TL302")
    finding = ruled(found, change, ratios[metric_of(found, tuple(ratios))], outcome.folder.name, grown)
    keep(run.folder, finding)
    return finding
