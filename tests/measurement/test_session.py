"""One run in this process: what it writes however it ends, and what its label says of a machine with known laws."""

from __future__ import annotations

import errno
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from material import IMAGES, command, fixed, inference, measured, run_json, spec_of, study_of, training
from twinlens.errors import BadInput, ExecutorFailed, Interrupted
from twinlens.measurement.session import run_here
from twinlens.measurement.summary_file import store_summary, summary_of
from twinlens.record.run import Run
from twinlens.record.store import create_run, find_runs, read_run
from twinlens.spec.load import dump
from twinlens.stats.summary.group import Summary

LONG = {"duration_s": 60.0, "min_rows": 300}


def fake(parent: Path, make: Any = training, **laws: Any) -> tuple[Run, Summary]:
    """A run of the fake executor in virtual time, and what its rows come to."""
    run = measured(parent, make("fake", options=laws, protocol=LONG))
    return run, summary_of(run)


@pytest.mark.parametrize("make", [training, inference])
def test_a_steady_machine_is_called_steady_and_measured_exactly(tmp_path: Path, make: Any) -> None:
    _, summary = fake(tmp_path, make, step_s=0.1, a_s=0.02, b_s=0.0, c_s=0.01, d_s=0.0)
    assert (summary.verdict.label, summary.verdict.validity) == ("flat", "valid")
    found = {name: estimate.value for name, estimate in summary.metrics.items()}
    if make is training:
        assert found["training_tokens_per_s"] == pytest.approx(4 * 32 / 0.1)
        assert found["step_s_p50"] == pytest.approx(0.1)
        shares = [found[f"{phase}_share"] for phase in ("data", "forward", "backward", "optimize")]
        assert shares == pytest.approx([0.05, 0.30, 0.55, 0.10])
    else:
        assert found["ttft_s_p50"] == pytest.approx(0.02)
        assert found["tpot_s_p50"] == pytest.approx(0.01)
        assert found["output_tokens_per_s"] == pytest.approx(6 / (0.02 + 5 * 0.01))
        assert found["requests_per_s"] == pytest.approx(1 / 0.07)


@pytest.mark.parametrize(
    ("laws", "label", "validity"),
    [
        ({"noise": 0.02}, "flat", "valid"),
        ({"noise": 0.02, "warmup_steps": 40}, "warm-up", "valid"),
        ({"noise": 0.01, "drift": 0.3}, "drift", "not valid"),
        ({"noise": 0.01, "throttle_at": 250, "throttle_factor": 1.3}, "slowdown", "not valid"),
        ({"noise": 0.01, "throttle_at": 500, "throttle_factor": 1.5}, "disturbed", "not valid"),
    ],
)
def test_what_a_machine_did_is_its_label(tmp_path: Path, laws: dict[str, Any], label: str, validity: str) -> None:
    run, summary = fake(tmp_path, **laws)
    assert (summary.verdict.label, summary.verdict.validity) == (label, validity), summary.verdict.reason
    assert run.state == "finished", "not being steady is an answer and no error"
    assert summary.metrics["training_tokens_per_s"].value, "it has its figures all the same"


def test_a_stall_stays_in_the_rate_and_shows_in_the_tail(tmp_path: Path) -> None:
    _, calm = fake(tmp_path, training, step_s=0.1)
    run, summary = fake(tmp_path, training, step_s=0.1, stall_at=300, stall_s=5.0)
    steps = summary.verdict.end_row - summary.verdict.begin_row
    assert steps == run.table.num_rows, "no row is dropped"
    seconds = steps * 0.1 + 5.0
    assert summary.metrics["training_tokens_per_s"].value == pytest.approx(steps * 128 / seconds)
    assert summary.metrics["training_tokens_per_s"].value < 0.95 * (calm.metrics["training_tokens_per_s"].value or 0)
    assert summary.metrics["step_s_p50"].value == pytest.approx(0.1)
    assert run.steps.end_ns[300] - run.steps.begin_ns[300] == pytest.approx(5.1e9)


def test_stalls_of_a_server_are_seen_by_its_slowest_answers(tmp_path: Path) -> None:
    run, summary = fake(tmp_path, inference, a_s=0.02, b_s=0.0, c_s=0.01, d_s=0.0, stall_at=500, stall_s=2.0)
    waits_s = (run.requests.first_chunk_ns() - run.requests.intended_ns) / 1e9
    assert np.sort(waits_s)[-2:].tolist() == pytest.approx([0.02, 2.02])
    assert summary.metrics["ttft_s_p50"].value == pytest.approx(0.02)
    assert summary.metrics["requests_per_s"].value < 1 / 0.07
    estimate = summary.metrics["ttft_s_p99"]
    assert estimate.high is None or estimate.high >= 0.02


def test_a_batch_is_one_observation_and_its_laws_hold(tmp_path: Path) -> None:
    laws = {"a_s": 0.01, "b_s": 0.001, "c_s": 0.01, "d_s": 0.004}
    run = measured(tmp_path, inference("fake", options=laws, point={"batch": 5}, protocol=LONG))
    found = {name: estimate.value for name, estimate in summary_of(run).metrics.items()}
    assert found["ttft_s_p50"] == pytest.approx(0.01 + 0.001 * 5 * 16)
    assert found["tpot_s_p50"] == pytest.approx(0.02)
    assert found["decode_tokens_per_s"] == pytest.approx(5 / 0.02)
    assert found["prefill_tokens_per_s"] == pytest.approx(5 * 16 / 0.09)
    assert summary_of(run).metrics["ttft_s_p50"].n == run.table.num_rows / 5


def test_images_are_counted_as_images(tmp_path: Path) -> None:
    for make, name in ((training, "training_images_per_s"), (inference, "inference_images_per_s")):
        found = summary_of(measured(tmp_path, make("fake", "vit-tiny", data=IMAGES, protocol=LONG))).metrics
        assert found[name].value
        assert not [metric for metric in found if "tokens" in metric]


def test_a_run_that_is_not_settled_is_doubled_as_often_as_allowed(tmp_path: Path) -> None:
    for make in (training, inference):
        for extend, most_s in ((0, 10), (1, 20), (2, 40)):
            protocol = {"duration_s": 10.0, "min_rows": 1, "extend": extend}
            if make is training:
                laws = {"drift": 50.0}
                run = measured(tmp_path, make("fake", options=laws, protocol=protocol))
                assert run.steps.end_ns[-1] / 1e9 == pytest.approx(most_s, rel=0.2)
            else:
                run = measured(tmp_path, make("fake", protocol=protocol | {"steady_s": 0.95 * most_s}))
                assert run.requests.end_ns[-1] / 1e9 == pytest.approx(most_s, rel=0.2)


def test_a_settled_run_is_not_made_longer(tmp_path: Path) -> None:
    run = measured(tmp_path, training("fake", protocol={"duration_s": 10.0, "extend": 3}))
    assert run.steps.end_ns[-1] / 1e9 == pytest.approx(10, abs=0.2)


@pytest.mark.parametrize(
    ("raised", "wanted", "state", "says"),
    [
        (KeyboardInterrupt(), Interrupted, "interrupted", "interrupted by the user"),
        (RuntimeError("a kernel\nfell over"), ExecutorFailed, "failed", "RuntimeError: a kernel"),
        (MemoryError(), ExecutorFailed, "failed", "out of memory"),
        (OSError(errno.EIO, "Input/output error"), ExecutorFailed, "failed", "Input/output"),
    ],
)
def test_however_an_executor_ends_it_is_closed_and_its_rows_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, raised: BaseException, wanted: Any, state: str, says: str
) -> None:
    from twinlens.executors.fake import FakeTrainer

    closed: list[bool] = []
    step = FakeTrainer.step

    def failing(self: FakeTrainer) -> Any:
        if self._laws.row == 4:
            raise raised
        return step(self)

    monkeypatch.setattr(FakeTrainer, "step", failing)
    monkeypatch.setattr(FakeTrainer, "close", lambda self: closed.append(True))
    spec = spec_of(training("fake"))
    folder = create_run(tmp_path, spec)
    with pytest.raises(wanted) as caught:
        run_here(folder, spec, lambda *_: None)
    assert "\n" not in str(caught.value)
    run = read_run(folder)
    assert run.state == state
    assert says in (run.error or "")
    assert run.table.num_rows == 4
    assert closed == [True]


def test_saving_weights_is_refused_by_who_cannot(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="cannot save weights"):
        measured(tmp_path, training("fake", save=True))


def test_the_record_names_the_machine_and_the_layer_that_measured(tmp_path: Path) -> None:
    run = measured(tmp_path, inference("fake", output_tokens=fixed(3)))
    assert run.facts is not None
    known = run.facts.executor
    assert known.value("host.cpu.model") or known.facts["host.cpu.model"].reason
    assert known.value("software.python.version") == ".".join(map(str, sys.version_info[:3]))
    for field, fact in known.facts.items():
        assert fact.value is not None or fact.reason, field
    assert run.facts.work["decode_flop"].origin == "modelled"
    assert run.telemetry.num_rows >= 1


def test_a_replay_says_nothing_of_the_machine_it_is_played_on(tmp_path: Path) -> None:
    recorded = measured(tmp_path, training("fake"))
    again = measured(tmp_path, training("replay", options={"run": str(recorded.folder)}))
    assert again.telemetry.num_rows == 0
    assert summary_of(again).metrics["peak_bytes"].value is None
    assert again.facts is not None
    assert recorded.facts is not None
    assert again.facts.executor == recorded.facts.executor


_FULL = """
import resource, signal, sys
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1_500_000, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
sys.argv = sys.argv[1:]
from twinlens.cli.main import main
main()
"""


def test_when_the_disk_takes_no_more_it_is_one_sentence_and_the_rows_are_kept(tmp_path: Path) -> None:
    spec = tmp_path / "long.toml"
    data = training("fake", options={"step_s": 0.001}, protocol={"duration_s": 3600.0, "isolate": True})
    spec.write_text(dump(study_of(data)))
    words = command("measure", spec, "--out", tmp_path / "out", "-q")[3:]
    done = subprocess.run(
        [sys.executable, "-c", _FULL, "twinlens", *words], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 3
    sentence = done.stderr.strip().splitlines()[-1]
    assert "cannot write" in sentence
    assert "rows are kept" in sentence
    assert "Traceback" not in done.stderr
    (run,) = find_runs(tmp_path / "out")
    assert run.state == "failed"
    assert run.table.num_rows > 100
    assert f"; {run.table.num_rows} rows are kept" in (run.error or "")


def test_reading_writes_no_summary_where_there_is_none(tmp_path: Path) -> None:
    run = measured(tmp_path, training("fake", options={"noise": 0.05}, protocol=LONG))
    path = run.folder / "summary.json"
    path.unlink(missing_ok=True)
    first = summary_of(run)
    assert not path.exists()
    assert store_summary(run) == first
    assert json.loads(path.read_text())["run"] == run.id
    assert summary_of(read_run(run.folder)) == first, "read from disk it is the same"
    path.unlink()
    assert summary_of(read_run(run.folder)) == first
    assert not path.exists(), "an archive stays as it is"


@pytest.mark.parametrize("content", ["", "{", "[]", '{"twinlens": "0.0.0"}', '{"schema": 99}', "null"])
def test_a_summary_that_is_broken_or_of_another_version_is_rebuilt(tmp_path: Path, content: str) -> None:
    run = measured(tmp_path, training("fake"))
    first = store_summary(run)
    path = run.folder / "summary.json"
    whole = path.read_text()
    path.write_text(content)
    assert summary_of(run) == first
    assert json.loads(path.read_text()) == json.loads(whole)


def test_a_run_without_rows_has_a_summary_that_says_so(tmp_path: Path) -> None:
    for make in (training, inference):
        folder = create_run(tmp_path, spec_of(make("fake")))
        summary = summary_of(read_run(folder))
        assert (summary.rows, summary.verdict.label, summary.verdict.validity) == (0, "too short", "not valid")
        assert not (folder / "summary.json").exists(), "it may still be running"


@pytest.mark.torch
@pytest.mark.parametrize("on", ["cuda", "cpu"])
def test_a_device_that_is_out_of_memory_is_one_sentence_with_a_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, on: str
) -> None:
    torch = pytest.importorskip("torch")
    from twinlens.executors.fake import FakeTrainer

    def full(*_: object) -> None:
        if on == "cuda":
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has a total " * 9)
        torch.empty(2**60, dtype=torch.uint8)

    monkeypatch.setattr(FakeTrainer, "open", full)
    spec = spec_of(training("fake"))
    folder = create_run(tmp_path, spec)
    with pytest.raises(ExecutorFailed, match="out of memory on the device; take a smaller model, batch") as failed:
        run_here(folder, spec, lambda phrase, share, rows: None)
    assert len(str(failed.value)) < 90 + len(str(folder))
    assert read_run(folder).state == "failed"


def test_what_the_allocator_gave_out_over_the_rows_is_on_record_and_is_the_peak(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from twinlens.executors.fake import FakeTrainer

    held = {"allocated_peak_bytes": 5 * 2**30, "reserved_peak_bytes": 6 * 2**30}
    monkeypatch.setattr(FakeTrainer, "device_memory", lambda self: held, raising=False)
    run = measured(tmp_path, training("fake"))
    assert run_json(run)["device_memory"] == held


@pytest.mark.parametrize("make", [training, inference])
def test_a_run_that_has_not_settled_is_doubled_and_says_so(tmp_path: Path, make: Any) -> None:
    protocol = {"duration_s": 20.0, "extend": 1}
    doubled, summary = run_of(tmp_path, make, protocol | {"steady_s": 25.0})
    assert run_json(doubled)["extended"] == 1
    (found,) = (finding for finding in summary.findings if finding.code == "extended")
    assert (found.severity, found.numbers["times"], found.numbers["asked_s"]) == ("notes", 1, 20.0)
    assert 40 <= found.numbers["lasted_s"] < 45
    assert summary.verdict.validity == "valid"
    steady, calm = run_of(tmp_path, make, protocol)
    assert "extended" not in run_json(steady)
    assert calm.verdict.validity == "valid"
    assert calm.verdict.end_s < 25


def test_the_test_in_mid_run_is_that_of_the_verdict(tmp_path: Path) -> None:
    """Rows that compile are no drift there either: warm-up steps of 20 times the time, and a disturbance after them."""
    laws = {"noise": 0.005, "warmup_steps": 3, "warmup_factor": 20.0}
    settled, summary = run_of(tmp_path, training, {"duration_s": 30.0, "extend": 1}, **laws)
    assert summary.verdict.validity == "valid"
    assert "extended" not in run_json(settled)


def run_of(parent: Path, make: Any, protocol: dict[str, Any], **laws: Any) -> tuple[Run, Summary]:
    """A run of the fake executor in virtual time under `protocol`."""
    run = measured(parent, make("fake", options=laws, protocol=protocol))
    return run, summary_of(run)
