"""Groups that share experts: attention, cache and users of their own, and whole experts over all their devices."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import twinlens as tl
from twinlens.api.plan.fit import ServingFit, serving_of
from twinlens.api.plan.reading.subject import subject_of
from twinlens.errors import BadInput
from twinlens.planning.capacity.serving import ServingCapacity
from twinlens.planning.fit.answer import COUNTS, copy_layouts, group_degrees
from twinlens.planning.fit.serving import held, most_sequences, routed
from twinlens.planning.fit.serving_answer import placed
from twinlens.planning.prediction.answer import room
from twinlens.planning.prediction.question import ServingQuestion
from twinlens.planning.prediction.work import spoken
from twinlens.record.codec import encode
from twinlens.reporting.wording.finding import clause_of
from twinlens.spec.catalogue import shipped
from twinlens.spec.model.shape import DecoderShape

MIXTURES = ("deepseek-v3", "gpt-oss-120b", "qwen3-30b-a3b", "mixtral-8x7b")


def _plan(model: str, users: int = 64, precision: str | None = None) -> Any:
    asked = ServingFit.read("plan fit", {"model": model, "users": users, "context": 8192, "precision": precision})
    return serving_of(subject_of(model, shipped()), asked)


def _shape(model: str) -> DecoderShape:
    shape = subject_of(model, shipped()).shape
    assert shape is not None
    return shape


@pytest.mark.parametrize("model", MIXTURES)
def test_experts_are_divided_over_all_groups_and_the_rest_is_whole_in_each(model: str) -> None:
    plan = _plan(model)
    whole = held(plan, 80e9).weights_bytes
    experts = routed(plan.subject, plan.weight_format, plan.runtime.expert_block)
    count = _shape(model).experts.count  # type: ignore[union-attr]
    groups = count // 2
    found = held(plan, 80e9, groups=groups).weights_bytes
    assert found == pytest.approx(whole - experts + experts * 2 / count)
    assert found > whole / groups


def test_of_a_count_that_does_not_divide_the_experts_the_fullest_device_is_counted() -> None:
    """256 experts over 48 devices: 6 on some and 5 on the others."""
    plan = _plan("deepseek-v3", precision="fp8")
    experts = routed(plan.subject, plan.weight_format)
    dense = held(plan, 80e9).weights_bytes - experts
    assert held(plan, 80e9, groups=48).weights_bytes == pytest.approx(dense + experts * 6 / 256)
    assert held(plan, 80e9, tensor=2, groups=24).weights_bytes == pytest.approx(dense / 2 + experts * 6 / 256)


@pytest.mark.parametrize("model", MIXTURES)
@pytest.mark.parametrize(("tensor", "groups"), [(1, 2), (1, 8), (2, 4), (1, 3)])
def test_the_most_users_are_the_inverse_of_the_memory(model: str, tensor: int, groups: int) -> None:
    plan, bytes_each = replace(_plan(model), groups=groups), 0.9 * 288e9
    most = int(most_sequences(plan, bytes_each, 288e9, tensor))
    assert most % groups == 0
    if most:
        assert held(plan, 288e9, tensor, users=most).total_bytes <= bytes_each
    assert held(plan, 288e9, tensor, users=most + 1).total_bytes > bytes_each


def test_a_grid_of_layouts_is_its_rows() -> None:
    plan = _plan("deepseek-v3", 2150)
    ways = copy_layouts(_shape("deepseek-v3"), 96)
    tensor, groups = np.array(ways, dtype=float).T
    grid = held(plan, 198e9, tensor, 1, np.full(len(ways), 2150.0), groups).total_bytes
    assert list(grid) == [pytest.approx(held(plan, 198e9, t, 1, 2150, g).total_bytes) for t, g in ways]


def test_counts_between_powers_of_two_are_tried() -> None:
    assert {48, 72, 96, 112, 120} <= set(group_degrees(_shape("deepseek-v3")))
    assert group_degrees(_shape("llama-3.1-8b")) == (1,)
    assert max(group_degrees(_shape("mixtral-8x7b"))) == 8
    for tensor, groups in copy_layouts(_shape("deepseek-v3"), 128):
        assert tensor * groups in COUNTS


@pytest.mark.parametrize("model", MIXTURES)
def test_fit_check_capacity_and_choose_have_one_memory_of_groups(model: str) -> None:
    device, users = "h200", 64
    fit = tl.plan.fit(model, device=device, devices=8, groups=4, users=users, context="8K")
    assert fit.answer.asked is not None
    assert fit.answer.asked.split == {"tensor": 2, "pipeline": 1, "groups": 4}
    found = tl.plan.capacity(
        model, device=device, devices=8, tensor=2, groups=4, users=users, prompt=7936, answer=256, ttft="99h",
        tpot="99h", of="mean",
    ).answer  # fmt: skip
    assert isinstance(found, ServingCapacity)
    assert (found.plan.question.tensor, found.plan.question.data, found.plan.copies) == (2, 4, 1)
    assert (found.missed is None) == fit.fits
    most = next(each.value for each in fit.answer.most if each.name == "most-users")
    assert most == found.most.value or found.most.number >= 65_000
    subject = subject_of(model, shipped())
    plan = serving_of(subject, ServingFit(model=model, users=users, context=8192, groups=4))
    question = ServingQuestion(model, _shape(model), shipped().device("h200-sxm-141gb"), spoken(plan.weight_format),
                               7936, 256, 1.0, tensor=2, data=4, engine="vllm", subject=subject)  # fmt: skip
    assert room(question) == most


def test_devices_that_heads_do_not_divide_hold_a_mixture_in_groups_in_fit_and_check() -> None:
    """48 devices were refused: "48 devices cannot divide 128 heads"."""
    fit = tl.plan.fit("deepseek-v3", device="GB200", devices=48, precision="nvfp4", users=2150, context="9K")
    assert fit.fits is True
    assert fit.answer.asked is not None
    assert fit.answer.asked.split == {"tensor": 1, "pipeline": 1, "groups": 48}
    checked = tl.plan.check("deepseek-v3", device="GB200", devices=48, precision="nvfp4", users=2150, context="9K")
    assert encode(checked.answer.memory) == encode(fit.answer.asked)
    with pytest.raises(BadInput, match="48 devices cannot divide"):
        tl.plan.fit("llama-3.1-8b", device="GB200", devices=48)


def test_a_mixture_that_is_chosen_in_groups_fits_and_takes_fewer_devices() -> None:
    """2,150 users of 8K + 1K at 30 tokens/s: 152 GB200 in tensor groups alone."""
    found = tl.plan.choose("deepseek-v3", inference=100, precision="nvfp4", users=2150, context="9K", answer="1K",
                           speed=30, among_devices="GB200", most_devices=160)  # fmt: skip
    ranking = found.answer.inference
    assert ranking is not None
    best = ranking.candidates[0]
    assert best.split["groups"] > 1
    assert best.devices < 152
    copies = best.split["copies"]
    fit = tl.plan.fit(
        "deepseek-v3", device=best.device, devices=best.devices // copies, groups=best.split["groups"],
        precision=best.precision, users=-(-2150 // copies), context="9K",
    )  # fmt: skip
    assert fit.fits is True
    assert fit.answer.asked is not None
    assert best.memory_share == pytest.approx(fit.answer.asked.needed.number / fit.answer.asked.usable.number)
    assert {each.code for each in found.answer.left_out} == {"plan-not-considered"}
    assert found.to_json()["left_out"][0]["numbers"]["what"].startswith("disaggregation")


def test_what_is_not_considered_is_said_on_screen_page_and_json() -> None:
    found = tl.plan.capacity("gpt-oss-120b", device="H100", devices=8, users=64)
    assert isinstance(found.answer, ServingCapacity)
    (said,) = (each for each in found.answer.remarks if each.code == "plan-not-considered")
    assert clause_of(said).startswith("not considered: disaggregation")
    assert clause_of(said)[1:] in found.to_html()  # a page has a capital letter there
    assert clause_of(said) in found.to_markdown()
    assert "disaggregation" in str(found.to_json())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"model": "llama-3.1-8b", "groups": 4}, "this model has none"),
        ({"model": "mixtral-8x7b", "groups": 16}, "more than the 8 experts"),
        ({"model": "mixtral-8x7b", "groups": 3, "devices": 8}, "does? not divide|no multiple of --groups 3"),
        ({"model": "mixtral-8x7b", "groups": 0}, "--groups is a count"),
    ],
)
@pytest.mark.parametrize("verb", ["fit", "capacity"])
def test_groups_that_cannot_be_are_one_sentence(verb: str, options: dict[str, Any], words: str) -> None:
    with pytest.raises(BadInput, match=words):
        getattr(tl.plan, verb)(**{"device": "H100", **options})


def test_a_placement_says_its_groups() -> None:
    plan = replace(_plan("deepseek-v3", 64, "fp8"), groups=8)
    assert placed(plan, shipped().device("h200-sxm-141gb"), 1).devices == 8


def test_of_groups_it_is_said_that_the_first_token_is_hardly_known() -> None:
    """Held-out first tokens of groups lie off by a factor of 2.7: the band says it in numbers."""
    words = "the first token of groups that share experts is hardly known"
    for groups, devices in ((8, 8), (None, 8)):
        found = tl.plan.capacity(
            "deepseek-v3", device="GB200", devices=devices, groups=groups, tensor=None if groups else 8,
            precision="nvfp4", users=64, prompt="2K", answer=256,
        ).answer  # fmt: skip
        told = {each.subject: clause_of(each) for each in found.remarks if each.code == "plan-band"}
        assert (words in told["ttft"]) is (groups is not None)
        assert words not in told["tpot"]
