"""`check` and `measure`: what they print and keep, progress on stderr, and exit codes that mean something."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from material import command, fixed, inference, run_json, study_of, training, twinlens
from twinlens.cli.main import app
from twinlens.record.codec import decode
from twinlens.record.finding import Finding
from twinlens.record.store import find_runs
from twinlens.reporting.wording.finding import advice_of, sentence_of
from twinlens.spec.load import dump


def call(*words: str | Path) -> Result:
    """A verb in this process: as quick as a function, stdout and stderr apart."""
    return CliRunner().invoke(app, [str(word) for word in words])


def test_check_prints_the_spec_and_what_theory_says_and_touches_nothing(spec: Path) -> None:
    before = sorted(spec.parent.rglob("*"))
    shown, data = call("check", spec, "--all"), call("check", spec, "--json")
    assert (shown.exit_code, shown.stderr) == (0, "")
    assert 'model = "tiny"' in shown.stdout
    assert "step_flop" in shown.stdout
    found = json.loads(data.stdout)
    assert found["runs"] == 1
    assert found["study"]["workload"]["model"] == "tiny"
    assert found["points"][0]["theory"]["parameters"]["value"] == 1016448
    assert sorted(spec.parent.rglob("*")) == before


def test_check_resolves_settings_and_sweeps(spec: Path) -> None:
    words = ("check", spec, "--set", "workload.global_batch=8", "--at", "precision=fp32,bf16", "--at", "microbatch=4,8")
    data = json.loads(call(*words, "--json").stdout)
    assert data["study"]["workload"]["global_batch"] == 8
    assert [(p["point"]["precision"], p["point"]["microbatch"]) for p in data["points"]] == [
        ("fp32", 4), ("fp32", 8), ("bf16", 4), ("bf16", 8),
    ]  # fmt: skip
    assert data["runs"] == 4


def test_what_is_set_replaces_a_sweep_over_it(tmp_path: Path) -> None:
    file = tmp_path / "swept.toml"
    file.write_text(dump(study_of(training("fake", sweep={"precision": ["fp32", "bf16"]}))))
    assert json.loads(call("check", file, "--json").stdout)["runs"] == 2
    assert json.loads(call("check", file, "--set", "point.precision=bf16", "--json").stdout)["runs"] == 1


@pytest.mark.parametrize("lens", [training, inference])
def test_measure_runs_shows_and_keeps_what_it_came_to(tmp_path: Path, lens: Any) -> None:
    file = tmp_path / "small.toml"
    file.write_text(dump(study_of(lens("fake"))))
    done = call("measure", file, "--out", tmp_path / "out", "-q")
    assert done.exit_code == 0
    (run,) = find_runs(tmp_path / "out")
    row = "steps" if run.lens == "training" else "requests"
    assert f"{run.lens}: " in done.stdout
    assert f"{run.table.num_rows} {row}" in " ".join(done.stdout.split())
    assert done.stderr.strip() == f"runs: {run.folder.parent}"
    assert {path.name for path in run.folder.iterdir()} >= {"run.json", "summary.json", "telemetry.arrows"}


@pytest.mark.torch
def test_measure_names_the_folder_of_weights_that_it_kept_last(tmp_path: Path) -> None:
    file = tmp_path / "small.toml"
    file.write_text(dump(study_of(training(save=True))))
    done = call("measure", file, "--out", tmp_path / "out", "-q")
    (run,) = find_runs(tmp_path / "out")
    last = done.stderr.strip().splitlines()[-1]
    assert last == f"weights: {run.folder / 'weights'}"
    again = call("check", file, "--set", f"workload.model={last.removeprefix('weights: ')}", "--json")
    assert json.loads(again.stdout)["points"][0]["theory"]["parameters"]["value"] == 1016448


def test_measure_json_is_what_is_on_disk_with_the_words_of_its_findings(tmp_path: Path, spec: Path) -> None:
    done = call("measure", spec, "--out", tmp_path / "out", "--json", "-q")
    (run,) = find_runs(tmp_path / "out")
    printed, stored = json.loads(done.stdout), json.loads((run.folder / "summary.json").read_text())
    assert printed.pop("next").startswith(("Measure", "--set", "Show", "Stop", "Pin"))
    assert {"fake-executor"} <= {finding["code"] for finding in printed["findings"]}
    for finding in [*printed["findings"], printed["verdict"]["reason"]]:
        words = decode(Finding, finding)
        assert (finding.pop("text"), finding.pop("advice")) == (sentence_of(words), advice_of(words))
    assert printed | {name: stored[name] for name in ("of", "seal")} == stored
    assert done.stderr == ""


def test_measure_tells_its_progress_on_stderr_only(tmp_path: Path, spec: Path) -> None:
    done = call("measure", spec, "--out", tmp_path / "out", "--json")
    json.loads(done.stdout)
    assert "1/1 fp32" in done.stderr


def test_measure_as_a_process_of_its_own_uses_fresh_processes(tmp_path: Path) -> None:
    file = tmp_path / "isolated.toml"
    file.write_text(dump(study_of(training("fake", protocol={"isolate": True}))))
    done = twinlens("measure", file, "--out", "out", "-q", "--json", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["state"] == "finished"
    (run,) = find_runs(tmp_path / "out")
    assert run_json(run)["pid"] != os.getpid()
    assert (run.folder / "log.txt").exists()


def test_a_failing_run_is_exit_3_after_everything_else_was_shown(tmp_path: Path, spec: Path) -> None:
    words = ("--set", "executor.options={fail_at=3}", "--at", "precision=fp32,bf16", "--json", "-q")
    done = call("measure", spec, "--out", tmp_path / "out", *words)
    assert done.exit_code == 3
    assert [load["state"] for load in json.loads(done.stdout)] == ["failed", "failed"]
    assert len(done.stderr.strip().splitlines()) == 1
    assert "fails at row 3" in done.stderr
    assert "(and 1 more)" in done.stderr


def test_a_gate_fails_with_1_and_says_why(tmp_path: Path, spec: Path) -> None:
    good = ("--set", "protocol.min_rows=100", "--set", "protocol.duration_s=10")
    assert call("measure", spec, "--out", tmp_path / "a", "-q", "--gate", *good).exit_code == 0
    done = call(
        "measure", spec, "--out", tmp_path / "b", "-q", "--gate", *good, "--set", "executor.options={drift=9.0}"
    )
    assert done.exit_code == 1
    assert "is not steady: drift" in done.stderr
    missed = call(
        "measure", spec, "--out", tmp_path / "c", "-q", "--gate", *good, "--set", "workload.until={loss_nats=0.1}"
    )
    assert missed.exit_code == 1
    assert "the target loss of 0.1000 nats was not reached" in missed.stderr.lower()


def test_fresh_begins_anew(tmp_path: Path, spec: Path) -> None:
    out = tmp_path / "out"
    assert call("measure", spec, "--out", out, "-q", "--set", "executor.options={fail_at=1}").exit_code == 3
    assert len(list(out.glob("*/study.json"))) == 1
    again = call("measure", spec, "--out", out, "--set", "executor.options={fail_at=1}")
    assert "resuming" in again.stderr
    assert len(list(out.glob("*/study.json"))) == 1
    call("measure", spec, "--out", out, "-q", "--fresh", "--set", "executor.options={fail_at=1}")
    assert len(list(out.glob("*/study.json"))) == 2


@pytest.mark.parametrize("json_too", [[], ["--json"]])
def test_a_reader_that_goes_away_changes_no_exit_code(spec: Path, tmp_path: Path, json_too: list[str]) -> None:
    gate = ("measure", spec, "--gate", "-q", "--out", tmp_path / "out", "--set", "protocol.min_rows=2")
    for words, code in ((("check", spec), "0"), (gate, "1")):
        line = " ".join([*command(*words, *json_too), "| true; echo ${PIPESTATUS[0]}"])
        done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, timeout=120)
        assert done.stdout.strip() == code, done.stderr
        assert "Broken pipe" not in done.stderr


def test_inference_settings_reach_the_run(tmp_path: Path) -> None:
    file = tmp_path / "serve.toml"
    file.write_text(dump(study_of(inference("fake", output_tokens=fixed(2)))))
    done = call("measure", file, "--out", tmp_path / "out", "--at", "batch=1,4", "--json", "-q")
    assert sorted(load["point"]["batch"] for load in json.loads(done.stdout)) == [1, 4]
