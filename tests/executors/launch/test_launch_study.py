"""Launched servers in studies: shared by the runs of a repeat, replaced when they die, and never left behind."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import psutil
import pytest
from test_launch_process import lives, waited

from material import command, fixed, inference, measured, run_json, study_of
from twinlens.errors import BadInput, ExecutorFailed, Interrupted
from twinlens.measurement.event import Event
from twinlens.measurement.server.shared import shared_server, together
from twinlens.measurement.study import measure_one, measure_study
from twinlens.record.codec import decode
from twinlens.record.run import Run
from twinlens.record.sections import Running
from twinlens.record.store import find_runs
from twinlens.spec.load import dump
from twinlens.spec.study import Study
from twinlens.system.processes import is_alive


def served(model: Path, **parts: Any) -> dict[str, Any]:
    """Batches against a small server, one after the other for a third of a second."""
    asked: dict[str, Any] = {"input_tokens": fixed(8), "output_tokens": fixed(3), "fidelity_prompts": 0}
    asked["protocol"] = {"duration_s": 0.3, "min_rows": 1} | parts.pop("protocol", {})
    return inference("small-server", str(model), **(asked | parts))


def loaded(model: Path, **parts: Any) -> dict[str, Any]:
    """Twenty requests a second, whatever becomes of those before."""
    arrival = {"arrival": {"kind": "constant"}, "point": {"rate_per_s": 20.0}, "protocol": {"duration_s": 1.0}}
    return served(model, **(arrival | parts))


def two_points(model: Path, **parts: Any) -> Study:
    return study_of(served(model, sweep={"batch": [1, 2]}, **parts))


def servers(runs: tuple[Run, ...]) -> list[Running]:
    return [decode(Running, run_json(run)["server"]) for run in sorted(runs, key=lambda run: run.id)]


def test_a_run_launches_its_own_server_and_writes_down_who_it_was(tmp_path: Path, small_server: Path) -> None:
    run = measured(tmp_path, served(small_server))
    (server,) = servers((run,))
    assert run.is_finished
    assert set(run.table["outcome"].to_pylist()) == {"ok"}
    assert not lives(server.pid)
    assert run.telemetry.num_rows > 0
    assert (run.folder / "server.log").read_text().startswith("the small server starts")
    assert server.process["command"] == list(server.command)
    assert server.process["resident_bytes"] > 1e6
    assert server.environment["OMP_NUM_THREADS"] == "1"
    assert server.ready_s > 0
    assert run.facts is not None
    executor = run.facts.executor
    assert executor.facts["software.runtime.version"].source == "importlib.metadata of the server's Python"
    assert executor.value("serving.max_sequences") == 7
    assert executor.value("model.id") == str(small_server)
    assert executor.value("host.cpu.model"), "it ran on this machine, whose facts are its own"
    assert executor.facts["software.environment"].capture == "observed"
    assert executor.value("software.framework.threads") == 1
    assert {check.verdict for check in run.facts.precision} == {"differs", "unknown"}, "fp32 asked, bf16 said"


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="only Linux keeps a process to processors")
def test_a_server_that_is_kept_to_a_processor_is_recorded_with_it(tmp_path: Path, small_server: Path) -> None:
    usable = os.sched_getaffinity(0)
    asked = served(small_server)
    asked["executor"]["options"] = {"cpus": [min(usable)]}
    run = measured(tmp_path, asked)
    assert run.is_finished
    assert run.facts is not None
    executor = run.facts.executor
    assert executor.value("software.affinity") == [min(usable)]
    assert executor.value("host.cpu.usable_threads") == 1, "the server's, not its client's"
    assert os.sched_getaffinity(0) == usable


def test_the_runs_of_a_repeat_share_a_server_and_repeats_do_not(tmp_path: Path, small_server: Path) -> None:
    phrases: list[str] = []
    study = two_points(small_server, protocol={"repeats": 2, "isolate": True})
    outcome = measure_study(study, tmp_path / "out", lambda event: phrases.append(event.phrase))
    assert not outcome.failures
    assert [run.spec.repeat for run in sorted(outcome.runs, key=lambda run: run.id)] == [0, 0, 1, 1]
    ids = [server.id for server in servers(outcome.runs)]
    assert ids[0] == ids[1] != ids[2] == ids[3]
    assert phrases.count("starting the small server") == 2
    assert len(list((outcome.folder / "servers").glob("*.log"))) == 2
    assert not [server for server in servers(outcome.runs) if lives(server.pid)]


def test_a_server_that_dies_fails_its_run_and_loses_no_row(tmp_path: Path, small_server: Path) -> None:
    outcome = measure_study(study_of(loaded(small_server, options={"args": ["mortal"]})), tmp_path / "out")
    assert [failure.code for failure in outcome.failures] == ["TL305"]
    (run,) = outcome.runs
    assert run.state == "failed"
    assert "RuntimeError: the small server has had enough; its log is" in (run.error or "")
    outcomes = run.table["outcome"].to_pylist()
    assert len(outcomes) == 20, "one row for everything that was due"
    assert 5 <= outcomes.count("ok") <= 11, "eleven answers after the client's own question, less what was cut short"
    assert set(outcomes) <= {"ok", "refused", "failed"}


def test_a_server_that_ends_at_its_first_request_fails_its_run_and_not_the_study(
    tmp_path: Path, small_server: Path
) -> None:
    outcome = measure_study(study_of(served(small_server, options={"args": ["frail"]})), tmp_path / "out")
    (failure,) = outcome.failures
    assert failure.code == "TL303"
    assert "ended with code 1 at its first requests: RuntimeError: the small server has had enough" in str(failure)


def test_a_server_that_does_not_come_up_fails_its_runs_in_one_sentence_each(tmp_path: Path, small_server: Path) -> None:
    outcome = measure_study(two_points(small_server, options={"args": ["error"]}), tmp_path / "out")
    assert [failure.code for failure in outcome.failures] == ["TL303", "TL303"]
    for run in outcome.runs:
        assert run.state == "failed"
        assert "RuntimeError: no weights here" in (run.error or "")
    assert len(outcome.runs) == 2
    assert len(list((outcome.folder / "servers").glob("*.log"))) == 1, "the second did not try again"


def test_measure_one_takes_a_server_from_outside(tmp_path: Path, small_server: Path) -> None:
    spec = study_of(served(small_server)).runs()[0]
    with shared_server(tmp_path) as shared:
        server = shared.of(spec, lambda phrase: None)
        assert server is not None
        runs = [measure_one(tmp_path, spec, lambda phrase, share, rows: None, server) for _ in range(2)]
        assert is_alive(server.pid, server.born_s)
        assert shared.of(spec, lambda phrase: None) == server
    assert not is_alive(server.pid, server.born_s)
    assert {run_json(run)["server"]["id"] for run in find_runs(tmp_path)} == {server.id}
    assert len(set(runs)) == 2


def test_a_server_that_died_between_runs_is_replaced(tmp_path: Path, small_server: Path) -> None:
    spec = study_of(served(small_server)).runs()[0]
    with shared_server(tmp_path) as shared:
        first = shared.of(spec, lambda phrase: None)
        assert first is not None
        os.kill(first.pid, signal.SIGKILL)
        waited(lambda: not lives(first.pid))
        second = shared.of(spec, lambda phrase: None)
        assert second is not None
        assert second.id != first.id


def test_runs_that_share_a_server_are_put_together_within_their_repeat(small_server: Path) -> None:
    sweep = {"batch": [1, 2, 3], "executor.threads": [1, 2]}
    planned = study_of(served(small_server, sweep=sweep, protocol={"repeats": 3})).runs()
    ordered = together(planned)
    assert sorted(spec.fingerprint() for spec in ordered) == sorted(spec.fingerprint() for spec in planned)
    assert [spec.repeat for spec in ordered] == [0] * 6 + [1] * 6 + [2] * 6
    for start in range(0, 18, 3):
        assert len({spec.executor.threads for spec in ordered[start : start + 3]}) == 1
    plain = study_of(inference("fake", sweep={"precision": ["fp32", "bf16"]}, protocol={"repeats": 3})).runs()
    assert together(plain) == plain


def test_an_executor_that_starts_no_server_is_handed_none(tmp_path: Path) -> None:
    with shared_server(tmp_path) as shared:
        assert shared.of(study_of(inference("fake")).runs()[0], lambda phrase: None) is None


def test_a_runtime_that_is_not_installed_is_said_before_anything_starts(tmp_path: Path) -> None:
    data = inference("sglang", "tiny", arrival={"kind": "closed"}, point={"concurrency": 1, "precision": "bf16"})
    with pytest.raises(BadInput, match="has no sglang, which sglang needs") as caught:
        measure_study(study_of(data), tmp_path)
    assert caught.value.code == "TL217"


@pytest.mark.parametrize("kind", ["vit-tiny", "no-tokenizer"])
def test_a_model_that_cannot_be_served_is_said(tmp_path: Path, small_server: Path, kind: str) -> None:
    (small_server / "tokenizer.json").unlink()
    model = {"vit-tiny": "vit-tiny", "no-tokenizer": str(small_server)}[kind]
    data = served(small_server)
    data["workload"]["model"] = model
    with pytest.raises(BadInput, match=r"no language model|no tokenizer"):
        measure_study(study_of(data), tmp_path / "out")


def test_an_interrupt_while_a_server_starts_is_an_interrupted_study(tmp_path: Path, small_server: Path) -> None:
    def stop(event: Event) -> None:
        raise KeyboardInterrupt

    with pytest.raises(Interrupted, match="run it again to go on"):
        measure_study(two_points(small_server), tmp_path / "out", stop)
    assert not [child for child in psutil.Process().children(recursive=True) if "small_server" in str(child.cmdline())]


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_a_study_that_is_ended_in_mid_run_leaves_no_server(
    tmp_path: Path, small_server: Path, number: signal.Signals
) -> None:
    study = study_of(served(small_server, protocol={"duration_s": 60.0, "isolate": True}))
    (tmp_path / "long.toml").write_text(dump(study))
    words = command("measure", tmp_path / "long.toml", "--out", tmp_path / "out", "-q")
    with subprocess.Popen(words, stderr=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True) as process:
        waited(lambda: bool(list((tmp_path / "out").glob("*/*/*.arrows"))))
        (run,) = find_runs(tmp_path / "out")
        (server,) = servers((run,))
        assert lives(server.pid)
        process.send_signal(number)
        process.communicate(timeout=30)
    waited(lambda: not lives(server.pid))
    waited(lambda: not lives(run_json(run)["pid"]))


def test_a_run_whose_server_cannot_answer_is_an_executor_failure(tmp_path: Path, small_server: Path) -> None:
    data = served(small_server, options={"args": ["never"], "start_timeout_s": 0.3})
    with pytest.raises(ExecutorFailed, match=r"not ready after 0\.3 s") as caught:
        measured(tmp_path, data)
    assert caught.value.code == "TL304"
