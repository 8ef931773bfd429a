"""Specs, runs and command lines that many tests need: small, real, and on the CPU whatever the machine has."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from twinlens.executors.registry import capabilities, executor_names
from twinlens.measurement.session import run_here
from twinlens.record.run import Run
from twinlens.record.store import create_run, read_run
from twinlens.spec.load import parse
from twinlens.spec.study import RunSpec, Study

if TYPE_CHECKING:
    from click.testing import Result

IMAGES = {"kind": "images"}


def fixed(tokens: int) -> dict[str, Any]:
    return {"kind": "fixed", "value": tokens}


def for_rows(count: int) -> dict[str, Any]:
    """The protocol for so many steps of the fake executor, which take a tenth of a virtual second each."""
    return {"duration_s": count / 10, "min_rows": count}


def training(kind: str = "torch", model: str = "tiny", **parts: Any) -> dict[str, Any]:
    """Spec data of a small training run. `parts` are whole tables (point, protocol, options) or workload fields."""
    data = {"data": IMAGES} if model in ("vit-tiny", "resnet-tiny") else {}
    asked = {"kind": "training", "model": model, "global_batch": 4, "seq_len": 32} | data
    return _spec(kind, asked, parts)


def inference(kind: str = "torch", model: str = "tiny", **parts: Any) -> dict[str, Any]:
    """Spec data of a small inference run."""
    data = {"data": IMAGES} if model in ("vit-tiny", "resnet-tiny") else {}
    asked = {"kind": "inference", "model": model, "input_tokens": fixed(16), "output_tokens": fixed(6)} | data
    return _spec(kind, asked, parts)


def _spec(kind: str, workload: dict[str, Any], parts: dict[str, Any]) -> dict[str, Any]:
    protocol = {"ceilings": False, "isolate": False, "repeats": 1, "extend": 0, "steady_s": 0.0, "telemetry_s": 0.1}
    protocol |= for_rows(5) if kind == "fake" else {"duration_s": 0.1, "min_rows": 5}
    heeded = capabilities(kind).settings if kind in executor_names() else ()
    executor = {name: value for name, value in {"device": "cpu", "threads": 1}.items() if name in heeded}
    executor |= {"kind": kind, "options": parts.pop("options", {})}
    return {
        "name": "small",
        "executor": executor | parts.pop("executor", {}),
        "point": parts.pop("point", {}),
        "sweep": parts.pop("sweep", {}),
        "variants": parts.pop("variants", []),
        "protocol": protocol | parts.pop("protocol", {}),
        "workload": workload | parts,
    }


def study_of(data: dict[str, Any], *settings: str) -> Study:
    return parse(data, settings)


def spec_of(data: dict[str, Any], *settings: str) -> RunSpec:
    """The first run of a spec."""
    return parse(data, settings).runs()[0]


def measured(parent: Path, data: dict[str, Any]) -> Run:
    """One run, measured here and read back."""
    spec = spec_of(data)
    folder = create_run(parent, spec)
    run_here(folder, spec, lambda phrase, share, rows: None)
    return read_run(folder)


def run_json(run: Run) -> dict[str, Any]:
    """What the run.json of a run holds, as plain data."""
    return json.loads((run.folder / "run.json").read_text(encoding="utf-8"))  # type: ignore[no-any-return]


def quiet(phrase: str) -> None:
    """Where an executor's words to people go."""


def command(*words: str | Path) -> list[str]:
    """The command line as a process of its own."""
    return [sys.executable, "-m", "twinlens.cli.main", *map(str, words)]


def twinlens(
    *words: str | Path, cwd: Path | None = None, timeout: float = 120, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run a verb to its end."""
    return subprocess.run(
        command(*words), capture_output=True, text=True, cwd=cwd, env={**os.environ, **variables}, timeout=timeout
    )


def called(*words: str | Path, **variables: str) -> Result:
    """A verb in this process: what one of its own prints, without the second that it takes to start."""
    from click.testing import CliRunner

    from twinlens.cli.main import app

    return CliRunner().invoke(app, [str(word) for word in words], env=variables)
