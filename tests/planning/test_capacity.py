"""Capacity: figures that add up, loads that are the largest, bands, and what runs say of the machine they ran on."""

from __future__ import annotations

import math
import shutil
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from benchmarks.published import published
from hypothesis import given, settings
from hypothesis import strategies as st

from twinlens.api.plan.calibrate import observed
from twinlens.api.plan.capacity import capacity
from twinlens.api.plan.fit import fit
from twinlens.errors import BadInput
from twinlens.planning.capacity.serving import ServingCapacity
from twinlens.planning.capacity.target import Target, most_load, what_stops
from twinlens.planning.capacity.training import TrainingCapacity
from twinlens.planning.prediction.answer import serving_answer
from twinlens.planning.prediction.band import shipped
from twinlens.planning.prediction.calibrate import calibrated
from twinlens.planning.prediction.question import ServingQuestion
from twinlens.reporting.wording.planned.capacity import answer_words
from twinlens.spec.catalogue import shipped as catalogue
from twinlens.spec.model.reference import load_model
from twinlens.theory.figure import Figure

RUNS = published() / "2026-11-21-served-epyc-2core"
VLLM = RUNS / "2026-11-21T211626Z_serve-vllm_fdf1"
KNOWN = shipped()["serving"]
LLAMA = load_model("llama-3.1-8b")


def question(**load: float) -> ServingQuestion:
    card = catalogue().device("h100-sxm-80gb")
    shape: Any = LLAMA.shape
    return ServingQuestion("llama-3.1-8b", shape, card, "bf16", 2048.0, 300.0, engine="vllm", **load)  # type: ignore[arg-type]


def served(**options: Any) -> ServingCapacity:
    found = capacity("8B", device="H100", **{"prompt": "2K", "answer": 300, **options}).answer
    assert isinstance(found, ServingCapacity)
    return found


def trained(**options: Any) -> TrainingCapacity:
    found = capacity("70B", device="H100", train="full", **options).answer
    assert isinstance(found, TrainingCapacity)
    return found


def parts(figure: Figure) -> float:
    return sum(float(each.value or 0) for each in figure.inputs if isinstance(each, Figure))


@settings(deadline=None, max_examples=15)
@given(tpot_ms=st.floats(12, 80), load=st.sampled_from([{"users": 4.0}, {"requests_per_s": 1.0}]))
def test_the_largest_load_keeps_the_target_and_a_larger_one_does_not(tpot_ms: float, load: dict[str, float]) -> None:
    asked, target = question(**load), Target(1.0, tpot_ms / 1e3)
    most = most_load(asked, target, KNOWN)
    assert most > 0
    assert what_stops(asked, most, target, KNOWN, "value") is None
    more = most + 1 if "users" in load else most * 1.01
    assert what_stops(asked, more, target, KNOWN, "value") is not None
    low, high = (most_load(asked, target, KNOWN, end) for end in ("high", "low"))
    assert low <= most <= high


def test_latencies_are_the_sum_of_their_parts_and_throughput_follows_from_them() -> None:
    found = served(users=32)
    ttft, tpot, requests, tokens = found.figures
    assert ttft.value == pytest.approx(parts(ttft))
    assert tpot.value == pytest.approx(parts(tpot))
    assert requests.value == pytest.approx(32 / (float(ttft.value or 0) + 300 * float(tpot.value or 0)))
    assert tokens.value == pytest.approx(300 * float(requests.value or 0))
    answer = serving_answer(question(users=32.0))
    assert requests.value == pytest.approx(answer.requests_per_s, rel=1e-3)
    for each in found.figures:
        assert each.low is not None
        assert each.high is not None
        assert float(each.low) < float(each.value or 0) < float(each.high)
        assert each.level == 0.9


def test_it_is_said_how_far_calibration_is() -> None:
    codes = {each.code for each in served(users=32).remarks}
    assert codes == {"plan-band", "plan-tail", "plan-not-considered", "plan-within"}
    far = {each.code: each for each in served(users=32, engine="mine", prompt="64K").remarks}
    assert far["plan-unseen"].numbers == {"engine": "mine"}
    assert far["plan-beyond"].numbers["times"] == pytest.approx(2.0)


def test_devices_are_those_of_the_peak_and_of_copies_that_may_fail() -> None:
    found = served(users=300, tpot="25ms", ttft="1s", peak=1.5, spare=1)
    each = most_load(question(users=1.0), Target(1.0, 0.025), KNOWN)
    assert found.devices.value == math.ceil(300 * 1.5 / each) + 1
    assert float(found.devices.low or 0) <= float(found.devices.value or 0) <= float(found.devices.high or 0)
    assert not found.is_met
    copies = served(users=300, tpot="25ms", ttft="1s", devices=int(found.devices.value or 0) - 1)
    assert copies.is_met


def test_a_queue_without_end_is_said_and_the_devices_that_end_it() -> None:
    found = served(rate=1000)
    assert found.missed == "queue"
    assert all(each.value is None and each.reason for each in found.figures)
    assert float(found.devices.value or 0) > 10
    enough = served(rate=1000, devices=found.devices.value)
    assert enough.missed is None


def test_a_target_that_nobody_keeps_has_no_number_of_devices() -> None:
    found = served(users=1, tpot="1ms")
    assert found.most.value == 0
    assert found.devices.value is None
    assert found.devices.reason is not None


def test_a_step_is_the_sum_of_its_causes_and_the_whole_is_its_steps() -> None:
    asked: dict[str, Any] = {"devices": 64, "tensor": 8, "pipeline": 2, "batch": 32, "tokens": "300B"}
    plain, again = trained(**asked), trained(**asked, recompute="full")
    for found in (plain, again):
        assert found.step.value == pytest.approx(parts(found.step))
    causes = {each.name: float(each.value or 0) for each in again.step.inputs if isinstance(each, Figure)}
    assert causes["part-recompute"] == pytest.approx(float(again.step.value or 0) - float(plain.step.value or 0))
    assert {"part-communication", "part-bubble"} <= causes.keys()
    steps = 300e9 / (32 * 4096)
    assert again.whole is not None
    assert again.whole.value == pytest.approx(steps * float(again.step.value or 0) / 0.9)


def test_training_that_does_not_fit_is_refused_with_the_bytes_of_plan_fit() -> None:
    found = trained(devices=8, tokens="300B", within="2000days")
    alike = fit("70B", device="H100", devices=8, train="full", context="4K").answer.asked
    assert alike is not None
    assert found.memory is not None
    assert found.memory.needed.value == pytest.approx(alike.needed.value)
    assert (found.fits, alike.fits, found.is_met) == (False, False, False)
    short = next(each for each in found.remarks if each.code == "plan-memory")
    assert short.numbers["needed_bytes"] > short.numbers["usable_bytes"]
    assert answer_words(found).startswith("No, it does not fit in memory")
    roomy = trained(devices=64, tensor=8, pipeline=2, recompute="full")
    assert (roomy.fits, roomy.is_met) == (True, None)
    assert not [each for each in roomy.remarks if each.code == "plan-memory"]


def test_no_number_of_devices_is_named_that_does_not_hold_the_step() -> None:
    found = trained(devices=8, tokens="1B", within="2000days", batch=64, recompute="full")
    assert found.devices is not None
    assert int(found.devices.value or 0) > 8
    never = trained(devices=1, tokens="1B", within="2000days", batch=1)
    assert never.devices is not None
    assert never.devices.value is None
    assert never.devices.reason is not None
    assert never.devices.reason.code == "plan-memory"


def test_devices_of_a_deadline_are_the_fewest() -> None:
    asked: dict[str, Any] = {"tensor": 8, "pipeline": 2, "batch": 256, "tokens": "300B", "within": "60days"}
    found = trained(devices=64, **asked)
    assert found.devices is not None
    fewest = int(found.devices.value or 0)
    assert trained(devices=fewest, **asked).is_met is True
    assert trained(devices=fewest // 2, **asked).is_met is False


def test_one_run_of_the_machine_says_more_of_it_than_all_public_ones() -> None:
    """Each served run of vLLM predicts the others, measured on other days and at other rates."""
    runs, _ = observed([VLLM], catalogue().device("epyc-9755"), None, 1, None)
    covered: list[bool] = []
    own: list[float] = []
    public: list[float] = []
    for name, one in runs:
        known = calibrated([one], today=date(2026, 11, 22))
        for other, seen in runs:
            if other == name:
                continue
            said, before = serving_answer(seen.question, known), serving_answer(seen.question)
            for each, old, measured in (
                (said.tpot_s, before.tpot_s, seen.tpot_s),
                (said.ttft_s, before.ttft_s, seen.ttft_s),
            ):
                assert measured is not None
                covered.append(each.low <= measured <= each.high)
                own.append(abs(math.log(each.value / measured)))
                public.append(abs(math.log(old.value / measured)))
    assert len(covered) == 60
    assert sum(covered) / len(covered) >= 0.85
    assert sorted(own)[30] < 0.25 < sorted(public)[30]


def test_like_takes_model_lengths_engine_and_load_from_the_run(tmp_path: Path) -> None:
    """Of two of the runs: the fit of more of them is held by the test above, and takes as long as they are many."""
    runs = sorted(path.parent for path in VLLM.rglob("run.json"))
    assert len(runs) == 6
    for each in (runs[0], runs[-1]):
        shutil.copytree(each, tmp_path / VLLM.name / each.name)
    found = capacity(device="epyc-9755", like=tmp_path / VLLM.name)
    assert isinstance(found.answer, ServingCapacity)
    asked = found.answer.plan.question
    assert (asked.model, asked.engine, asked.prompt, asked.answer) == ("small", "vllm", 64.0, 16.0)
    assert len(found.measured) == 4
    assert {each.metric for each in found.measured} == {"tpot", "ttft"}
    text = found.to_json()["measured"]
    assert all(row["measured_s"] > 0 for row in text)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"users": 0}, "--users is a count"),
        ({"users": "nan"}, "--users 'nan' is no whole number"),
        ({"rate": "2/h"}, "write requests per second"),
        ({"rate": 1, "users": 1}, "give one of the two"),
        ({"tpot": "25"}, "--tpot '25' is no time"),
        ({"ttft": "-1s"}, "--ttft is above 0"),
        ({"ttft": "infs"}, "is no time"),
        ({"peak": 0.5}, "--peak is the peak over the mean load"),
        ({"spare": "-1"}, "is no count of copies"),
        ({"precision": "fp7"}, "unknown weight format 'fp7'"),
        ({"tensor": 3}, "3 devices cannot divide 32 heads"),
        ({"tensor": 2, "devices": 3}, "--devices 3 does not divide by --tensor 2"),
        ({"tokens": "1B"}, "--tokens is no option of serving"),
        ({"train": "full", "users": 3}, "--users is no option of training"),
        ({"train": "full", "within": "1h"}, "give --tokens"),
        ({"train": "full", "tokens": "1B", "effective": 2}, "is a share from 0 to 100%"),
        ({"train": "full", "tokens": "1B", "effective": 0}, "--effective is a share above 0"),
        ({"train": "full", "tokens": "many"}, "is no number of tokens"),
        ({"device": None}, "name a device"),
        ({"model": None}, "name a model"),
        ({"model": "llama-3.1-405b"}, "has no room for one sequence"),
    ],
)
def test_what_cannot_be_is_one_sentence(options: dict[str, Any], words: str) -> None:
    asked: dict[str, Any] = {"model": "8B", "device": "H100", **options}
    with pytest.raises(BadInput, match=words) as said:
        capacity(**({"tensor": 1} if options.get("model") == "llama-3.1-405b" else {}), **asked)
    assert "\n" not in str(said.value)


def test_a_lighter_load_is_never_slower() -> None:
    found = served(rate=1)
    known = [each.answer for each in found.curve() if each.answer is not None]
    times = [each.tpot_s.value for each in known]
    assert len(times) > 5
    assert times == sorted(times)
