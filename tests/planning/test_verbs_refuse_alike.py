"""What one verb of planning refuses, every other that is asked the same refuses too; and none by what nobody said."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import twinlens as tl
from twinlens.errors import BadInput
from twinlens.planning.capacity.serving import ServingCapacity

SEVEN: list[tuple[Callable[..., Any], tuple[str, ...], dict[str, Any]]] = [
    (tl.plan.fit, ("qwen2.5-7b",), {"device": "H100", "devices": 7}),
    (tl.plan.check, ("qwen2.5-7b",), {"device": "H100", "devices": 7}),
    (tl.plan.capacity, ("qwen2.5-7b",), {"device": "H100", "devices": 7, "tensor": 7}),
    (tl.plan.cost, (), {"model": "qwen2.5-7b", "device": "H100", "devices": 7, "tensor": 7, "rent": "2 USD/h"}),
]


@pytest.mark.parametrize(("verb", "model", "asked"), SEVEN, ids=lambda each: getattr(each, "__name__", ""))
def test_heads_that_seven_devices_cannot_share_are_refused_in_one_sentence(
    verb: Callable[..., Any], model: tuple[str, ...], asked: dict[str, Any]
) -> None:
    """28 heads share, their 4 KV heads do not: `fit` said so, and `capacity`, `check` and `cost` went on."""
    copies = "more devices serve as copies: plan capacity"
    with pytest.raises(
        BadInput, match=rf"7 devices cannot divide 28 heads \(4 KV heads\) evenly; legal: 1, 2, 4; {copies}$"
    ):
        verb(*model, **asked)


def test_a_context_beyond_the_positions_is_refused_by_every_verb() -> None:
    """`check` said "memory: no, 103.7 GB" of 32,768 tokens that the model does not have."""
    for verb, asked in (
        (tl.plan.fit, {"device": "H200"}), (tl.plan.check, {"device": "H200"}), (tl.plan.choose, {"inference": 100})
    ):  # fmt: skip
        with pytest.raises(BadInput, match="--context 32,768 is more than the 4,096 positions of yi-34b"):
            verb("yi-34b", context="32K", **asked)  # type: ignore[operator]


def test_a_context_that_nobody_said_is_within_the_positions() -> None:
    """`fit` and `choose` refused a model of 4,096 positions for the 8,192 of their own default."""
    fit = tl.plan.fit("yi-34b", device="H200")
    assert fit.answer.plan.context == 4096
    assert tl.plan.check("yi-34b", device="H200").answer.memory.fits == fit.fits
    assert tl.plan.choose("yi-34b", inference=100, among_devices="H200").answer.inference is not None


def test_training_beyond_the_positions_is_planned_by_every_verb() -> None:
    asked: dict[str, Any] = {"device": "H100", "devices": 8, "train": "full"}
    assert tl.plan.fit("mpt-7b", context=4096, **asked).fits is True
    assert tl.plan.capacity("mpt-7b", context=4096, **asked).answer.fits is True  # type: ignore[union-attr]
    assert tl.plan.choose("mpt-7b", training=100, length=4096, among_devices="H100").answer.training is not None


def test_training_on_a_processor_is_checked_and_its_time_is_not_known() -> None:
    """`check` ended in an error once tokens were said, so that memory, power and driver went unchecked, too."""
    found = tl.plan.check("8B", device="xeon-6980p", train="lora", tokens="1B", deadline="12h, 18h").answer
    assert found.memory.fits == tl.plan.fit("8B", device="xeon-6980p", train="lora").fits
    assert [(each.name, each.value) for each in found.time] == [
        ("device-hours", None), ("run-time", None), ("devices-needed", None), ("devices-needed", None)
    ]  # fmt: skip
    assert {each.reason.numbers["needs"] for each in found.time if each.reason} == {"time"}
    said = tl.plan.check("8B", device="xeon-6980p", train="lora", tokens="1B", mfu="0.2..0.4").answer.time
    assert said[0].value is not None


@pytest.mark.parametrize(
    ("device", "asked", "reason"),
    [("H100", {"precision": "fp8", "context": "2K"}, "room"), ("xeon-6980p", {}, "accelerator")],
)
def test_users_that_are_none_have_their_reason(device: str, asked: dict[str, Any], reason: str) -> None:
    """A model without room was said to be one whose "format or device is not predicted"."""
    speed = tl.plan.check("70B", device=device, **asked).answer.speed
    assert [each.reason.numbers["needs"] for each in speed if each.reason] == [reason, reason]


def test_devices_are_divided_so_that_all_users_have_room() -> None:
    """The fewest devices a copy whose times kept the target were taken, and the answer was "no, the room"."""
    asked: dict[str, Any] = {"device": "trainium2", "devices": 16, "users": 700}
    found = tl.plan.capacity("llama-2-70b", prompt=1792, answer=256, ttft="10min", tpot="1s", of="mean", **asked).answer
    assert isinstance(found, ServingCapacity)
    assert tl.plan.fit("llama-2-70b", context=2048, **asked).fits is True
    assert found.missed is None
    assert found.most.number >= 700


def test_requests_at_random_are_served_one_at_a_time_where_there_is_room_for_one() -> None:
    """One user was served, and 0.001 requests/s were "a queue without end", so that `cost` had no load at all."""
    asked: dict[str, Any] = {
        "device": "trainium3", "devices": 8, "tensor": 8, "precision": "fp8", "prompt": 32_512, "answer": 256,
        "of": "mean", "ttft": "99h", "tpot": "99h",
    }  # fmt: skip
    alone = tl.plan.capacity("kimi-k2", users=1, **asked).answer
    rare, busy = (tl.plan.capacity("kimi-k2", rate=rate, **asked).answer for rate in (1e-6, 0.04))
    over = tl.plan.capacity("kimi-k2", rate=0.2, **asked).answer
    for each in (alone, rare, busy, over):
        assert isinstance(each, ServingCapacity)
    one, ttft, queued = (each.figure("ttft").number for each in (alone, rare, busy))  # type: ignore[union-attr]
    step = alone.figure("tpot").number  # type: ignore[union-attr]
    assert busy.figure("tpot").number == pytest.approx(step)  # type: ignore[union-attr]
    assert ttft == pytest.approx(one, rel=0.01)
    spent = next(each.value for each in alone.figure("ttft").inputs if each.name == "prefill") + 256 * step  # type: ignore[union-attr]
    used = 0.04 * spent
    assert queued - ttft == pytest.approx(spent * used / (2 * (1 - used)), rel=0.01)
    assert over.figure("tpot").value is None  # type: ignore[union-attr]
    assert alone.most.number == 1  # type: ignore[union-attr]
    assert tl.plan.cost(model="kimi-k2", device="trainium3", devices=8, precision="fp8", input_tokens=32_512,
                        output_tokens=256, rent="2 USD/h", ttft="99h", tpot="99h", of="mean")  # fmt: skip


def test_a_fit_that_is_no_as_one_copy_names_the_copies_that_hold_it() -> None:
    """`capacity` serves 100 users of 32K on 16 devices as copies, and `fit` of one copy over all said No."""
    fit = tl.plan.fit("gpt-oss-20b", precision="fp8", users=100, context="32K", device="rtx-4080", devices=16)
    assert fit.fits is False
    (told,) = (each.numbers for each in fit.answer.changes if each.subject == "copies")
    assert (told["copies"], told["users"], told["tensor"]) == (2, 50, 8)
    each = tl.plan.fit("gpt-oss-20b", precision="fp8", users=50, context="32K", device="rtx-4080", devices=8)
    assert each.fits, "each copy does fit"
    assert "2 copies of it with 50 users each, on 8 × rtx-4080 each" in " ".join(repr(fit).split())
    assert tl.plan.fit("8B", users=300, context="128K", device="H100", devices=8).fits is False
    alone = tl.plan.fit("8B", users=300, context="128K", device="H100", devices=8).answer.changes
    assert "copies" not in {each.subject for each in alone}, "no copy holds its share either"
