"""Capacity against a server on this machine: it is probed, served at two rates, and each predicts the other."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path

import pytest
from click.testing import CliRunner

from twinlens.api.plan.calibrate import observed
from twinlens.api.plan.reading.subject import this_device
from twinlens.cli.main import app
from twinlens.planning.prediction.answer import serving_answer
from twinlens.planning.prediction.calibrate import calibrated

pytestmark = [pytest.mark.slow, pytest.mark.trial, pytest.mark.torch]
for extra in ("torch", "transformers", "uvicorn", "fastapi"):
    pytest.importorskip(extra, reason="needs the torch and serve extras")

_SETTINGS = (
    "sweep.rate_per_s=[0.25, 0.5]", "protocol.repeats=1", "protocol.duration_s=40.0", "protocol.retakes=0",
    "protocol.extend=0", "workload.fidelity_prompts=2", "protocol.ceilings=false",
)  # fmt: skip


def test_one_rate_predicts_another_of_the_same_server_within_the_band(tmp_path: Path) -> None:
    probe, spec, runs = tmp_path / "probe.json", tmp_path / "chat.toml", tmp_path / "runs"
    seen = CliRunner().invoke(app, ["probe", "--json"])
    assert seen.exit_code == 0, seen.stderr
    probe.write_text(seen.stdout, encoding="utf-8")
    settings = [word for each in _SETTINGS for word in ("--set", each)]
    for words in (["new", "chat", "-o", str(spec), *settings], ["measure", str(spec), "--out", str(runs)]):
        done = CliRunner().invoke(app, words)
        assert done.exit_code in (0, 1), done.output
    study = next(runs.iterdir())
    found, _ = observed([study], this_device(probe), None, 1, None)
    assert len(found) == 2
    covered = []
    for (_, base), (_, other) in (found, found[::-1]):
        known = calibrated([base], today=date(2026, 11, 22))
        own, public = serving_answer(other.question, known), serving_answer(other.question)
        for name, said, before, measured in (("TPOT", own.tpot_s, public.tpot_s, other.tpot_s),
                                             ("TTFT", own.ttft_s, public.ttft_s, other.ttft_s)):  # fmt: skip
            assert measured is not None
            covered.append(said.low <= measured <= said.high)
            told = {"rate": other.question.requests_per_s, "metric": name, "measured_s": measured,
                    "predicted_s": said.value, "band_s": (said.low, said.high), "public_s": before.value}  # fmt: skip
            print(json.dumps(told))
    assert sum(covered) >= 2  # others may slow one of the two runs and not the other
    shown = CliRunner().invoke(app, ["plan", "capacity", "--like", str(study), "--probe", str(probe)])
    assert shown.exit_code == 0, shown.stderr
    assert "predicted there" in " ".join(shown.stdout.split())
