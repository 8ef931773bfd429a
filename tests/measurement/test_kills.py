"""Real kills at random instants: the same command goes on in the same folder, and no finished run is measured again."""

from __future__ import annotations

import fcntl
import json
import os
import random
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path
from typing import Any

import psutil
import pytest
from test_measure_study import SLOW, begun, heard, waited

from material import command, study_of, training
from twinlens.errors import BadInput, Interrupted
from twinlens.measurement.study import measure_study
from twinlens.measurement.study_folder import is_held
from twinlens.measurement.worker_process import raise_for
from twinlens.record.store import (
    create_run,
    create_study,
    end_study,
    find_runs,
    is_ended,
    read_run,
    update_run,
)
from twinlens.spec.load import dump
from twinlens.system.processes import is_gone, this_process

KILLS = int(os.environ.get("TWINLENS_KILLS", "6"))
SEED = int(os.environ.get("TWINLENS_SEED", "8"))
SIGNALS = (signal.SIGKILL, signal.SIGKILL, signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
SHORT: dict[str, Any] = {
    "options": {"pace": 1, "step_s": 0.02},
    "protocol": {"isolate": True, "repeats": 2, "retakes": 0, "duration_s": 0.2, "min_rows": 1},
}


ONE_REPEAT = SHORT | {"protocol": SHORT["protocol"] | {"repeats": 1}}

PAIRED: dict[str, Any] = {
    "options": {"pace": 1, "step_s": 0.02},
    "sweep": {"precision": ["fp32", "bf16"]},
    "protocol": SHORT["protocol"] | {"pairing": "slices", "duration_s": 1.0, "slice_s": 0.25},
}


def started(spec: Path, out: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command("measure", spec, "--out", out, "-q"),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True, preexec_fn=heard,
    )  # fmt: skip


def finished_runs(out: Path) -> Counter[str]:
    """How often each run of a study was finished; of those by turns only where all of a repeat were."""
    records = [json.loads(path.read_text()) for path in out.glob("*/*/run.json")]
    ended = [one for one in records if one["state"] == "finished"]
    together = Counter(one["pairing"]["id"] for one in ended if "pairing" in one)
    whole = [one for one in ended if "pairing" not in one or together[one["pairing"]["id"]] == one["pairing"]["points"]]
    return Counter(one["fingerprint"] for one in whole)


def workers_of(out: Path) -> list[int]:
    found = []
    for process in psutil.process_iter(["cmdline"]):
        words = process.info["cmdline"] or []
        if "twinlens.measurement.worker" in words and any(str(out) in word for word in words):
            found.append(process.pid)
    return found


def worker_at_work(out: Path) -> int | None:
    """A worker that says in its run's record that it measures it."""
    return next((pid for pid in measuring(out) if pid in workers_of(out)), None)


def measuring(out: Path) -> list[int]:
    """The processes that say of themselves that they measure a run."""
    return [json.loads(path.read_text())["pid"] for path in out.glob("*/*/run.json")]


@pytest.mark.slow
@pytest.mark.parametrize(("asked", "runs"), [(SHORT, 2), (PAIRED, 4)], ids=["one by one", "by turns"])
def test_kills_at_any_moment_lose_no_finished_run_and_leave_one_folder(
    tmp_path: Path, asked: dict[str, Any], runs: int
) -> None:
    chance, spec = random.Random(SEED), tmp_path / "short.toml"
    spec.write_text(dump(study_of(training("fake", **asked))))
    begin_s = time.monotonic()
    assert started(spec, tmp_path / "whole").wait(120) == 0
    whole_s = time.monotonic() - begin_s
    out, rounds = tmp_path / "out0", 0
    for _ in range(KILLS):
        before = finished_runs(out)
        process, number = started(spec, out), chance.choice(SIGNALS)
        try:
            process.wait(chance.uniform(0, 1.1 * whole_s))
        except subprocess.TimeoutExpired:
            (os.killpg if chance.random() < 0.5 else os.kill)(process.pid, number)
        _, said = process.communicate(timeout=180)
        if "Traceback" in said:
            assert "site-packages" in said or "<frozen" in said, said  # before the first line of ours
        assert len([place for place in out.glob("*") if place.is_dir()]) <= 1, "a second study folder"
        assert not before - finished_runs(out), "a finished run is kept"
        assert set(finished_runs(out).values()) <= {1}, "a run was measured twice"
        if any(map(is_ended, out.iterdir() if out.exists() else ())):  # it was shown: the next command measures another
            assert sum(finished_runs(out).values()) == runs
            rounds += 1
            out = tmp_path / f"out{rounds}"
    last = started(spec, out)
    assert last.wait(120) == 0, last.communicate()
    assert sorted(finished_runs(out).values()) == [1] * runs
    assert {run.state for run in find_runs(out)} <= {"finished", "interrupted"}
    waited(lambda: not workers_of(tmp_path))
    assert not list(tmp_path.glob("*/.*")), "nothing half made"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_request_to_stop_is_what_an_interrupt_is(tmp_path: Path, number: signal.Signals) -> None:
    process, folder, _ = begun(tmp_path / "out", training("fake", **SLOW))
    os.kill(process.pid, number)
    printed, said = process.communicate(timeout=120)
    assert process.returncode == 130
    assert printed == ""
    assert said == f"twinlens: interrupted; what was measured is kept in {folder.parent}; run it again to go on " \
        "(twinlens explain TL130)\n"  # fmt: skip
    assert json.loads((folder / "run.json").read_text())["state"] == "interrupted"


def test_a_run_outlives_the_terminal_when_it_was_asked_to(tmp_path: Path) -> None:
    """nohup: a signal that is ignored when a command starts stays so."""
    spec = tmp_path / "short.toml"
    spec.write_text(dump(study_of(training("fake", **ONE_REPEAT))))
    process = subprocess.Popen(
        ["nohup", *command("measure", spec, "--out", tmp_path / "out", "-q")],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    waited(lambda: list(tmp_path.glob("out/*/*/*.arrows")))
    os.killpg(process.pid, signal.SIGHUP)
    assert process.wait(60) == 0


def test_a_study_whose_last_moment_was_killed_is_shown_and_not_measured_again(tmp_path: Path) -> None:
    study = study_of(training("fake"))
    first = measure_study(study, tmp_path, shown=False)  # killed before its table was printed
    again = measure_study(study, tmp_path, shown=False)
    assert (again.folder, again.resumed, len(again.runs)) == (first.folder, 1, 1)
    end_study(again.folder)
    assert measure_study(study, tmp_path).folder != first.folder


def test_a_run_whose_process_is_gone_is_not_running(tmp_path: Path) -> None:
    process, folder, pid = begun(tmp_path / "out", training("fake", **SLOW))
    assert read_run(folder).state == "running"
    os.kill(pid, signal.SIGSTOP)  # it cannot write down that it ends
    process.kill()
    process.wait()
    os.kill(pid, signal.SIGKILL)
    waited(lambda: read_run(folder).state == "interrupted")
    assert json.loads((folder / "run.json").read_text())["state"] == "running", "reading changes nothing"


def test_of_a_process_elsewhere_nothing_is_said() -> None:
    mine = this_process()
    assert not is_gone(mine)
    assert is_gone(mine | {"start_ticks": 1}), "a number that was used again"
    assert is_gone(mine | {"boot": "another"})
    assert not is_gone(mine | {"host": "another", "pid": 2**30})
    for nothing in (None, 3, {}, {"pid": "x"}, mine | {"pid": None}):
        assert not is_gone(nothing)


def test_going_on_clears_up_after_a_kill(tmp_path: Path) -> None:
    """What a kill leaves: a run folder without its record, one half written, and one whose process is gone."""
    study = study_of(training("fake"))
    folder = create_study(tmp_path, study)
    half = folder / "2026-01-01T000000Z_small_fp32_r0_0000"
    half.mkdir()
    (half / ".run.json.77").write_text("{")
    dead = create_run(folder, study.runs()[0])
    update_run(dead, process=this_process() | {"start_ticks": 1}, pid=1)
    outcome = measure_study(study, tmp_path)
    assert outcome.folder == folder
    assert not half.exists()
    record = json.loads((dead / "run.json").read_text())
    assert (record["state"], record["error"]) == ("interrupted", "its process was killed")


def test_two_commands_cannot_measure_into_one_folder(tmp_path: Path) -> None:
    out = tmp_path / "out"
    process, folder, _ = begun(out, training("fake", **SLOW))
    other = started(out / "slow.toml", out)
    printed, said = other.communicate(timeout=180)
    assert (other.returncode, printed) == (2, "")
    assert said == (
        f"twinlens: another twinlens (process {process.pid}) is measuring {folder.parent}; wait for it, or measure "
        "beside it with --fresh or another --out (twinlens explain TL221)\n"
    )
    assert read_run(folder).state == "running"
    process.kill()
    process.wait()
    assert not is_held(folder.parent), "death lets go"


def test_two_commands_that_begin_at_once_make_one_folder(tmp_path: Path) -> None:
    spec, out = tmp_path / "short.toml", tmp_path / "out"
    spec.write_text(dump(study_of(training("fake", **ONE_REPEAT))))
    both = [started(spec, out) for _ in range(2)]
    ends = sorted((process.wait(120), process.communicate()[1]) for process in both)
    assert [code for code, _ in ends] in ([0, 2], [0, 0])  # the slower one may come when all is over
    assert set(finished_runs(out).values()) == {1}
    for code, said in ends:
        assert ("is measuring" in said) is (code == 2)


def test_a_folder_that_is_held_is_refused_in_python_too(tmp_path: Path) -> None:
    study = study_of(training("fake"))
    folder = create_study(tmp_path, study)
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        with pytest.raises(BadInput, match=r"another twinlens .* is measuring") as refused:
            measure_study(study, tmp_path)
        assert refused.value.code == "TL221"
        assert measure_study(study, tmp_path, fresh=True).folder != folder
    finally:
        os.close(handle)


@pytest.mark.parametrize("code", [130, -signal.SIGINT])
def test_a_worker_that_is_interrupted_before_it_says_a_word_interrupts_the_study(code: int, tmp_path: Path) -> None:
    run = create_run(tmp_path, study_of(training("fake")).runs()[0])
    with pytest.raises(Interrupted, match="run it again to go on"):
        raise_for(code, {}, run)
    assert read_run(run).state == "interrupted"


@pytest.mark.parametrize("asked", [SHORT, PAIRED], ids=["one by one", "by turns"])
def test_the_same_command_goes_on_after_its_worker_alone_was_interrupted(asked: dict[str, Any], tmp_path: Path) -> None:
    spec, out = tmp_path / "spec.toml", tmp_path / "runs"
    protocol = asked["protocol"] | {"repeats": 1, "duration_s": 1.0}
    spec.write_text(dump(study_of(training("fake", **asked | {"protocol": protocol}))), encoding="utf-8")
    process = started(spec, out)
    os.kill(waited(lambda: worker_at_work(out)), signal.SIGINT)
    process.communicate(timeout=180)
    assert process.returncode == 130
    again = started(spec, out)
    again.communicate(timeout=180)
    assert again.returncode == 0
    assert len(list(out.glob("*/study.json"))) == 1, "no second study"
