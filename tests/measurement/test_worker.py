"""The worker process: JSON lines on its own channel, whatever libraries print."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from material import spec_of, training
from twinlens.record.store import create_run, read_run


def worked(folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "twinlens.measurement.worker", str(folder)], capture_output=True, text=True, timeout=180
    )


def test_a_worker_measures_its_folder_and_speaks_json_lines(tmp_path: Path) -> None:
    folder = create_run(tmp_path, spec_of(training("fake", options={"pace": 1, "step_s": 0.1})))
    done = worked(folder)
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
