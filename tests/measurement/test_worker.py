"""The worker process: JSON lines on its own channel, whatever libraries print."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from material import spec_of, training
from twinlens.executors import registry
from twinlens.record.store import create_run, read_run


def worked(folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "twinlens.measurement.worker", str(folder)],
        capture_output=True, text=True, timeout=180, env={**os.environ, **variables},
    )  # fmt: skip


def test_a_worker_measures_its_folder_and_speaks_json_lines_and_imports_no_pandas(tmp_path: Path) -> None:
    folder = create_run(tmp_path, spec_of(training("fake", options={"pace": 1, "step_s": 0.1})))
    done = worked(folder, PYTHONPROFILEIMPORTTIME="1")
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "pyarrow" in imported
    assert "pandas.core" not in imported, "pyarrow imports it for half a second, where it is installed"
    assert done.returncode == 0
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert lines
    assert all({"say", "share", "rows"} == set(line) for line in lines)
    assert read_run(folder).is_finished


def test_a_worker_ends_with_the_error_as_its_last_line(tmp_path: Path) -> None:
    folder = create_run(tmp_path, spec_of(training("fake", options={"fail_at": 2})))
    done = worked(folder)
    last = json.loads(done.stdout.splitlines()[-1])
    assert (done.returncode, last["exit"], last["code"]) == (3, 3, "TL302")
    assert last["error"] == read_run(folder).error
    assert "Traceback" not in done.stderr


@pytest.mark.torch
def test_what_libraries_print_never_comes_between_the_lines(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="needs the torch extra")
    folder = create_run(tmp_path, spec_of(training("torch", "vit-tiny")))
    done = worked(folder)
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert lines[0]["say"] == "building the model"


def test_an_executor_is_ours_by_the_package_of_its_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    """pyarrow may make a data frame for anybody else's."""
    stranger = EntryPoint("stranger", "twinlens_of_mine.entry:EXECUTOR", "twinlens.executors")
    monkeypatch.setattr(
        registry, "_entries", lambda: {"fake": registry._entries_on(tuple(sys.path))["fake"], "stranger": stranger}
    )
    assert [registry.is_ours(kind) for kind in ("fake", "stranger", "nobody's")] == [True, False, False]
