"""Calibration of training on one's own runs: constants come back, the band narrows, and another batch lies in it."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from benchmarks.published import published

import twinlens as tl
from twinlens.api.plan.calibrate import Calibration, observed
from twinlens.errors import BadInput
from twinlens.planning.prediction.answer import training_answer
from twinlens.planning.prediction.band import FLOOR, Calibrated, calibrated_from, plain, shipped
from twinlens.planning.prediction.calibrate import Observation, calibrated
from twinlens.planning.prediction.constant import Constants
from twinlens.planning.prediction.question import TrainingQuestion
from twinlens.spec.device import load_device
from twinlens.spec.model.reference import load_model
from twinlens.spec.study import RunSpec

TODAY = date(2026, 11, 22)
SHAPE: Any = load_model("llama-3.1-8b").shape
CARD = load_device("rtx-4090")
ASKED = TrainingQuestion("llama-3.1-8b", SHAPE, CARD, "bf16", 1, 8, 2048, engine="torch")
PUBLIC = shipped()["training"]
RUNS = published() / "2026-11-22-neighbour-epyc-2core"


def _with(**logs: float) -> Calibrated:
    """The shipped constants with some of them changed, as the truth of synthetic runs."""
    changed = {name: value + logs.get(name, 0.0) for name, value in PUBLIC.constants.base.items()}
    return replace(PUBLIC, constants=Constants(changed, PUBLIC.constants.factors))


def _runs(truth: Calibrated, asked: list[TrainingQuestion], off: tuple[float, ...] = (1.0,)) -> list[Observation]:
    return [
        Observation(each, step_s=off[i % len(off)] * training_answer(each, truth).step_s.value)
        for i, each in enumerate(asked)
    ]


BATCHES = [replace(ASKED, sequences=float(each), microbatch=float(micro)) for each in (2, 8, 32) for micro in (1, 2)]


def test_changed_constants_come_back_and_an_unmeasured_batch_lies_in_a_narrower_band() -> None:
    truth = _with(eta_train=-0.3, launch_s=0.8)
    own = calibrated(_runs(truth, BATCHES), today=TODAY)
    assert own.constants.factors["own"]["eta_train"] == pytest.approx(-0.3, abs=0.1)
    other = replace(ASKED, sequences=64.0, microbatch=4.0)
    measured = training_answer(other, truth).step_s.value
    before, after = training_answer(other).step_s, training_answer(other, own).step_s
    assert before.value != pytest.approx(measured, rel=0.15)
    assert after.value == pytest.approx(measured, rel=0.05)
    assert after.low <= measured <= after.high
    assert after.high / after.low < before.high / before.low
    assert "6 runs of your own" in own.fitted_on


def test_exchange_between_devices_is_told_from_computing() -> None:
    spread = [replace(ASKED, devices=each, sequences=float(each), length=512) for each in (1, 2, 4, 8)]
    own = calibrated(_runs(_with(exposed_data=2.0), spread), today=TODAY).constants.factors["own"]
    assert own["exposed_data"] == pytest.approx(2.0, abs=0.2)
    assert own["eta_train"] == pytest.approx(0.0, abs=0.1)


def test_the_band_is_never_narrower_than_identical_systems_nor_wider_than_it_was() -> None:
    exact = training_answer(ASKED, calibrated(_runs(PUBLIC, BATCHES), today=TODAY)).step_s
    assert exact.high / exact.value == pytest.approx(1 + FLOOR["training"])
    public = training_answer(ASKED).step_s
    wild = training_answer(ASKED, calibrated(_runs(PUBLIC, BATCHES, (0.5, 2.0)), today=TODAY)).step_s
    assert wild.band.low == pytest.approx(public.band.low)
    assert wild.band.high == pytest.approx(public.band.high)


def test_one_point_moves_the_figure_and_not_the_band_however_often_it_ran() -> None:
    public = training_answer(ASKED).step_s.band
    for runs in (1, 3):
        said = training_answer(ASKED, calibrated(_runs(_with(eta_train=-0.3), [ASKED] * runs), today=TODAY)).step_s
        assert (said.band.low, said.band.high) == (public.low, public.high)
        assert said.value > 1.1 * training_answer(ASKED).step_s.value


def test_what_was_written_says_what_the_runs_ran_on() -> None:
    own = calibrated(_runs(PUBLIC, BATCHES), today=TODAY)
    assert calibrated_from(plain(own)).own["device"] == {"rtx-4090"}
    assert "own" not in plain(PUBLIC)


def test_a_choice_takes_own_constants_on_the_devices_that_the_runs_ran_on_alone(tmp_path: Path) -> None:
    card, file = load_device("h100-sxm-80gb"), tmp_path / "mine.json"
    asked = [replace(ASKED, device=card, engine="nemo", microbatch=each) for each in (1.0, 2.0, 4.0)]
    slow = calibrated(_runs(PUBLIC, asked, (2.0,)), today=TODAY)
    Calibration(None, slow, ()).write(file)
    wanted: Any = {"training": 100, "among_devices": "H100,H200", "most_devices": 8}
    public, mine = (tl.plan.choose("8B", known=each, **wanted).answer.training for each in (None, file))
    assert _rate(mine, card.name) < 0.7 * _rate(public, card.name)
    assert _rate(mine, "h200-sxm-141gb") == pytest.approx(_rate(public, "h200-sxm-141gb"), rel=0.01)


def _rate(ranking: Any, device: str) -> float:
    return float(ranking.of(device).rate.value)


def test_a_published_run_calibrates_and_those_that_are_not_ranked_are_left_out(tmp_path: Path) -> None:
    found = tl.plan.calibrate(RUNS, device="epyc-9755")
    assert found.serving is None
    assert found.training is not None
    (row,) = found.compared
    assert row.metric == "step"
    assert abs(row.own_s / row.measured_s - 1) < 0.1 < abs(row.public_s / row.measured_s - 1)
    assert any(why == "is provisional (unproven)" for _, why in found.left_out)
    file = tmp_path / "mine.json"
    found.write(file)
    asked = {"device": "epyc-9755", "precision": "fp32", "train": "full", "batch": 1, "context": 128}
    answer: Any = tl.plan.capacity("demo-34m", known=file, **asked).answer
    assert answer.plan.question.engine == "torch"
    assert answer.step.number == pytest.approx(row.own_s, rel=0.02)
    with pytest.raises(BadInput, match="no constants of serving"):
        tl.plan.capacity("demo-34m", known=file, device="epyc-9755", users=1)


@pytest.mark.parametrize(
    ("change", "form", "why"),
    [
        ({"executor": {"kind": "torch-parallel"}}, "processor", "2 ranks that shared one processor"),
        ({"executor": {"kind": "own-loop"}}, "processor", "was trained by own-loop"),
        ({"point": {"precision": "tf32"}}, "processor", "trained in tf32, which predictions do not know"),
    ],
)
def test_a_run_whose_layout_or_format_is_not_known_is_left_out(change: Any, form: str, why: str) -> None:
    with pytest.raises(BadInput, match=why):
        observed([_run(change, form)], CARD, None, 1, None)


def test_ranks_are_devices_and_a_device_that_is_not_known_is_asked_for() -> None:
    options = {"parallel": "fsdp2", "ranks": 4}
    run = _run({"executor": {"kind": "torch-parallel", "options": options}, "workload": {"global_batch": 8}}, "sxm")
    ((_, seen),), _ = observed([run], CARD, None, 1, None)
    question = seen.question
    assert isinstance(question, TrainingQuestion)
    assert (question.devices, question.microbatch, question.gathered, question.engine) == (4, 2.0, True, "fsdp")
    with pytest.raises(BadInput, match="ran on AMD EPYC, which is not in the catalogue: name it with --device"):
        observed([_run({}, "processor")], None, None, 1, None)


def _run(change: Any, form: str) -> Any:
    """The ranked run that is published, as if it had been asked otherwise."""
    (run,) = [each for each in tl.read(RUNS) if each.id.endswith("7ac1")]
    spec = run.spec.model_dump(by_alias=True)
    for part, values in change.items():
        spec[part] = {**spec[part], "options": {}, **values} if part == "executor" else {**spec[part], **values}
    executor = run.facts.executor
    told = {"accelerator.form_factor": form, "accelerator.product": "AMD EPYC"}
    changed = {name: replace(executor.facts[name], value=value) for name, value in told.items()}
    facts = replace(run.facts, executor=replace(executor, facts={**executor.facts, **changed}))
    return replace(run, spec=RunSpec.model_validate(spec), facts=facts)
