"""What `probe` says beside its ceilings: how whole the record is, and who else was there. A machine made by hand."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner, Result

from twinlens import units
from twinlens.cli.main import app
from twinlens.cli.verb import probe as command
from twinlens.measurement.machine.probe import CeilingRow, Probe, _load_note
from twinlens.record.estimate import Estimate
from twinlens.record.executor.record import ExecutorRecord, observed


def probed(monkeypatch: pytest.MonkeyPatch, form: str, *words: str) -> Result:
    facts = {
        "accelerator.form_factor": observed(form, "by hand"),
        "tenancy.co_tenants": observed("seen", "34% of the processors"),
    }
    rate = Estimate(1e12, units.FLOP_PER_S, "by hand", "measured")
    probe = Probe(ExecutorRecord(facts), (CeilingRow("matrix", "fp32", "", 1, rate),), None, _load_note(facts))
    monkeypatch.setattr(command, "probe", lambda device, **_: probe)
    done = CliRunner().invoke(app, ["probe", "-q", *words])
    assert (done.exit_code, done.stderr) == (0, "")
    return done


def test_the_verdict_on_the_record_stands_for_each_lens(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = probed(monkeypatch, "processor").stdout
    assert "training: vendor-number" in shown
    assert "inference: vendor-number" in shown
    data: dict[str, Any] = json.loads(probed(monkeypatch, "processor", "--json").stdout)
    assert set(data["completeness"]) == {"training", "inference"}
    assert data["completeness"]["training"]["missing"]


def test_ceilings_of_a_machine_that_others_use_are_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    text = " ".join(probed(monkeypatch, "processor").stdout.split())
    assert "Measured under load (34% of the processors): the ceilings are what was left over." in text
    assert _load_note({"tenancy.co_tenants": observed("none seen", "by hand")}) == ()


def test_a_column_of_a_board_counts_no_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "1 thread" in probed(monkeypatch, "processor").stdout
    on_board = probed(monkeypatch, "SXM").stdout
    assert "the board" in on_board
    assert "thread" not in on_board


def test_ranks_without_collectives_are_refused() -> None:
    done = CliRunner().invoke(app, ["probe", "-q", "--ranks", "2"])
    assert (done.exit_code, done.stdout) == (2, "")
    assert "--ranks belongs to --collectives, which is missing" in " ".join(done.stderr.split())
