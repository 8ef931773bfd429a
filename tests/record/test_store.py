"""Run folders in every state: whole, unfinished, corrupt, of a newer version, on a disk that is full."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from material import inference, measured, run_json, spec_of, study_of, training
from twinlens.errors import BadInput
from twinlens.record.store import (
    create_run,
    create_study,
    end_run,
    find_runs,
    open_rows,
    read_run,
    read_study,
    update_run,
    write_json,
)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return create_run(tmp_path, spec_of(training("fake")))


def test_a_new_run_says_what_was_asked_and_that_it_is_not_finished(run: Path) -> None:
    found = read_run(run)
    assert found.spec == spec_of(training("fake"))
    assert (found.state, found.is_finished, found.facts, found.ended_utc) == ("running", False, None, None)
    assert run_json(found)["pid"] == os.getpid()
    assert found.table.num_rows == 0
    assert next(iter(json.loads((run / "run.json").read_text()))) == "schema"


def test_a_finished_run_is_read_back_whole(tmp_path: Path) -> None:
    for data in (training("fake"), inference("fake")):
        found = measured(tmp_path, data)
        assert (found.state, found.error) == ("finished", None)
        assert found.facts is not None
        assert found.ended_utc is not None
        assert found.table.num_rows >= 5
    assert {run.lens for run in find_runs(tmp_path)} == {"training", "inference"}


@pytest.mark.parametrize("make", [training, inference])
def test_a_finished_run_with_fewer_rows_than_it_had_is_an_error(tmp_path: Path, make: Any) -> None:
    run = measured(tmp_path, make("fake"))
    assert run_json(run)["rows"] == run.table.num_rows
    changed(run.folder, rows=run.table.num_rows + 1)
    with pytest.raises(BadInput, match=r"is damaged \(it has \d+ rows where \d+ were written\)"):
        _ = read_run(run.folder).table
    changed(run.folder, rows=None)
    assert read_run(run.folder).table.num_rows == run.table.num_rows, "a run of an older version"
    for file in run.folder.glob("*s.arrows*"):
        file.unlink()
    with pytest.raises(BadInput, match=r"is damaged \(it is empty or gone\)"):
        _ = read_run(run.folder).table


def test_the_lenses_share_no_rows(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="steps, not requests"):
        _ = measured(tmp_path, training("fake")).requests
    with pytest.raises(TypeError, match="requests, not steps"):
        _ = measured(tmp_path, inference("fake")).steps


def changed(run: Path, **fields: Any) -> None:
    path = run / "run.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))


BROKEN = {
    "a newer schema": (lambda run: changed(run, schema=99), "reads up to 1; update twinlens", "TL206"),
    "no schema": (lambda run: changed(run, schema=None), "says no schema; restore it", "TL205"),
    "a schema that never was": (lambda run: changed(run, schema=0), "says schema 0, which never was", "TL205"),
    "a schema that is no number": (lambda run: changed(run, schema="1"), "reads up to 1", "TL206"),
    "half a file": (lambda run: (run / "run.json").write_text('{"schema": 1, "id'), "cannot be read", "TL205"),
    "no text at all": (lambda run: (run / "run.json").write_bytes(b"\xff\xfe\x00"), "cannot be read", "TL205"),
    "a list": (lambda run: (run / "run.json").write_text("[1]"), "not a JSON object", "TL205"),
    "a missing part": (lambda run: (run / "run.json").write_text('{"schema": 1}'), "is not a run record", "TL205"),
    "another spec": (lambda run: changed(run, asked={"name": "x"}), "is not a run record", "TL205"),
    "facts of another kind": (lambda run: changed(run, facts={"executor": 3}), "is not a run record", "TL205"),
    "facts that are a list": (lambda run: changed(run, facts=[1]), "is not a run record", "TL205"),
    "an unknown state": (lambda run: changed(run, state="sleeping"), "is not a run record", "TL205"),
}


@pytest.mark.parametrize("what", BROKEN)
def test_a_broken_record_is_one_sentence(run: Path, what: str) -> None:
    breaks, says, code = BROKEN[what]
    breaks(run)
    with pytest.raises(BadInput, match=says) as caught:
        read_run(run)
    assert caught.value.code == code
    assert "\n" not in str(caught.value)


def test_a_folder_that_is_none_or_holds_none_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no run folder"):
        find_runs(tmp_path / "nothing")
    with pytest.raises(BadInput, match="holds no run"):
        find_runs(tmp_path)
    with pytest.raises(BadInput, match=r"has no run\.json"):
        read_run(tmp_path)


def test_two_runs_of_the_same_second_have_folders_of_their_own(tmp_path: Path) -> None:
    spec = spec_of(training("fake"))
    assert len({create_run(tmp_path, spec) for _ in range(20)}) == 20


def test_a_reader_sees_the_old_record_or_the_new_one(run: Path) -> None:
    before = (run / "run.json").read_text()
    with pytest.raises(ValueError, match="not JSON compliant"):
        update_run(run, error=float("nan"))
    assert (run / "run.json").read_text() == before
    end_run(run, "failed", "because")
    assert (read_run(run).state, read_run(run).error) == ("failed", "because")
    assert [path.name for path in run.iterdir()] == ["run.json"], "nothing is left beside it"


def test_a_record_that_cannot_be_written_leaves_the_old_one(tmp_path: Path) -> None:
    blocked = tmp_path / "run.json"
    blocked.mkdir()
    with pytest.raises(OSError, match="directory"):
        write_json(blocked, {"schema": 1})
    assert [path.name for path in tmp_path.iterdir()] == ["run.json"]


def test_a_study_is_read_back_as_it_was_asked(tmp_path: Path) -> None:
    study = study_of(training("fake", sweep={"precision": ["fp32", "bf16"]}))
    folder = create_study(tmp_path, study)
    assert read_study(folder) == study
    (folder / "study.json").write_text('{"asked": {"workload": 3}}')
    with pytest.raises(BadInput, match="is not a study record"):
        read_study(folder)


def test_rows_of_each_lens_go_to_their_own_file(tmp_path: Path) -> None:
    for data, name in ((training("fake"), "steps.arrows"), (inference("fake"), "requests.arrows")):
        spec = spec_of(data)
        folder = create_run(tmp_path, spec)
        open_rows(folder, spec).close()
        assert (folder / name).exists()


def test_a_file_given_as_a_run_is_called_a_file(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text("{}")
    with pytest.raises(BadInput, match=r"run.json' is a file, and a run is a folder") as raised:
        find_runs(tmp_path / "run.json")
    assert raised.value.code == "TL205"


def test_rows_that_were_let_go_are_read_again_and_are_the_same(tmp_path: Path) -> None:
    for data, name in ((training("fake"), "steps"), (inference("fake"), "requests")):
        run = measured(tmp_path / name, data)
        run.forget_rows()  # before anything was read, too
        first, table = getattr(run, name), run.table
        run.forget_rows()
        assert not {"table", name} & set(vars(run))
        again = getattr(run, name)
        assert again is not first
        assert again.end_ns.tolist() == first.end_ns.tolist()
        assert run.table.equals(table)
