"""The verb that diagnoses: what binds each run, from its record and its rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from twinlens.api.documented import Found
from twinlens.api.judging.instrument import kept_counters
from twinlens.api.measuring.trials import kept_trials
from twinlens.api.question import asks
from twinlens.api.questions import DIAGNOSE
from twinlens.api.runs import material_of, read
from twinlens.api.siblings import Studies
from twinlens.diagnosis.diagnosis import Diagnosis, by_class, diagnose_repeats
from twinlens.diagnosis.probe_ceilings import probe_ceilings
from twinlens.errors import BadInput
from twinlens.proof.falsifier import with_trials
from twinlens.record.codec import encode
from twinlens.record.estimate import Estimate
from twinlens.record.run import Run
from twinlens.reporting.judging.diagnosis import diagnoses_document
from twinlens.reporting.view import Entry, Material, view
from twinlens.reporting.wording.finding import with_words
from twinlens.system.document import read_json
from twinlens.version import __version__


@asks(DIAGNOSE)
def diagnose(runs: str | Path | Run | Iterable[Run], ceilings: str | Path | None = None) -> tuple[Diagnosis, ...]:
    """What binds a run, or each of several: verdict, parts of its time, four counters and findings.

    `ceilings`: the JSON of an earlier probe of the machine that served, for runs that measured none. A notebook shows
    what `twinlens diagnose` prints.
    Raises BadInput (TL228, TL229) where a single run has nothing to diagnose; of several, such runs are left out, and
    it is raised where none is left.
    """
    if isinstance(runs, str | Path):
        runs = read(runs)
    chosen = (runs,) if isinstance(runs, Run) else tuple(runs)
    found = [found for _, found in diagnosed(chosen, ceilings)]
    return Found.of(found, lambda: diagnoses_document(diagnosed_points(chosen, ceilings)))


def diagnosed_points(runs: Iterable[Run], ceilings: str | Path | None = None) -> list[tuple[Entry, Diagnosis]]:
    """One diagnosis of each operating point, of its repeats together. Raises BadInput as `diagnose` does."""
    probe = _json_of(Path(ceilings)) if ceilings is not None else None
    materials = material_of(runs)
    if not materials:
        raise BadInput("diagnose what? Give a run", code="TL228")
    diagnose_members, found, faults = diagnoser(materials), [], []
    for entry in (entry for lens in view(materials).lenses for entry in lens.entries):
        try:
            first = entry.material[0][0]
            known = probe_ceilings(first, probe, str(ceilings)) if probe is not None else None
            found.append((entry, diagnose_members(entry.material, known)))
        except BadInput as error:
            faults.append(error)
    if not found:
        raise faults[0]
    return found


def diagnosed(runs: Iterable[Run], ceilings: str | Path | None = None) -> list[tuple[Material, Diagnosis]]:
    """The same, each beside the run and the summary that it is of."""
    probe = _json_of(Path(ceilings)) if ceilings is not None else None
    found, faults = [], []
    materials = material_of(runs)
    diagnose_members = diagnoser(materials)
    for run, summary in materials:
        try:
            known = probe_ceilings(run, probe, str(ceilings)) if probe is not None else None
            found.append(((run, summary), diagnose_members(((run, summary),), known)))
        except BadInput as error:
            faults.append(error)
    if not found:
        raise faults[0] if faults else BadInput("diagnose what? Give a run", code="TL228")
    return found


def diagnoser(materials: Iterable[Material]) -> Callable[..., Diagnosis]:
    """Diagnoses the repeats of a point, each with its summary (and ceilings of a probe), with all that is known beside
    their rows.

    Siblings in other precisions and remedies that were tried, among `materials` and their studies; a kept profile; a
    tried falsifier. What it returns raises BadInput (TL228, and TL205 for a file in the run folder that is damaged).
    """
    studies = Studies(materials)

    def diagnose_members(members: Sequence[Material], known: Mapping[str, Estimate] | None = None) -> Diagnosis:
        run, summary = members[0]
        found = diagnose_repeats(members, studies.siblings(run), known, studies.lower_load(run, summary))
        kept = next((counters for each in members if (counters := kept_counters(*each))), ())
        known_too = replace(found, tried=studies.tried(run), counters=(*found.counters, *kept))
        return with_trials(by_class(known_too), [trial for each, _ in members for trial in kept_trials(each)])

    return diagnose_members


def _json_of(path: Path) -> Any:
    try:
        return read_json(path)
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror or error}", code="TL229") from None
    except ValueError:
        raise BadInput(f"{path} is no JSON; make one with `twinlens probe --json > FILE`", code="TL229") from None


def diagnosis_json(found: Sequence[Diagnosis], points: Sequence[tuple[Entry, Diagnosis]] = ()) -> dict[str, Any]:
    """As plain data, for --json, with `text` and `advice` in each finding: runs one by one, and points of repeats."""
    runs = [with_words(encode(each)) for each in found]
    of_points = [
        {"point": entry.name, "runs": [run.id for run, _ in entry.material]} | with_words(encode(each))
        for entry, each in points
    ]
    return {"schema": 1, "twinlens": __version__, "diagnoses": runs} | ({"points": of_points} if of_points else {})
