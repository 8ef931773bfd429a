"""Runs that cannot be diagnosed: one sentence each, exit code 2. Runs that lack a part: diagnosed without it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from benchmarks.published import published
from click.testing import CliRunner, Result

from twinlens.cli.main import app

RESULTS = published() / "2026-11-21-served-epyc-2core"
SERVED = sorted(RESULTS.glob("*/*serve-vllm_bf16_r0_897c"))[0]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return Path(shutil.copytree(SERVED, tmp_path / "run"))


def call(path: Path, *more: str) -> Result:
    return CliRunner().invoke(app, ["diagnose", str(path), *more])


def changed(run: Path, **fields: Any) -> None:
    record = run / "run.json"
    record.write_text(json.dumps(json.loads(record.read_text()) | fields))


def without(run: Path, *path: str) -> None:
    record = run / "run.json"
    data = json.loads(record.read_text())
    inner = data
    for name in path[:-1]:
        inner = inner[name]
    del inner[path[-1]]
    record.write_text(json.dumps(data))


def ceiling(run: Path, tokens_per_s: float) -> None:
    calibration = json.loads((run / "run.json").read_text())["calibration"]
    changed(run, calibration=calibration | {"ceiling_tokens_per_s": tokens_per_s})


def cut(run: Path) -> None:
    rows = run / "requests.arrows"
    rows.write_bytes(rows.read_bytes()[:100_000])


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda run: changed(run, state="running", process={}), "is still being measured"),
        (lambda run: changed(run, state="failed", error="the disk is full\n<b>"), "failed (the disk is full"),
        (lambda run: changed(run, state="interrupted"), "was interrupted, so there is nothing to diagnose"),
        (lambda run: changed(run, schema=9), "schema 9 and this version reads up to 1; update twinlens"),
        (lambda run: changed(run, schema="old"), "schema 'old'"),
        (lambda run: without(run, "asked", "workload"), "is not a run record (asked.workload: Field required)"),
        (lambda run: without(run, "state"), "is not a run record (it has no 'state')"),
        (lambda run: (run / "run.json").write_text("{"), "cannot be read"),
        (lambda run: (run / "requests.arrows").unlink(), "is damaged (it is empty or gone)"),
        (lambda run: (run / "requests.arrows").write_bytes(b""), "is damaged (it is empty or gone)"),
        (cut, "is damaged"),
        (lambda run: ceiling(run, 0.0), "the client's ceiling is 0 tokens/s; it must be above 0"),
        (lambda run: ceiling(run, float("nan")), "the client's ceiling is nan tokens/s"),
        (lambda run: (run / "run.json").unlink(), "holds no run"),
        (shutil.rmtree, "there is no run folder"),
    ],
)
def test_what_is_no_whole_run_is_one_sentence(run: Path, spoil: Callable[[Path], Any], says: str) -> None:
    spoil(run)
    told = call(run)
    assert told.exit_code == 2
    assert told.stderr.count("\n") == 1
    assert says in told.stderr
    assert "Traceback" not in told.stderr


@pytest.mark.parametrize(
    ("spoil", "lacks"),
    [
        (lambda run: (run / "server.arrows").unlink(), "the server says neither its queue time nor its prefill time"),
        (lambda run: without(run, "server_metrics"), "the server says neither its queue time nor its prefill time"),
        (lambda run: (run / "telemetry.arrows").unlink(), "ceilings"),
        (lambda run: changed(run, facts=None), "ceilings"),
        (lambda run: without(run, "client"), "ceilings"),
    ],
)
def test_a_run_of_an_older_version_that_lacks_a_part_is_diagnosed_without_it(
    run: Path, spoil: Callable[[Path], Any], lacks: str
) -> None:
    spoil(run)
    told = call(run, "--json")
    assert told.exit_code == 0, told.stderr
    (found,) = json.loads(told.stdout)["diagnoses"]
    assert lacks in json.dumps(found)
    assert sum(part["share"] for part in found["partition"]["parts"]) == pytest.approx(1.0)
    assert call(run).exit_code == 0
