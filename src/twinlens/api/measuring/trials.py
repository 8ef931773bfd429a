"""Trials of a verdict, from the rows of the two points that took turns: falsifier.json says which they are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from twinlens.api.runs import read
from twinlens.diagnosis.served_work import decoding_together
from twinlens.errors import BadInput
from twinlens.measurement.summary_file import summary_of
from twinlens.proof.falsifier import Change
from twinlens.record.beside import tried
from twinlens.record.finding import Finding
from twinlens.record.run import Run
from twinlens.reporting.view import Material
from twinlens.stats.paired.ratio import PairedRatio, by_turns
from twinlens.stats.row_kind import row_kind
from twinlens.stats.summary.group import Group, group


def kept_trials(run: Run) -> list[Finding]:
    """The trials that lie with a run, each with the ratio that its two points give today.

    Where their runs are not beside it, the ratio is what the file says, and `quoted` is true. Raises BadInput (TL205).
    """
    return [_from_rows(run, trial) for trial in tried(run.folder)]


def place_of(run: Run) -> Path:
    """The folder in which the study of a trial lies: that of the run's own study."""
    parent = run.folder.resolve().parent
    return parent.parent if (parent / "study.json").exists() else parent


def by_turns_of(change: Change, runs: Iterable[Run]) -> tuple[dict[str, PairedRatio], float | None]:
    """The ratio of each rate; and how much more a server decoded together, where its load was doubled."""
    finished = [(run, summary_of(run)) for run in runs if run.is_finished]
    sides = {value: _group(finished, change, value) for value in (change.before, change.after)}
    by_id = {run.id: run for run, _ in finished}
    rates = {id: {**row_kind(run).slices(run), **row_kind(run).phases(run)} for id, run in by_id.items()}
    before, after = sides[change.before], sides[change.after]
    if not before or not after:
        return {}, None
    grown = None
    if change.path == "point.concurrency":
        fewer, more = (_together([by_id[one.run] for one in side.runs]) for side in (before, after))
        grown = more / fewer if fewer and more else None
    return {each.ratio.metric: each.ratio for each in by_turns(after, before, by_id, rates)}, grown


def _from_rows(run: Run, trial: Finding) -> Finding:
    known = trial.numbers
    quoted = replace(trial, numbers={**known, "quoted": True})
    study, path = str(known.get("study")), known.get("path")
    if Path(study).name != study or study == ".." or not isinstance(path, str) or path.count(".") != 1:
        return quoted
    try:
        ratios, grown = by_turns_of(Change(path, known.get("from"), known.get("to")), read(place_of(run) / study))
    except (BadInput, AttributeError, TypeError):  # no such study, no such setting
        return quoted
    ratio = ratios.get(str(known.get("metric")))
    if ratio is None:
        return quoted
    numbers = {**known, "rounds": ratio.blocks, "label": ratio.label} | ({} if grown is None else {"grown": grown})
    return replace(trial, numbers=numbers, evidence={"ratio": ratio.ratio})


def _together(runs: Sequence[Run]) -> float | None:
    """Requests that decoded at once, over all slices of the runs of one point."""
    found = []
    for run in runs:
        own = run.requests.own_time()
        rows = np.flatnonzero((own.slice >= 0) & (own.outcome == "ok") & (np.diff(own.offsets) > 1))
        found += [decoding_together(own, rows)] if rows.size else []
    return sum(found) / len(found) if found else None


def _group(finished: Sequence[Material], change: Change, value: object) -> Group | None:
    table, name = change.path.split(".")
    mine = [summary for run, summary in finished if getattr(getattr(run.spec, table), name) == value]
    return next(iter(group(mine)), None)
