"""Siblings stand in the order of their datasheets, and what nobody calibrated is not predicted by what others are."""

from __future__ import annotations

import pytest

import twinlens as tl
from twinlens.api.plan.capacity import capacity
from twinlens.errors import BadInput
from twinlens.planning.prediction.answer import serving_answer
from twinlens.planning.prediction.place import product_rate
from twinlens.planning.prediction.question import ServingQuestion
from twinlens.spec.device import load_device


@pytest.mark.parametrize(
    ("lesser", "greater", "form"),
    [
        ("mi350x", "mi355x", "bf16"),
        ("b200-sxm-180gb", "b300-sxm-288gb", "fp4"),
        ("b300-sxm-288gb", "gb300", "fp4"),
        ("rtx-pro-6000-blackwell-server", "rtx-pro-6000-blackwell", "bf16"),
    ],
)
def test_a_lesser_part_is_not_predicted_to_be_faster_because_nobody_measured_it(
    lesser: str, greater: str, form: str
) -> None:
    assert product_rate(load_device(lesser), form) < product_rate(load_device(greater), form)


def test_no_unmeasured_part_reaches_more_of_its_peak_than_a_measured_one_of_its_kind() -> None:
    mi350x = load_device("mi350x")
    measured = load_device("mi355x").achieved("bf16") or 0.0
    assert product_rate(mi350x, "bf16") / 2300e12 == pytest.approx(measured / 2500e12)


def test_a_processor_is_not_predicted_by_constants_of_accelerators() -> None:
    """2 × xeon-6980p was told 2,535 tokens/s of 8B in int8, where 451 were served and 1,196 offline."""
    with pytest.raises(BadInput, match="is a processor, and public measurements calibrate accelerators alone"):
        capacity("8B", device="xeon-6980p", devices=2, users=4, precision="int8")


def question(tensor: int, engine: str) -> ServingQuestion:
    shape = tl.plan.fit("8B", device="h100").answer.plan.subject.shape
    return ServingQuestion("llama-3.1-8b", shape, load_device("rtx-4090"), "bf16", 512, 128, users=1.0, tensor=tensor,
                           engine=engine)  # fmt: skip


def test_llama_cpp_works_layer_after_layer_so_more_devices_decode_no_faster() -> None:
    one, four = (serving_answer(question(tensor, "llama.cpp")).tpot_s.value for tensor in (1, 4))
    assert four == pytest.approx(one, rel=1e-9)
    assert serving_answer(question(4, "vllm")).tpot_s.value < serving_answer(question(1, "vllm")).tpot_s.value


def test_b300_takes_no_more_devices_than_b200_in_four_bits() -> None:
    found = tl.plan.choose("405B", inference=100, users=64, context="8K", precision="nvfp4", among_devices="B200,B300")
    ranking = found.answer.inference
    assert ranking is not None
    counts = {each.device: each.devices for each in ranking.candidates}
    assert counts["b300-sxm-288gb"] <= counts["b200-sxm-180gb"]
