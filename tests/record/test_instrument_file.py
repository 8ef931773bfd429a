"""instrument.json: what was seen of a run's work, kept with it, and refused where it is not what was written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import twinlens as tl
from material import for_rows, measured, training
from twinlens.api.judging.instrument import kept_counters
from twinlens.cli.main import app
from twinlens.comparison.difference import workload_hash
from twinlens.comparison.side import Side
from twinlens.errors import BadInput
from twinlens.measurement.summary_file import summary_of
from twinlens.record.beside import Profile, keep_profile, kept_profile
from twinlens.record.run import Run
from twinlens.stats.summary.group import group

PROFILE = Profile({"step": {"matrix products": 0.3, "copies": 0.1}}, {"step": 3}, 2, 41.0)


def changed(folder: Path, **watched: Any) -> None:
    path = folder / "instrument.json"
    data = json.loads(path.read_text())
    path.write_text(json.dumps(data | {"watched": data["watched"] | watched}))


def kept_with(run: Run) -> str:
    workload = workload_hash(Side(run.id, group([summary_of(run)])[0], (run,)))
    keep_profile(run.folder, PROFILE, workload)
    return workload


def test_what_is_kept_is_read_again_and_a_later_one_takes_its_place(tmp_path: Path) -> None:
    assert kept_profile(tmp_path) is None
    kept = keep_profile(tmp_path, PROFILE, "0123456789ab")
    assert kept_profile(tmp_path) == kept
    keep_profile(tmp_path, PROFILE, "ba9876543210")
    assert [each.name for each in tmp_path.iterdir()] == ["instrument.json"]
    read = kept_profile(tmp_path)
    assert read is not None
    assert read.workload == "ba9876543210"


def test_a_changed_number_is_a_damage_and_a_torn_file_is_said_so(tmp_path: Path) -> None:
    keep_profile(tmp_path, PROFILE, "0123456789ab")
    changed(tmp_path, workload="ffffffffffff")
    with pytest.raises(BadInput, match="checksum") as damaged:
        kept_profile(tmp_path)
    assert damaged.value.code == "TL220"
    (tmp_path / "instrument.json").write_text('{"schema": 1, "watched": {"instr')
    with pytest.raises(BadInput, match="cannot be read") as torn:
        kept_profile(tmp_path)
    assert torn.value.code == "TL205"


def test_a_diagnosis_shows_what_was_kept_and_says_how_it_was_come_by(tmp_path: Path) -> None:
    run = measured(tmp_path, training("fake", protocol=for_rows(60)))
    workload = kept_with(run)
    (counter,) = kept_counters(run, summary_of(run))
    assert {name: round(each.value or 0, 3) for name, each in counter.beside.items()} == {
        "matrix products": 0.75,
        "copies": 0.25,
    }
    said = counter.value.method
    assert f"3 passes after 2, a run of its own of workload {workload}, unranked, kept with this run" in said
    told = CliRunner().invoke(app, ["diagnose", str(run.folder), "--all"])
    assert told.exit_code == 0, told.stderr
    assert "kernels, profiled" in told.stdout
    tl.report([run], to=tmp_path / "report.html")
    assert "Kernels, profiled" in (tmp_path / "report.html").read_text()


def test_that_of_other_work_is_refused(tmp_path: Path) -> None:
    run = measured(tmp_path, training("fake", protocol=for_rows(60)))
    keep_profile(run.folder, PROFILE, "0123456789ab")
    told = CliRunner().invoke(app, ["diagnose", str(run.folder)])
    assert told.exit_code == 2
    assert "is of workload 0123456789ab" in " ".join(told.stderr.split())
