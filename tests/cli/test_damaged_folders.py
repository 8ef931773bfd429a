"""Run folders that somebody damaged, beside whole ones: each is named in one sentence, none hides its neighbours, and
nothing is waited for."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from click.testing import CliRunner, Result

import twinlens as tl
from twinlens.cli.main import app

DEEP = "[" * 60_000
Damage = Callable[[Path], None]


def call(*words: str | Path) -> Result:
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert done.exception is None or isinstance(done.exception, SystemExit), repr(done.exception)
    return done


def says(*path: str, value: Any) -> Damage:
    """The record with one value changed; "*" is the first key of a table."""

    def change(run: Path) -> None:
        record = json.loads((run / "run.json").read_text())
        table = record
        for key in path[:-1]:
            table = table[next(iter(table)) if key == "*" else key]
        table[path[-1]] = value
        (run / "run.json").write_text(json.dumps(record))

    return change


def pipe(name: str) -> Damage:
    def change(run: Path) -> None:
        (run / name).unlink(missing_ok=True)
        os.mkfifo(run / name)

    return change


def text(name: str, content: str) -> Damage:
    return lambda run: (run / name).write_text(content) and None


FACT = ("facts", "executor", "*")
LEFT_OUT: dict[str, tuple[Damage, str]] = {
    "a record of 60,000 brackets": (text("run.json", f'{{"a":{DEEP}'), "nested deeper than 100 levels"),
    "a record with 5,000 digits": (text("run.json", f'{{"schema": {"9" * 5000}}}'), "more than 100 digits"),
    "a record that is a pipe": (pipe("run.json"), "no regular file"),
    "rows that are a pipe": (pipe("steps.arrows"), "no regular file"),
    "checksums that are a pipe": (pipe("steps.arrows.crc32"), "no regular file"),
    "telemetry that is a pipe": (pipe("telemetry.arrows"), "no regular file"),
    "a capture that there is not": (says(*FACT, "capture", value="dreamt"), "capture"),
    "an origin that there is not": (
        says("facts", "work", value={"x": {"value": 1, "unit": "FLOP", "method": "m", "origin": "dreamt"}}), "origin",
    ),
    "a name with a space": (says("asked", "name", value="a b"), "asked.name"),
    "a name that is a number": (says("id", value=5), "id is no text"),
    "half a character": (says("id", value="\ud800"), "half a character"),
    "a start that is a number": (says("started_utc", value=5), "started_utc is no text"),
    "a version that is a list": (says("twinlens", value=[1]), "version is no text"),
    "a falsifier of 60,000 brackets": (text("falsifier.json", f'{{"tried":{DEEP}'), "nested deeper"),
    "a profile that is a pipe": (pipe("instrument.json"), "no regular file"),
}  # fmt: skip


@pytest.fixture
def study(measured_runs: Path, tmp_path: Path) -> Path:
    """Four whole runs of one study."""
    (whole,) = [record.parent for record in measured_runs.glob("*/study.json")]
    shutil.copytree(whole, tmp_path / "runs" / whole.name)
    return tmp_path / "runs" / whole.name


def runs_in(study: Path) -> list[Path]:
    return sorted(record.parent for record in study.glob("*/run.json"))


@pytest.mark.parametrize("what", LEFT_OUT)
def test_a_damaged_run_is_named_and_the_others_are_shown(study: Path, what: str) -> None:
    damage, why = LEFT_OUT[what]
    spoilt = runs_in(study)[1]
    (spoilt / "summary.json").unlink()
    damage(spoilt)
    shown = call("show", "--json", study)
    assert shown.exit_code == 2
    assert why in shown.stderr
    assert shown.stderr.count("\n") == 1
    assert {run["run"] for run in json.loads(shown.stdout)} == {run.name for run in runs_in(study)} - {spoilt.name}
    listed = call("list", "runs", "--out", study.parent)
    assert listed.exit_code == 0
    assert all(run.name[-4:] in listed.stdout for run in runs_in(study))


def moved(column: str, by_ns: int) -> Callable[[pa.Table], pa.Table]:
    return lambda rows: rows.set_column(rows.column_names.index(column), column, pc.add(rows[column], by_ns))


def turned(rows: pa.Table) -> pa.Table:
    chunks = pa.array([times[::-1] for times in rows["chunk_ns"].to_pylist()], rows.schema.field("chunk_ns").type)
    return rows.set_column(rows.column_names.index("chunk_ns"), "chunk_ns", chunks)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (moved("end_ns", -(10**12)), "a request ends before it begins"),
        (moved("sent_ns", 10**12), "a request ends before it begins"),
        (moved("intended_ns", 10**12), "a request ends before it begins"),
        (turned, "the chunks of an answer are out of order"),
    ],
)
def test_requests_whose_times_cannot_be_are_a_damaged_run(
    measured_runs: Path, tmp_path: Path, change: Callable[[pa.Table], pa.Table], why: str
) -> None:
    shutil.copytree(measured_runs, tmp_path / "runs")
    (rows,) = (tmp_path / "runs").rglob("requests.arrows")
    with pa.ipc.open_stream(rows.read_bytes()) as stream:
        spoilt = change(stream.read_all())
    with pa.OSFile(str(rows), "wb") as file, pa.ipc.new_stream(file, spoilt.schema) as out:
        out.write_table(spoilt)
    rows.with_name("requests.arrows.crc32").unlink()
    for words in (["show"], ["show", "--json"], ["diagnose"], ["report", "-o", str(tmp_path / "report.html")]):
        done = call(words[0], tmp_path / "runs", *words[1:])
        assert (done.exit_code, why in " ".join(done.stderr.split())) == (2, True)


@pytest.mark.parametrize("form", ["--csv", "--markdown", "--all"])
def test_letters_that_command_a_terminal_are_not_printed(study: Path, form: str) -> None:
    says("id", value="\x1b[31m\u202eevil")(runs_in(study)[1])
    shown = call("show", form, study)
    assert shown.exit_code == 0
    assert not {"\x1b", "\u202e"} & set(shown.stdout)


def test_json_says_them_in_escapes_and_so_loses_none(study: Path) -> None:
    odd = "\x1b[31m\u202eevil\x9b\u2028é"
    says("id", value=odd)(runs_in(study)[1])
    shown = call("show", "--json", study)
    assert not set(odd[:-1]) - set("[31mevil") & set(shown.stdout)
    assert odd in {run["run"] for run in json.loads(shown.stdout)}


@pytest.mark.parametrize("name", ["search.json", "paired.json", "study.json"])
@pytest.mark.parametrize("spoil", [pipe, lambda name: text(name, f'{{"found":{DEEP}')])
def test_a_damaged_file_of_the_study_hides_none_of_its_runs(
    study: Path, name: str, spoil: Callable[[str], Damage]
) -> None:
    spoil(name)(study)
    shown = call("show", "--json", study)
    data = json.loads(shown.stdout)
    assert len(data["runs"] if isinstance(data, dict) else data) == 4
    assert (shown.exit_code, name in shown.stderr) == ((2, True) if name == "search.json" else (0, False))


def test_a_report_leaves_a_damaged_run_out_and_says_so(study: Path, tmp_path: Path) -> None:
    spoilt = runs_in(study)[1]
    says(*FACT, "capture", value="dreamt")(spoilt)
    pipe("search.json")(study)
    done = call("report", study, "-o", tmp_path / "report.html")
    assert done.exit_code == 2
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "A run is left out" in page
    assert f"{spoilt.name}/run.json is not a run record" in page


def test_a_damaged_study_beside_it_does_not_keep_a_study_from_being_measured(study: Path, spec: Path) -> None:
    (study / "study.json").write_text(DEEP)
    pipe("run.json")(runs_in(study)[0])
    done = call("measure", spec, "--out", study.parent)
    assert done.exit_code == 0, done.stderr


@pytest.mark.parametrize("name", ["run.json", "summary.json", "search.json"])
def test_the_verbs_that_need_every_run_refuse_in_one_sentence(study: Path, tmp_path: Path, name: str) -> None:
    folder = study if name == "search.json" else runs_in(study)[0]
    text(name, f'{{"schema": 1, "found":{DEEP}')(folder)
    for words in (("compare", study), ("diagnose", study), ("evidence", study, "-o", tmp_path / "e.zip")):
        done = call(*words)
        assert (done.exit_code, done.stderr.count("Traceback")) in ((0, 0), (1, 0), (2, 0))


def test_a_run_folder_as_a_spec_is_read_within_the_same_bounds(study: Path) -> None:
    (study / "study.json").write_text(f'{{"asked": {DEEP}')
    done = call("check", study)
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1)
    assert "nested deeper than 100 levels" in done.stderr
    with pytest.raises(tl.errors.BadInput):
        tl.load(str(study))


def test_little_address_space_is_one_sentence_and_no_abort(study: Path, tmp_path: Path) -> None:
    ask = [sys.executable, "-m", "twinlens", "report", str(study), "-o", str(tmp_path / "r.html")]
    told = subprocess.run(["sh", "-c", 'ulimit -v 8000000; exec "$@"', "sh", *ask], capture_output=True, text=True)
    assert (told.returncode, told.stderr.count("\n")) == (3, 1)
    assert "of address space" in told.stderr
    assert not (tmp_path / "r.html").exists()
