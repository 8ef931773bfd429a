"""The verb that tries the falsifier of a diagnosis: the changed point and the old one, measured in turns."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from twinlens.api.diagnose import diagnosed
from twinlens.api.progress import Progress
from twinlens.api.runs import read
from twinlens.api.studies import measure
from twinlens.diagnosis.diagnosis import Diagnosis
from twinlens.diagnosis.served_work import decoding_together
from twinlens.errors import BadInput, ExecutorFailed
from twinlens.measurement.event import Watch
from twinlens.measurement.study import Outcome
from twinlens.measurement.summary_file import summary_of
from twinlens.proof.falsifier import Change, cannot, change_of, metric_of, ruled, study_data
from twinlens.record.falsifier import keep
from twinlens.record.finding import Finding
from twinlens.record.run import Run
from twinlens.reporting.view import Material
from twinlens.spec.load import parse
from twinlens.stats.paired.by_turns import by_turns, phase_rates, slice_rates
from twinlens.stats.paired.ratio import PairedRatio
from twinlens.stats.summary.group import Group, group


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
    outcome = measure(study, out or _beside(run), watch=watch, fresh=True)
    ratio, grown = _measured(found, change, outcome)
    finding = ruled(found, change, ratio, outcome.folder.name, grown)
    keep(run.folder, finding)
    return finding


def _beside(run: Run) -> Path:
    parent = run.folder.parent
    return parent.parent if (parent / "study.json").exists() else parent


def _measured(found: Diagnosis, change: Change, outcome: Outcome) -> tuple[PairedRatio, float | None]:
    """The ratio of the rate that the verdict is about; and how much more a server decoded together, where its load was
    doubled."""
    finished = [(run, summary_of(run)) for run in outcome.runs if run.is_finished]
    sides = {value: _group(finished, change, value) for value in (change.before, change.after)}
    runs = {run.id: run for run, _ in finished}
    rates = {id: {**slice_rates(run), **phase_rates(run)} for id, run in runs.items()}
    before, after = sides[change.before], sides[change.after]
    turns = by_turns(after, before, runs, rates) if before and after else ()
    by_metric = {each.ratio.metric: each.ratio for each in turns}
    if not by_metric:
        why = f": {outcome.failures[0]}" if outcome.failures else ""
        raise ExecutorFailed(f"the falsifier gave no pair of runs{why}; see {outcome.folder}", code="TL302")
    grown = None
    if change.path == "point.concurrency" and before and after:
        fewer, more = (_together([runs[one.run] for one in side.runs]) for side in (before, after))
        grown = more / fewer if fewer and more else None
    return by_metric[metric_of(found, tuple(by_metric))], grown


def _together(runs: list[Run]) -> float | None:
    """Requests that decoded at once, over all slices of the runs of one point."""
    found = []
    for run in runs:
        own = run.requests.own_time()
        rows = np.flatnonzero((own.slice >= 0) & (own.outcome == "ok") & (np.diff(own.offsets) > 1))
        found += [decoding_together(own, rows)] if rows.size else []
    return sum(found) / len(found) if found else None


def _group(finished: list[Material], change: Change, value: object) -> Group | None:
    table, name = change.path.split(".")
    mine = [summary for run, summary in finished if getattr(getattr(run.spec, table), name) == value]
    return next(iter(group(mine)), None)
