"""The verbs of planning on every pair of the catalogue: one memory, one set of defaults, one released precision."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from operator import itemgetter
from typing import Any

import pytest

import twinlens as tl
from twinlens.api.plan.fit import ServingFit, TrainingFit, serving_of, training_of
from twinlens.api.plan.reading.subject import subject_of
from twinlens.api.plan.steps import TrainingCapacityAsked, steps_of
from twinlens.errors import BadInput
from twinlens.planning.capacity.serving import ServingCapacity
from twinlens.planning.capacity.training import TrainingCapacity, memory_of
from twinlens.planning.fit.answer import tensor_degrees
from twinlens.planning.fit.serving import Serving
from twinlens.planning.fit.serving_answer import placed
from twinlens.planning.fit.training_answer import placed as trained_on
from twinlens.planning.prediction.answer import room
from twinlens.planning.prediction.place import is_rated
from twinlens.planning.prediction.question import ServingQuestion
from twinlens.planning.prediction.work import spoken
from twinlens.spec.catalogue import shipped
from twinlens.spec.device import Device
from twinlens.spec.model.reference import list_models, load_model
from twinlens.spec.model.shape import DecoderShape

PRECISIONS = (None, "bf16", "fp8", "int4", "nvfp4", "q4_k_m")
DEVICES = [device for device in shipped().devices if is_rated(device)]
LOADS = ((1, 2048), (16, 8192), (300, 4096))
SHARE = 500
"""Of the pairs that are tried in every run, one in so many, by their hash: another one for each new model or device."""


def _models() -> Iterator[tuple[str, DecoderShape]]:
    for name in list_models():
        shape = load_model(name).shape
        if isinstance(shape, DecoderShape) and shape.max_context >= 8192:
            yield name, shape


MODELS = dict(_models())
SERVED = [(model, device.name, precision, load) for model in MODELS for device in DEVICES for precision in PRECISIONS
          for load in LOADS]  # fmt: skip
IN_TURN = [(model, device.name, precision, LOADS[(m + d + p) % len(LOADS)]) for m, model in enumerate(MODELS)
           for d, device in enumerate(DEVICES) for p, precision in enumerate(PRECISIONS)]  # fmt: skip
"""Of the pairs that are served a third: of model, device, precision and load any three meet."""
TRAINED = [(model, device.name, method, devices) for model in MODELS for device in DEVICES
           if device.form not in ("processor", "desktop-system") for method in ("full", "lora")
           for devices in (1, 8, 64)]  # fmt: skip


def _some(pairs: list[Any], share: int) -> list[Any]:
    return [each for each in pairs if int(hashlib.sha256(repr(each).encode()).hexdigest(), 16) % share == 0]


def _degree(shape: DecoderShape, device: Device) -> int:
    """The largest legal degree of a machine, so that large models have a chance."""
    return max(each for each in tensor_degrees(shape, 8) if each <= max(device.domain, 4))


def _served(pair: tuple[str, str, str | None, tuple[int, int]]) -> None:
    model, name, precision, (users, context) = pair
    device = shipped().device(name)
    degree = _degree(MODELS[model], device)
    asked: dict[str, Any] = {"device": name, "devices": degree, "precision": precision, "users": users}
    fit = tl.plan.fit(model, context=context, **asked)
    assert isinstance(fit.answer.plan, Serving)
    assert tl.plan.check(model, context=context, **asked).answer.memory.fits == fit.fits
    try:
        found = tl.plan.capacity(
            model, prompt=context - 256, answer=256, tensor=degree, ttft="99h", tpot="99h", of="mean", **asked
        ).answer
    except BadInput as why:
        found = str(why)
    if device.form == "processor":  # its memory is held by the test of every pair
        assert "no room for one sequence" in str(found) or "is a processor" in str(found)
        return
    if isinstance(found, str):
        assert "no room for one sequence" in found
        assert fit.fits is False
        return
    assert isinstance(found, ServingCapacity)
    assert found.plan.question.precision == spoken(fit.answer.plan.weight_format)
    assert (found.missed is None) == fit.fits
    most = next((each.value for each in fit.answer.most if each.name == "most-users"), None)
    assert most == found.most.value or found.most.number >= 65_000


def _trained(pair: tuple[str, str, str, int]) -> None:
    model, name, method, devices = pair
    asked: dict[str, Any] = {"device": name, "devices": devices, "train": method}
    fit = tl.plan.fit(model, **asked)
    found = tl.plan.capacity(model, **asked).answer
    assert isinstance(found, TrainingCapacity)
    assert found.fits == fit.fits
    assert tl.plan.check(model, **asked).answer.memory.fits == fit.fits


@pytest.mark.parametrize("pair", _some(SERVED, 4 * SHARE), ids=str)
def test_fit_capacity_and_check_agree_on_serving(pair: Any) -> None:
    _served(pair)


@pytest.mark.parametrize("pair", _some(TRAINED, SHARE), ids=str)
def test_fit_capacity_and_check_agree_on_training(pair: Any) -> None:
    _trained(pair)


@pytest.mark.parametrize("model", ["llama-3.1-8b", "gpt-oss-120b", "deepseek-v3"])
def test_what_is_chosen_fits(model: str) -> None:
    found = tl.plan.choose(model, inference=100, users=32, context="8K", answer=512, among_devices="H100,B200,L40S")
    ranking = found.answer.inference
    assert ranking is not None
    for each in ranking.candidates:
        split = each.split
        stages, copies = split["pipeline"], split["copies"]
        fit = tl.plan.fit(
            model, device=each.device, devices=split["tensor"] * stages * split["groups"], pipeline=stages,
            groups=split["groups"], context="8K", users=-(-32 // copies), precision=each.precision,
        )  # fmt: skip
        assert fit.fits is True
        assert fit.answer.asked is not None
        needed, usable = fit.answer.asked.needed.number, fit.answer.asked.usable.number
        assert each.memory_share == pytest.approx(needed / usable)


@pytest.mark.parametrize("pairs", [IN_TURN, pytest.param(SERVED, marks=pytest.mark.slow)], ids=["in turn", "all"])
def test_every_pair_of_the_catalogue_has_one_answer_for_memory(pairs: list[Any]) -> None:
    """What the verbs call, without what else they answer: `fit`'s placement beside `capacity`'s room and memory."""
    subjects = {name: subject_of(name, shipped()) for name in MODELS}
    devices = {device.name: device for device in DEVICES}
    for threes in ((0, 1, 2), (0, 1, 3), (0, 2, 3), (1, 2, 3)):
        assert {itemgetter(*threes)(pair) for pair in pairs} == {itemgetter(*threes)(pair) for pair in SERVED}
    for model, name, precision, (users, context) in pairs:
        plan = serving_of(subjects[model], ServingFit(model=model, users=users, context=context, precision=precision))
        device, degree = devices[name], _degree(MODELS[model], devices[name])
        question = ServingQuestion(model, MODELS[model], device, spoken(plan.weight_format), context - 256, 256, 1.0,
                                   tensor=degree, engine="vllm", subject=subjects[model])  # fmt: skip
        assert placed(plan, device, degree).fits == (room(question) >= users), (model, name, precision, users)
        if (experts := MODELS[model].experts) and degree <= experts.count and degree > 1:
            shared, apart = replace(plan, groups=degree), replace(question, tensor=1, data=degree)
            assert placed(shared, device, 1).fits == (room(apart) >= users), (model, name, precision, users)
    for model, name, method, many in TRAINED:
        steps, _ = steps_of(
            TrainingCapacityAsked(model=model, train=method, devices=many), subjects[model], devices[name]
        )
        taught, ways = training_of(subjects[model], TrainingFit(model=model, train=method))
        memory = memory_of(steps.question)
        assert memory is not None
        assert memory.fits == trained_on(taught, devices[name], many, ways).fits, (model, name, method, many)


def test_fp8_of_70b_on_one_board_of_80_gb_is_no_everywhere() -> None:
    """78.3 GB of 77.0: `fit` said no and `capacity` up to 6 users, with 2 GB of its own beside weights and cache."""
    assert tl.plan.fit("70B", precision="fp8", device="H100", context="2K").fits is False
    with pytest.raises(BadInput, match="no room for one sequence"):
        tl.plan.capacity("70B", precision="fp8", device="H100", devices=1, prompt=1792, answer=256)


@pytest.mark.parametrize(
    ("model", "format_", "billions"),
    [("gpt-oss-120b", "mxfp4-experts", 69.3), ("gpt-oss-20b", "mxfp4-experts", 14.4),
     ("deepseek-v3", "fp8-block-128", 674.8), ("llama-3.1-8b", "bf16", 16.1)],
)  # fmt: skip
def test_without_a_precision_a_model_is_as_its_maker_publishes_it(model: str, format_: str, billions: float) -> None:
    fit = tl.plan.fit(model, device="H200", devices=8)
    assert isinstance(fit.answer.plan, Serving)
    assert fit.answer.plan.weight_format == format_
    assert fit.answer.asked is not None
    weights = next(each for each in fit.answer.asked.parts if each.name == "weights")
    assert 8 * float(weights.value or 0) == pytest.approx(billions * 1e9, rel=0.02)
    found = tl.plan.capacity(model, device="H200", devices=8, tensor=8).answer
    chosen = tl.plan.choose(model, inference=100, among_devices="H200").answer.inference
    assert isinstance(found, ServingCapacity)
    assert chosen is not None
    assert {found.plan.question.precision, *(each.precision for each in chosen.candidates)} == {spoken(format_)}


def test_a_word_means_the_models_own_format_of_that_kind() -> None:
    """ "mxfp4" of gpt-oss leaves attention in 16 bits: 69.3 GB where 63.9 were said, and 69.1 measured."""
    weights = [
        next(float(part.value or 0) for part in fit.answer.asked.parts if part.name == "weights")
        for word in (None, "mxfp4", "mxfp4-experts")
        if (fit := tl.plan.fit("gpt-oss-120b", device="H200", precision=word)).answer.asked
    ]
    assert len(set(weights)) == 1


def test_one_user_alone_is_disturbed_by_nobody() -> None:
    asked: dict[str, Any] = {"device": "H100", "devices": 1, "prompt": "31K", "answer": 64}
    alone, rare = (tl.plan.capacity("8B", **asked, **load).answer for load in ({"users": 1}, {"rate": 0.0001}))
    assert isinstance(alone, ServingCapacity)
    assert isinstance(rare, ServingCapacity)
    one, other = alone.figure("tpot"), rare.figure("tpot")
    assert one is not None
    assert other is not None
    assert "step-prefills" not in [each.name for each in one.inputs]
    assert one.number == pytest.approx(other.number, rel=0.01)


def test_one_user_of_two_copies_is_one_user() -> None:
    found = tl.plan.capacity("8B", device="H100", devices=2, users=1).answer
    alone = tl.plan.capacity("8B", device="H100", devices=1, users=1).answer
    assert isinstance(found, ServingCapacity)
    assert isinstance(alone, ServingCapacity)
    assert (found.plan.load, found.plan.copies) == (1, 2)
    many = [each.figure("requests") for each in (found, alone)]
    assert many[0] is not None
    assert many[1] is not None
    assert many[0].number == pytest.approx(many[1].number)


def test_a_cache_in_another_format_is_asked_of_both_verbs() -> None:
    fit = tl.plan.fit("8B", device="H100", kv="fp8", users=4, context="8K")
    found = tl.plan.capacity("8B", device="H100", devices=1, kv="fp8", users=4, prompt=7936, answer=256, of="mean",
                             ttft="99h", tpot="99h").answer  # fmt: skip
    assert isinstance(found, ServingCapacity)
    assert next(each.value for each in fit.answer.most if each.name == "most-users") == found.most.value


def test_a_deadline_is_the_same_in_check_and_capacity() -> None:
    """`check` said 51 H100 by an assumed MFU where `capacity` said that 64 take 12.1 h."""
    asked: dict[str, Any] = {"device": "H100", "devices": 64, "train": "full", "tokens": "2B"}
    found = tl.plan.capacity("70B", within="12h", **asked).answer
    checked = {each.name: each for each in tl.plan.check("70B", deadline="12h", **asked).answer.time}
    assert isinstance(found, TrainingCapacity)
    assert found.devices is not None
    assert found.whole is not None
    assert checked["devices-needed"].value == found.devices.value
    assert checked["run-time"].value == found.whole.value
    assert int(found.devices.value or 0) % 8 == 0
    fewer = tl.plan.capacity(
        "70B", within="12h", **asked | {"devices": int(found.devices.value or 0) - 8, "batch": 512}
    )
    assert isinstance(fewer.answer, TrainingCapacity)
    assert fewer.answer.is_met is False


def test_layers_that_stages_cannot_share_evenly_are_counted_on_the_fullest() -> None:
    """405B has 126 layers and was trained on 16 stages (arXiv 2407.21783): `fit` refused, `capacity` accepted."""
    asked: dict[str, Any] = {"device": "H100", "devices": 128, "train": "full", "tensor": 8, "pipeline": 16}
    fit, found = tl.plan.fit("405B", **asked), tl.plan.capacity("405B", **asked).answer
    assert isinstance(found, TrainingCapacity)
    assert (fit.fits, found.fits) == (True, True)
    for verb in (tl.plan.fit, tl.plan.capacity):
        with pytest.raises(BadInput, match="more than the 126 layers"):
            verb("405B", device="H100", devices=127, train="full", pipeline=127)
