"""The progress of a job, by the folders that its command writes: no line of its progress is taken apart."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from twinlens.acceptance.window import BURNIN_FILE
from twinlens.errors import TwinlensError
from twinlens.record.store import read_record, read_study
from twinlens.reporting.display import clean
from twinlens.spec.study import Study
from twinlens.tuning.ledger import FILE as LEDGER_FILE
from twinlens.tuning.ledger import fold, read_ledger
from twinlens.web.work.job import Job

_MOST_FOLDERS = 8
_LOADS = (("batch", "batch {}"), ("rate_per_s", "{} requests/s"), ("concurrency", "{} in flight"))


@dataclass(frozen=True, slots=True)
class Written:
    """One folder of a job. `done` of `planned`: runs of a study, trials of a tuning; None: not known beforehand.
    `runs`: its run folders, each by its name, its point in words, and its state."""

    name: str
    what: str
    done: int
    planned: int | None
    runs: tuple[tuple[str, str, str], ...] = ()


def written_by(job: Job, out: Path) -> list[Written]:
    """The folders that the command of a job has begun or taken up, in their order; those that cannot be read left
    out."""
    found = []
    for folder in _touched(out, job.begun_s):
        with contextlib.suppress(TwinlensError, OSError, ValueError):
            if (each := _written(folder, job.child)) is not None:
                found.append(each)
    return found[:_MOST_FOLDERS]


def _touched(out: Path, since_s: float) -> Iterator[Path]:
    """Folders whose record was written since a job began: reading all of ten thousand would take seconds."""
    for folder in sorted(out.iterdir()) if out.is_dir() else ():
        for name in ("study.json", BURNIN_FILE):
            with contextlib.suppress(OSError):
                if (folder / name).stat().st_mtime >= since_s - 2:
                    yield folder
                    break


def _written(folder: Path, child: int | None) -> Written | None:
    if (folder / BURNIN_FILE).is_file():
        return Written(folder.name, "burn-in", _lines(folder / "windows.jsonl"), None)
    if read_record(folder / "study.json").get("pid") != child:
        return None
    study = read_study(folder)
    if (folder / LEDGER_FILE).is_file() and study.tune is not None:
        return Written(folder.name, "tuning", fold(read_ledger(folder)).counted, study.tune.budget.trials)
    return _of_study(folder, study)


def _of_study(folder: Path, study: Study) -> Written:
    names = sorted(each.name for each in folder.iterdir() if (each / "run.json").is_file())
    records = [read_record(folder / name / "run.json") for name in names]
    runs = tuple((name, _point(each), str(each.get("state"))) for name, each in zip(names, records, strict=True))
    over = sum(state != "running" for _, _, state in runs)
    return Written(folder.name, "study", over, None if study.search else max(len(runs), len(study.runs())), runs)


def _point(record: Mapping[str, Any]) -> str:
    """What tells a run from the others of its study, in words."""
    asked = _inner(record, "asked")
    point = _inner(asked, "point")
    loads = [form.format(clean(point[name], 20)) for name, form in _LOADS if point.get(name) is not None]
    repeat = [f"repeat {asked['repeat'] + 1}"] if type(asked.get("repeat")) is int else []
    return ", ".join([clean(point.get("precision", "?"), 40), *loads, *repeat])


def _inner(data: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = data.get(name)
    return found if isinstance(found, Mapping) else {}


def _lines(path: Path) -> int:
    with contextlib.suppress(OSError), path.open("rb") as file:
        return sum(1 for _ in file)
    return 0
