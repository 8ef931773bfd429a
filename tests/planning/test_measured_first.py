"""What was measured goes first: a run beats a probe, and a probe a datasheet, in fit, in capacity and in choose."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from benchmarks.published import published
from click.testing import CliRunner

import twinlens as tl
from twinlens.cli.main import app
from twinlens.errors import BadInput
from twinlens.planning.choose.serving_choice import serving_ranking
from twinlens.planning.choose.wanted import Own, ServingWanted, Site
from twinlens.planning.prediction.band import shipped
from twinlens.planning.prediction.calibrate import Observation, calibrated
from twinlens.planning.prediction.question import ServingQuestion
from twinlens.planning.subject import Subject
from twinlens.spec.catalogue import shipped as catalogue
from twinlens.spec.model.reference import load_model

RESULTS = published()
TRAINED = next((RESULTS / "2026-11-20-epyc-2core").glob("*demo-training*/*_fp32_r0_*"))
DECODED = next((RESULTS / "2026-11-22-ledger-epyc-2core").glob("*_steps_*/*_bf16_r0_*"))
SERVED = next((RESULTS / "2026-11-21-served-epyc-2core").glob("*/*vllm_bf16_r0*"))
SHAPE: Any = load_model("llama-3.1-8b").shape


def test_fit_takes_the_memory_of_a_run_and_at_its_own_sizes_needs_its_peak() -> None:
    found = tl.plan.fit(like=TRAINED, device="H100")
    own = found.answer.plan
    assert (own.subject.name, own.batch, own.context) == ("demo-34m", 2, 128)
    run = next(each for each in tl.read(TRAINED) if each.id == own.like[0].run)
    peak = tl.summary(run).metrics["peak_bytes"].value
    assert found.answer.asked.needed.value == pytest.approx(peak, rel=1e-3)
    without = tl.plan.fit(
        "demo-34m", train="full", device="H100", batch=2, context=128, recompute="none", layout="fp32"
    )
    assert found.answer.asked.needed.value != pytest.approx(without.answer.asked.needed.value, rel=0.05)


def test_activations_of_a_larger_batch_grow_from_those_that_were_measured() -> None:
    one, four = (tl.plan.fit(like=TRAINED, device="H100", batch=batch).answer for batch in (2, 8))
    parts = [{each.name: float(each.value) for each in answer.asked.parts} for answer in (one, four)]
    assert parts[1]["activations"] == pytest.approx(4 * parts[0]["activations"], rel=0.02)
    assert parts[1]["weights"] == parts[0]["weights"]


def test_fit_says_what_the_run_measured_over_the_arithmetic() -> None:
    shown = CliRunner().invoke(app, ["plan", "fit", "--like", str(DECODED), "--device", "H100"])
    assert shown.exit_code == 0, shown.stderr
    assert "measured over computed, by" in " ".join(shown.stdout.split())
    data = json.loads(CliRunner().invoke(app, ["plan", "fit", "--like", str(DECODED), "--json"]).stdout)
    assert {each["part"] for each in data["like"]} >= {"weights", "kv"}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--like", str(SERVED)), "no memory by part"),
        (("--like", str(DECODED), "--train", "full"), "a run of inference, and this is a plan of training"),
        ((), "name a model"),
    ],
)
def test_a_run_that_says_nothing_of_memory_is_one_sentence(words: tuple[str, ...], said: str) -> None:
    told = CliRunner().invoke(app, ["plan", "fit", *words])
    assert (told.exit_code, told.stdout) == (2, "")
    assert said in " ".join(told.stderr.split())


def test_choose_ranks_the_probed_machine_by_what_it_measured(tmp_path: Path) -> None:
    file = tmp_path / "probe.json"
    facts = {"accelerator.product": "NVIDIA H100 80GB HBM3", "accelerator.memory_bytes": 85_000_000_000}
    rows = [{"kind": "read", "format": "", "value": 2.0e12}, {"kind": "matrix", "format": "bf16", "value": 500e12}]
    file.write_text(json.dumps({"executor": {k: {"value": v} for k, v in facts.items()}, "ceilings": rows}))
    found = tl.plan.choose("8B", training=0, users=4, probe=file, among_devices="this,H100")
    this, sheet = (found.answer.inference.of(name) for name in ("this", "h100-sxm-80gb"))
    assert float(this.rate.value) < 0.8 * float(sheet.rate.value)


def test_choose_takes_constants_of_a_run_for_its_device_and_leaves_the_others() -> None:
    card = catalogue().device("h100-sxm-80gb")
    asked = ServingQuestion("llama-3.1-8b", SHAPE, card, "bf16", 1792.0, 256.0, users=4.0, engine="vllm")
    slow = calibrated([Observation(asked, 0.030, 0.2)], today=date(2026, 11, 22))
    wanted = ServingWanted(Subject("llama-3.1-8b", 8_030_000_000, SHAPE), SHAPE, 4, 1792, 256, ("bf16",), None, None)
    devices = [card, catalogue().device("h200-sxm-141gb")]
    public = serving_ranking(wanted, Site(), devices, shipped()["serving"], catalogue())
    mine = serving_ranking(
        wanted, Site(), devices, shipped()["serving"], catalogue(), Own(frozenset({card.name}), "vllm", slow)
    )
    assert _rate(mine, card.name) < 0.5 * _rate(public, card.name)
    assert _rate(mine, "h200-sxm-141gb") == pytest.approx(_rate(public, "h200-sxm-141gb"))


def test_choose_refuses_a_run_that_served_nothing() -> None:
    with pytest.raises(BadInput, match="not in the catalogue"):
        tl.plan.choose("8B", users=4, like=TRAINED, among_devices="H100")


def _rate(ranking: Any, device: str) -> float:
    return float(ranking.of(device).rate.value)
