"""`twinlens plan calibrate` on published runs: what it prints, writes and refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from benchmarks.published import published
from click.testing import CliRunner

import twinlens as tl
from twinlens.cli.main import app
from twinlens.errors import BadInput

RUNS = str(published() / "2026-11-22-url-epyc-2core")
TRAINED = str(published() / "2026-11-22-paired-xeon-2core")


def test_own_runs_give_constants_that_come_nearer_to_them(tmp_path: Path) -> None:
    file = tmp_path / "mine.json"
    said = CliRunner().invoke(app, ["plan", "calibrate", RUNS, "--device", "epyc-9755", "-o", str(file)])
    assert said.exit_code == 0, said.output
    assert "your own by" in " ".join(said.output.split())
    written = json.loads(file.read_text(encoding="utf-8"))
    error = {
        whose: sorted(abs(row[f"{whose}_s"] / row["measured_s"] - 1) for row in written["compared"])
        for whose in ("public", "own")
    }
    middle = len(error["own"]) // 2
    assert error["own"][middle] < error["public"][middle]
    known = tl.plan.constants(file)
    assert "runs of your own" in known.fitted_on
    assert "own" in known.constants.factors


def test_what_cannot_calibrate_is_one_sentence(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.json"
    wrong.write_text("[]", encoding="utf-8")
    with pytest.raises(BadInput, match=r"wrong\.json holds no constants"):
        tl.plan.constants(wrong)
    for words, what in (
        ([RUNS, "--device", "h1000"], "no device 'h1000'"),
        ([RUNS, "--device", "epyc-9755", "--precision", "zz"], "unknown precision 'zz'"),
        ([TRAINED, "--device", "epyc-9755"], "none of these runs can calibrate"),
    ):
        said = CliRunner().invoke(app, ["plan", "calibrate", *words])
        assert said.exit_code == 2, said.output
        assert what in " ".join(said.output.split())
        assert "Traceback" not in said.output
