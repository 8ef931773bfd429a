"""Run folders and study folders: made, written as things happen, and read back whatever state they are in."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, get_args

from pydantic import ValidationError

from twinlens.errors import BadInput
from twinlens.record.arrow import RowWriter
from twinlens.record.codec import decode
from twinlens.record.executor.facts import Facts
from twinlens.record.foreign_text import in_one_line
from twinlens.record.run import ROWS, Run, State
from twinlens.record.samples import SERVER_SCHEMA, TELEMETRY_SCHEMA
from twinlens.record.sections import Sections
from twinlens.spec.load import dump
from twinlens.spec.source.earlier import modern
from twinlens.spec.study import RunSpec, Study
from twinlens.system.document import read_json
from twinlens.system.processes import is_gone, this_process
from twinlens.version import RUN_SCHEMA, __version__


def now_utc() -> str:
    """The time for people and file names; no duration is ever computed from it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H%M%SZ")


def create_run(parent: Path, spec: RunSpec, attempt: int = 1) -> Path:
    """A new run folder under `parent`, in state "running", with what was asked. Returns its path.

    `attempt`: which one at this repeat, from 1; the ones before were disturbed by others.
    """
    label = "_".join([spec.name, spec.point.precision, f"r{spec.repeat}"])
    folder = parent / f"{now_utc()}_{label}_{secrets.token_hex(2)}"
    folder.mkdir(parents=True)
    write_json(
        folder / "run.json",
        {
            "schema": RUN_SCHEMA,
            "twinlens": __version__,
            "id": folder.name,
            "state": "running",
            "lens": spec.lens,
            "fingerprint": spec.fingerprint(),
            "attempt": attempt,
            "asked": spec.to_dict(),
            "started_utc": now_utc(),
            "ended_utc": None,
            "pid": os.getpid(),
            "process": this_process(),
            "facts": None,
            "error": None,
        },
    )
    return folder


def update_run(folder: Path, **changes: Any) -> None:
    """Change fields of run.json; readers see the old file or the new one, never half of one."""
    path = folder / "run.json"
    write_json(path, read_json(path) | changes)


def end_run(folder: Path, state: State, error: str | None = None, rows: int | None = None) -> None:
    """Say how the run ended, and how many rows it has where that is known: fewer on reading are a damage."""
    known = {} if rows is None else {"rows": rows}
    update_run(folder, state=state, error=error, ended_utc=now_utc(), **known)


def take_over(folder: Path) -> None:
    """Say that this process measures the run from now on."""
    update_run(folder, pid=os.getpid(), process=this_process())


def open_rows(folder: Path, spec: RunSpec) -> RowWriter:
    """The writer of this run's rows."""
    name, schema = ROWS[spec.lens]
    return RowWriter(folder / f"{name}.arrows", schema)


def open_telemetry(folder: Path) -> RowWriter:
    """The writer of this run's telemetry."""
    return RowWriter(folder / "telemetry.arrows", TELEMETRY_SCHEMA)


def open_server(folder: Path) -> RowWriter:
    """The writer of what the server said of itself."""
    return RowWriter(folder / "server.arrows", SERVER_SCHEMA)


def read_run(folder: str | Path) -> Run:
    """Read a run folder. Raises BadInput when it is none, is corrupt, or was written by a newer version."""
    path = Path(folder)
    data = _read_json(path / "run.json", "a run folder")
    schema = data.get("schema")
    if schema is None or (isinstance(schema, int) and schema < 1):
        said = "says no schema" if schema is None else f"says schema {schema}, which never was"
        raise BadInput(f"{path}/run.json {said}; restore it from a copy, or measure again", code="TL205")
    if not isinstance(schema, int) or schema > RUN_SCHEMA:
        raise BadInput(
            f"{path} has schema {schema!r} and this version reads up to {RUN_SCHEMA}; update twinlens",
            code="TL206",
        )
    try:
        return Run(
            folder=path,
            state=_state(data),
            spec=RunSpec.model_validate_json(json.dumps(modern(data["asked"]))),
            facts=decode(Facts, data["facts"]) if data["facts"] else None,
            **_words(data),
            sections=decode(Sections, data),
        )
    except (AttributeError, KeyError, TypeError, ValueError, ValidationError) as error:
        raise BadInput(
            f"{path / 'run.json'} is not a run record ({_cause(error)}); restore it or measure again", code="TL205"
        ) from None


def _words(data: dict[str, Any]) -> dict[str, Any]:
    """What a record says of itself in words. Raises KeyError, and ValueError for a value that is none."""
    found = {"id": data["id"], "started_utc": data["started_utc"], "version": data["twinlens"]}
    found |= {name: data[name] for name in ("ended_utc", "error") if data[name] is not None}
    for name, value in found.items():
        if not isinstance(value, str):
            raise ValueError(f"{name} is no text")
    return {"ended_utc": None, "error": None} | found


def _cause(error: Exception) -> str:
    """One line: of a record that was checked field by field, the first field and what is wrong with it."""
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        return f"asked.{'.'.join(map(str, first['loc']))}: {first['msg']}"
    if isinstance(error, KeyError):
        return f"it has no {error}"
    return in_one_line(str(error).splitlines()[0])


def _state(data: dict[str, Any]) -> State:
    word = data["state"]
    if word not in get_args(State):
        raise ValueError(f"unknown state {word!r}")
    if word == "running" and is_gone(data.get("process")):
        return "interrupted"  # killed: nobody was left to write it down
    return word  # type: ignore[no-any-return]


def create_study(parent: Path, study: Study) -> Path:
    """A new study folder under `parent` holding study.json, and spec.toml to run the same again. Returns its path."""
    folder = parent / f"{now_utc()}_{study.name}_{secrets.token_hex(2)}"
    folder.mkdir(parents=True)
    write_json(
        folder / "study.json",
        {
            "schema": RUN_SCHEMA,
            "twinlens": __version__,
            "id": folder.name,
            "fingerprint": study.fingerprint(),
            "asked": study.to_dict(),
            "pid": os.getpid(),
            "ended_utc": None,
        },
    )
    write_text(folder / "spec.toml", dump(study))
    return folder


def update_study(folder: Path, **changes: Any) -> None:
    """Change fields of study.json, as `update_run` does."""
    path = folder / "study.json"
    write_json(path, _read_json(path, "a study folder") | changes)


def end_study(folder: Path) -> None:
    """Say that what a study came to was shown: asked for again, it is measured again."""
    update_study(folder, ended_utc=now_utc())


def is_ended(folder: Path) -> bool:
    """Whether a study was shown to its end; those of older versions, which do not say, are taken to be."""
    return _read_json(folder / "study.json", "a study folder").get("ended_utc", "") is not None


def read_record(path: Path) -> dict[str, Any]:
    """A JSON file of a run or study folder as plain data. Raises BadInput (TL205)."""
    return _read_json(path, "a folder of Twinlens")


def read_study(folder: Path) -> Study:
    """The study of a study folder. Raises BadInput when it cannot be read."""
    data = _read_json(folder / "study.json", "a study folder")
    try:
        return Study.model_validate_json(json.dumps(modern(data["asked"])))
    except (KeyError, ValidationError) as error:
        raise BadInput(
            f"{folder / 'study.json'} is not a study record: {str(error).splitlines()[0]}", code="TL205"
        ) from None


def find_runs(path: str | Path) -> list[Run]:
    """The runs at a path: a run folder itself, or all run folders in a study folder (or a folder of studies)."""
    root = Path(path)
    if (root / "run.json").exists():
        return [read_run(root)]
    if root.is_file():
        raise BadInput(f"{str(path)!r} is a file, and a run is a folder: give the folder that it is in", code="TL205")
    if not root.is_dir():
        raise BadInput(f"there is no run folder {str(path)!r}; `twinlens list runs` names those here", code="TL205")
    runs = [read_run(record.parent) for record in sorted(root.glob("**/run.json"))]
    if not runs:
        raise BadInput(
            f"{str(path)!r} holds no run (no run.json in it); `twinlens list runs` names those here",
            code="TL205",
        )
    return runs


def write_json(path: Path, data: Any) -> None:
    """Write whole or not at all: a new file beside the old one, then a rename."""
    write_text(path, json.dumps(data, indent=1, ensure_ascii=False, allow_nan=False) + "\n")


def write_text(path: Path, text: str) -> None:
    """The same of any text."""
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        fresh.write_text(text, encoding="utf-8")
        fresh.replace(path)
    except OSError as error:
        error.filename = str(path)  # a write that fails does not say where
        with contextlib.suppress(OSError):
            fresh.unlink(missing_ok=True)
        raise


def _read_json(path: Path, what: str) -> dict[str, Any]:
    try:
        data = read_json(path)
    except FileNotFoundError:
        raise BadInput(f"{str(path.parent)!r} is not {what}: it has no {path.name}", code="TL205") from None
    except (OSError, ValueError) as error:
        raise BadInput(f"{path} cannot be read ({error}); restore it or measure again", code="TL205") from None
    if not isinstance(data, dict):
        raise BadInput(f"{path} is not a JSON object; restore it or measure again", code="TL205")
    return data
