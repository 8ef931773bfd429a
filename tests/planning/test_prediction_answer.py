"""Answers to questions in a plan's words, and calibration on runs of one's own."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

import pytest

from twinlens.errors import BadInput
from twinlens.planning.prediction.answer import serving_answer, training_answer
from twinlens.planning.prediction.calibrate import Observation, calibrated
from twinlens.planning.prediction.place import is_rated, rates_of
from twinlens.planning.prediction.question import ServingQuestion, TrainingQuestion
from twinlens.planning.prediction.work import stored
from twinlens.spec.device import DenseRates, load_device
from twinlens.spec.model.reference import load_model

SHAPE = load_model("llama-3.1-70b").shape
QUESTION = ServingQuestion(
    "llama-3.1-70b", SHAPE, load_device("h100-sxm-80gb"), "fp8", 1024, 512, users=16, tensor=4, engine="vllm"
)
TRAINING = TrainingQuestion(
    "llama-3.1-70b", SHAPE, load_device("h100-sxm-80gb"), "fp8", 64, 256, 8192, tensor=4, pipeline=8, virtual=5,
    engine="nemo",
)  # fmt: skip


def test_an_answer_has_a_band_and_its_parts_add_up() -> None:
    said = serving_answer(QUESTION)
    assert said.tpot_s.low < said.tpot_s.value < said.tpot_s.high
    assert said.tpot_s.high / said.tpot_s.value >= 1.06 - 1e-6
    assert said.prefill_s + said.wait_s == pytest.approx(said.ttft_s.value)
    assert sum(said.step_parts_s.values()) <= said.tpot_s.value
    assert said.unseen == ()
    step = training_answer(TRAINING)
    assert sum(step.parts_s.values()) == pytest.approx(step.step_s.value)


def test_a_device_without_a_rate_is_not_predicted_in_any_format() -> None:
    unrated = load_device("gb10").model_copy(update={"dense_flop_per_s": DenseRates(fp4=500e12)})
    for asked in (replace(QUESTION, device=unrated), replace(TRAINING, device=unrated)):
        answer = serving_answer if isinstance(asked, ServingQuestion) else training_answer
        with pytest.raises(BadInput, match="gb10 has no published rate") as refused:
            answer(asked)
        assert refused.value.code == "TL231"
    assert not is_rated(unrated)
    assert is_rated(load_device("h100-sxm-80gb"))


def test_a_card_of_two_devices_is_in_the_catalogue_as_software_sees_it() -> None:
    """So that memory, rates and power of plans are all of the same half."""
    half = load_device("mi250x")
    rates = rates_of(half, stored("bf16"))
    assert rates.bytes_per_s == half.bandwidth_bytes_per_s == 3.277e12 / 2
    assert (half.memory_bytes, half.tdp_w) == (64_000_000_000, 280.0)


def test_a_degree_that_does_not_divide_the_heads_names_those_that_do() -> None:
    with pytest.raises(BadInput, match="take one of 1, 2, 4, 8, 16, 32, 64") as refused:
        replace(QUESTION, tensor=3)
    assert refused.value.code == "TL231"


def test_what_calibration_has_not_seen_is_said_and_widens_the_band() -> None:
    said = serving_answer(QUESTION)
    strange = serving_answer(replace(QUESTION, engine="somebody's own", users=100_000.0))
    assert strange.unseen == ("engine",)
    assert strange.distance["batch"] > 1
    assert strange.tpot_s.high / strange.tpot_s.value > said.tpot_s.high / said.tpot_s.value


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"users": None}, "give one of the two"),
        ({"users": 0.0}, "above 0"),
        ({"users": float("nan")}, "above 0"),
        ({"prompt": 0}, "at least 1 token"),
        ({"tensor": 3}, "do not divide"),
        ({"pipeline": 81}, "1 to 80 stages"),
    ],
)
def test_an_impossible_question_is_refused_in_one_sentence(change: dict[str, float], what: str) -> None:
    with pytest.raises(BadInput, match=what):
        replace(QUESTION, **change)


def test_weights_without_room_and_a_queue_without_an_end_are_refused() -> None:
    with pytest.raises(BadInput, match="no room for one sequence on 1 × h100-sxm-80gb"):
        serving_answer(replace(QUESTION, tensor=1, precision="bf16"))
    with pytest.raises(BadInput, match="queue has no end"):
        serving_answer(replace(QUESTION, users=None, requests_per_s=1e4))


def test_a_batch_that_leaves_devices_idle_is_refused() -> None:
    with pytest.raises(BadInput, match="without work"):
        replace(TRAINING, sequences=1)


def test_own_runs_move_the_prediction_towards_them_and_narrow_the_band() -> None:
    public = [serving_answer(replace(QUESTION, users=float(users))) for users in (2, 4, 8, 16, 32)]
    runs = [
        Observation(replace(QUESTION, users=float(users)), 1.3 * said.tpot_s.value, 1.3 * said.ttft_s.value)
        for users, said in zip((2, 4, 8, 16, 32), public, strict=True)
    ]
    own = calibrated(runs, today=date(2026, 11, 22))
    asked = replace(QUESTION, users=12.0)
    before, after = serving_answer(asked), serving_answer(asked, own)
    assert after.tpot_s.value / before.tpot_s.value == pytest.approx(1.3, rel=0.06)
    assert after.tpot_s.high / after.tpot_s.value < before.tpot_s.high / before.tpot_s.value
    assert after.tpot_s.high / after.tpot_s.value >= 1.06 - 1e-6
    assert "5 runs of your own" in after.fitted_on


def test_calibration_needs_a_measured_latency() -> None:
    with pytest.raises(BadInput, match="none of these runs"):
        calibrated([Observation(QUESTION)], today=date(2026, 11, 22))
