"""Studies with real worker processes and known laws: kills, interrupts, failures, and what is left of them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from material import command, for_rows, inference, measured, study_of, training
from twinlens.errors import BadInput, Interrupted
from twinlens.measurement.event import Event
from twinlens.measurement.study import measure_study, unfinished_study
from twinlens.measurement.summary_file import summary_of
from twinlens.record.store import find_runs, read_run
from twinlens.reporting.view import refusals
from twinlens.spec.load import dump
from twinlens.stats.summary.group import group

ISOLATED = {"isolate": True}
SLOW: dict[str, Any] = {"options": {"pace": 1, "step_s": 0.02}, "protocol": {"isolate": True, "duration_s": 60.0}}


def waited(true: Callable[[], Any], limit_s: float = 180.0) -> Any:
    """Poll a real process; it has no virtual clock."""
    deadline = time.monotonic() + limit_s
    while not (found := true()):
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)
    return found


def heard() -> None:
    """Let a new process hear what ends it, though the tests themselves may run under nohup or in the background."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def begun(out: Path, data: dict[str, Any]) -> tuple[subprocess.Popen[str], Path, int]:
    """`twinlens measure` in its own process group, as a terminal starts it, with rows on disk: process, run, worker."""
    spec = out / "slow.toml"
    out.mkdir(exist_ok=True)
    spec.write_text(dump(study_of(data)))
    process = subprocess.Popen(
        command("measure", spec, "--out", out, "-q"),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True, preexec_fn=heard,
    )  # fmt: skip
    run = waited(lambda: next((p.parent for p in out.glob("*/*/*.arrows") if rows_of(p.parent)), None))
    return process, run, json.loads((run / "run.json").read_text())["pid"]


def rows_of(folder: Path) -> int:
    try:
        return read_run(folder).table.num_rows
    except BadInput:
        return 0


@pytest.mark.parametrize("lens", [training, inference])
def test_a_killed_worker_leaves_a_readable_unfinished_run(tmp_path: Path, lens: Any) -> None:
    process, folder, pid = begun(tmp_path / "out", lens("fake", **SLOW))
    seen = rows_of(folder)
    os.kill(pid, signal.SIGKILL)
    _, said = process.communicate(timeout=180)
    assert process.returncode == 3
    assert "killed by signal 9 (SIGKILL)" in said
    assert said.strip().splitlines()[0] == f"runs: {folder.parent}"
    assert len(said.strip().splitlines()) == 2
    run = read_run(folder)
    assert not run.is_finished
    assert run.table.num_rows >= seen > 0
    summary = summary_of(run)
    assert summary.rows == run.table.num_rows
    assert summary.state != "finished"


def test_a_killed_study_takes_its_worker_along_and_keeps_its_rows(tmp_path: Path) -> None:
    process, folder, pid = begun(tmp_path / "out", training("fake", **SLOW))
    process.kill()
    process.wait()
    waited(lambda: not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)
    run = read_run(folder)
    assert run.state == "interrupted"
    assert run.table.num_rows > 0


@pytest.mark.parametrize("group", [True, False], ids=["from the terminal", "from another process"])
def test_an_interrupted_study_keeps_what_it_has_and_goes_on_later(tmp_path: Path, group: bool) -> None:
    out = tmp_path / "out"
    slow = SLOW | {"protocol": SLOW["protocol"] | {"repeats": 2}}
    process, folder, _ = begun(out, training("fake", **slow))
    (os.killpg if group else os.kill)(process.pid, signal.SIGINT)
    printed, said = process.communicate(timeout=180)
    assert process.returncode == 130
    assert "interrupted" in said
    assert len(said.strip().splitlines()) == 1
    assert printed == ""
    run = read_run(folder)
    assert (run.state, run.error) == ("interrupted", "interrupted by the user")
    assert run.table.num_rows > 0
    assert unfinished_study(study_of(training("fake", **slow)), out) == folder.parent


class Stop:
    """Interrupts a study when its n-th run begins."""

    def __init__(self, number: int) -> None:
        self.number, self.begun = number, set[tuple[str, int]]()

    def __call__(self, event: Event) -> None:
        self.begun.add((event.run.point.precision, event.run.repeat))
        if event.number == self.number:
            raise KeyboardInterrupt


def test_a_study_that_is_gone_on_with_repeats_nothing(tmp_path: Path) -> None:
    study = study_of(training("fake", sweep={"precision": ["fp32", "bf16"]}, protocol={"repeats": 2}))
    first = Stop(3)
    with pytest.raises(Interrupted, match="what was measured is kept"):
        measure_study(study, tmp_path, first)
    finished = [run for run in find_runs(tmp_path) if run.is_finished]
    assert len(finished) == 2
    before = {run.id: (run.folder / "steps.arrows").stat().st_mtime_ns for run in finished}
    second = Stop(0)
    outcome = measure_study(study, tmp_path, second)
    assert outcome.resumed == 2
    assert len(second.begun) == 2
    assert not second.begun & {(run.spec.point.precision, run.spec.repeat) for run in finished}
    assert {run.id: (run.folder / "steps.arrows").stat().st_mtime_ns for run in finished} == before
    done = [run.spec.fingerprint() for run in outcome.runs if run.is_finished]
    assert sorted(done) == sorted(run.fingerprint() for run in study.runs())
    third = Stop(0)
    again = measure_study(study, tmp_path, third)
    assert again.folder != outcome.folder, "a complete study asked for again is measured again"
    assert len(third.begun) == 4


def test_another_spec_is_another_study(tmp_path: Path) -> None:
    study = study_of(training("fake"))
    with pytest.raises(Interrupted):
        measure_study(study, tmp_path, Stop(1))
    assert unfinished_study(study, tmp_path) is not None
    assert unfinished_study(study_of(training("fake", learning_rate=0.5)), tmp_path) is None
    fresh = measure_study(study, tmp_path, fresh=True)
    assert fresh.resumed == 0
    assert len(fresh.runs) == 1


def test_a_broken_neighbour_does_not_stop_a_study(tmp_path: Path) -> None:
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "study.json").write_text("{")
    assert unfinished_study(study_of(training("fake")), tmp_path) is None
    assert len(measure_study(study_of(training("fake")), tmp_path).runs) == 1


@pytest.mark.parametrize(("isolate", "repeats"), [(True, 1), (False, 2)])
def test_a_run_that_fails_is_kept_and_the_others_go_on(tmp_path: Path, isolate: bool, repeats: int) -> None:
    sweep = {"executor.options.fail_at": [3, 10**6], "precision": ["fp32"]}
    protocol = {"isolate": isolate, "repeats": repeats}
    outcome = measure_study(study_of(training("fake", sweep=sweep, protocol=protocol)), tmp_path)
    states = sorted((run.state, run.table.num_rows) for run in outcome.runs)
    assert states == [("failed", 3)] * repeats + [("finished", 5)] * repeats
    assert len(outcome.failures) == repeats
    assert "fails at row 3, as asked" in str(outcome.failures[0])
    failed = next(run for run in outcome.runs if run.state == "failed")
    assert failed.error == "the fake executor fails at row 3, as asked"


def test_a_spec_that_cannot_run_stops_before_anything_is_measured(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="does not fit"):
        measure_study(study_of(training("torch", model="llama-3.1-70b")), tmp_path)
    assert not list(tmp_path.iterdir())


def test_the_worker_says_bad_input_as_bad_input(tmp_path: Path) -> None:
    recorded = measured(tmp_path / "recorded", inference("fake"))
    data = training("replay", options={"run": str(recorded.folder)}, protocol=ISOLATED)
    with pytest.raises(BadInput, match="cannot be replayed as training") as caught:
        measure_study(study_of(data), tmp_path / "out")
    assert caught.value.code == "TL207"
    (run,) = find_runs(tmp_path / "out")
    assert run.state == "failed"


TURNS = ISOLATED | {"pairing": "slices", "slice_s": 0.5, "duration_s": 1.0}
"""Four processes, each of which loads torch for 7 s."""


@pytest.mark.torch
@pytest.mark.parametrize("protocol", [{}, pytest.param(TURNS, marks=pytest.mark.slow)], ids=["none", "slices"])
def test_a_precision_the_device_lacks_is_on_record_and_the_study_goes_on_once(
    tmp_path: Path, protocol: dict[str, Any]
) -> None:
    sweep = {"precision": ["fp8", "fp32"]}
    protocol = protocol | {"repeats": 2}
    study = study_of(training("torch", sweep=sweep, executor={"device": "cpu"}, protocol=protocol))
    outcome = measure_study(study, tmp_path)
    assert not outcome.failures
    finished = [run for run in outcome.runs if run.state == "finished"]
    assert [run.spec.point.precision for run in finished] == ["fp32", "fp32"]
    (sentence,) = refusals(outcome.runs)
    assert sentence.startswith("not measured: precision 'fp8' needs an NVIDIA GPU")
    assert unfinished_study(study, tmp_path) is None, "it is done with, not owed for ever"


@pytest.mark.torch
def test_a_study_of_which_nothing_can_be_had_is_bad_input(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="needs an NVIDIA GPU") as refused:
        measure_study(study_of(training("torch", point={"precision": "fp8"})), tmp_path)
    assert refused.value.code == "TL203"


def test_runs_are_interleaved_and_each_repeat_is_in_an_order_of_its_own(tmp_path: Path) -> None:
    order: list[tuple[str, int]] = []

    def watch(event: Event) -> None:
        key = (event.run.point.precision, event.run.repeat)
        if not order or order[-1] != key:
            order.append(key)

    sweep = {"precision": ["fp32", "bf16", "fp16"]}
    study = study_of(training("fake", sweep=sweep, protocol={"repeats": 4}))
    measure_study(study, tmp_path, watch)
    assert [repeat for _, repeat in order] == [0] * 3 + [1] * 3 + [2] * 3 + [3] * 3
    rounds = [tuple(name for name, _ in order[i : i + 3]) for i in range(0, 12, 3)]
    assert all(set(one) == {"fp32", "bf16", "fp16"} for one in rounds)
    assert len(set(rounds)) > 1
    assert order == [(run.point.precision, run.repeat) for run in study.runs()]


def test_progress_only_grows_and_ends_at_the_whole(tmp_path: Path) -> None:
    seen: list[Event] = []
    data = training("fake", options={"pace": 1, "step_s": 0.03}, protocol=ISOLATED | {"duration_s": 0.8})
    outcome = measure_study(study_of(data), tmp_path, seen.append)
    shares = [event.share for event in seen]
    assert shares == sorted(shares)
    assert 0 < shares[-1] <= 1
    assert seen[-1].rows <= outcome.runs[0].table.num_rows


def test_repeats_have_seeds_of_their_own(tmp_path: Path) -> None:
    noisy = {"noise": 0.1}
    outcome = measure_study(study_of(training("fake", options=noisy, protocol={"repeats": 2})), tmp_path)
    first, second = (run.steps.end_ns.tolist() for run in outcome.runs)
    assert first != second


def test_a_resumed_study_ranks_by_its_finished_runs(tmp_path: Path) -> None:
    """The half of a run that was interrupted is kept, but what replaced it is what counts."""
    study = study_of(training("fake", protocol={"repeats": 2} | for_rows(60)))

    def stop_in_the_middle(event: Event) -> None:
        if event.number == 2 and event.rows:
            raise KeyboardInterrupt

    with pytest.raises(Interrupted):
        measure_study(study, tmp_path, stop_in_the_middle)
    outcome = measure_study(study, tmp_path)
    assert [run.state for run in outcome.runs].count("interrupted") == 1
    (one,) = group(summary_of(run) for run in outcome.runs)
    assert one.ranked
    assert one.label == "flat"
