"""The verb that diagnoses: what binds each run, from its record and its rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from twinlens.api.instrument import kept_counters
from twinlens.api.runs import material_of, read
from twinlens.api.siblings import Studies
from twinlens.diagnosis.diagnosis import Diagnosis, diagnose_run
from twinlens.diagnosis.probe_ceilings import probe_ceilings
from twinlens.errors import BadInput
from twinlens.record.estimate import Estimate
from twinlens.record.falsifier import tried
from twinlens.record.run import Run
from twinlens.reporting.view import Material
from twinlens.reporting.wording.finding import with_words
from twinlens.stats.summary.group import Summary
from twinlens.system.document import read_json
from twinlens.version import __version__


def diagnose(runs: str | Path | Run | Iterable[Run], ceilings: str | Path | None = None) -> tuple[Diagnosis, ...]:
    """What binds a run, or each of several: verdict, parts of its time, four counters and findings.

    `ceilings`: the JSON of an earlier probe of the machine that served, for runs that measured none.
    Raises BadInput (TL228, TL229) where a single run has nothing to diagnose; of several, such runs are left out, and
    it is raised where none is left.
    """
    if isinstance(runs, str | Path):
        runs = read(runs)
    return tuple(found for _, found in diagnosed((runs,) if isinstance(runs, Run) else runs, ceilings))


def diagnosed(runs: Iterable[Run], ceilings: str | Path | None = None) -> list[tuple[Material, Diagnosis]]:
    """The same, each beside the run and the summary that it is of."""
    probe = _json_of(Path(ceilings)) if ceilings is not None else None
    found, faults = [], []
    materials = material_of(runs)
    diagnose_one = diagnoser(materials)
    for run, summary in materials:
        try:
            known = probe_ceilings(run, probe, str(ceilings)) if probe is not None else None
            found.append(((run, summary), diagnose_one(run, summary, known)))
        except BadInput as error:
            faults.append(error)
    if not found:
        raise faults[0] if faults else BadInput("diagnose what? Give a run", code="TL228")
    return found


def diagnoser(materials: Iterable[Material]) -> Callable[..., Diagnosis]:
    """Diagnoses a run, given with its summary (and ceilings of a probe), with all that is known beside its rows.

    Siblings in other precisions and remedies that were tried, among `materials` and their studies; a kept profile; a
    tried falsifier. What it returns raises BadInput (TL228, and TL205 for a file in the run folder that is damaged).
    """
    studies = Studies(materials)

    def diagnose_one(run: Run, summary: Summary, known: Mapping[str, Estimate] | None = None) -> Diagnosis:
        found = diagnose_run(run, summary, studies.siblings(run), known, studies.lower_load(run, summary))
        counters = (*found.counters, *kept_counters(run, summary))
        return _with_trials(run, replace(found, tried=studies.tried(run), counters=counters))

    return diagnose_one


def _json_of(path: Path) -> Any:
    try:
        return read_json(path)
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror or error}", code="TL229") from None
    except ValueError:
        raise BadInput(f"{path} is no JSON; make one with `twinlens probe --json > FILE`", code="TL229") from None


def _with_trials(run: Run, found: Diagnosis) -> Diagnosis:
    """With the newest ruling on the falsifier of this verdict first among the findings, where it was tried."""
    about = [each for each in tried(run.folder) if each.numbers.get("verdict") == found.verdict.code]
    return replace(found, findings=(*about[-1:], *found.findings))


def diagnosis_json(found: Sequence[Diagnosis]) -> dict[str, Any]:
    """As plain data, for --json, with `text` and `advice` in each finding."""
    runs = [with_words(each.to_json()) for each in found]
    return {"schema": 1, "twinlens": __version__, "diagnoses": runs}
