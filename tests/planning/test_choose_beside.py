"""Several served models: counts are sums of what each needs alone, and a device left out names the model."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import pytest

import twinlens as tl
from twinlens.errors import BadInput
from twinlens.planning.choose.candidate import Candidate, Ranking


@lru_cache(maxsize=16)
def serving(model: str, **options: Any) -> Ranking:
    given = {"inference": 100, "users": 16, "context": "8K", "among_devices": "H100,H200,L4", **options}
    found = tl.plan.choose(model, **given).answer.inference
    assert found is not None
    return found


def of(ranking: Ranking, device: str) -> Candidate:
    found = ranking.of(device)
    assert found is not None
    return found


def test_counts_are_the_sum_of_the_smallest_of_each_by_hand() -> None:
    """16 users of 8K: 141.1 GB of 70B in 16 bits are 4 × 80 GB with their cache; 16.1 GB of 8B are one: 5, so two
    boards of four, at 10.2 kW for eight."""
    both = of(serving("70B", beside="8B"), "h100-sxm-80gb")
    assert [(each.model, each.devices) for each in both.parts] == [("llama-3.1-70b", 4), ("llama-3.1-8b", 1)]
    assert (both.used, both.devices) == (5, 8)
    assert both.power_w == pytest.approx(8 * 10_200 / 8)


def test_what_all_serve_is_the_sum_over_all_devices() -> None:
    whole = of(serving("70B", beside="8B,qwen3-8b"), "h200-sxm-141gb")
    alone = whole.parts
    assert whole.used == sum(each.used for each in alone)
    for end in ("low", "value", "high"):
        served = sum(each.used * each.rate.end(end) for each in alone)
        assert whole.rate.end(end) == pytest.approx(served / whole.devices)
    slowest = max(each.times[0].number for each in alone)
    assert whole.times[0].number == pytest.approx(slowest)
    for name, gain in whole.limit.gains.items():
        assert gain == min(each.limit.gains[name] for each in alone)


def test_a_device_that_holds_one_and_not_the_other_names_the_model() -> None:
    """An L4 has 24 GB: 8B in 16 bits fits on one or two, 141.1 GB on no 2 of them."""
    assert serving("8B", most_devices=2, users=1, among_devices="L4", speed=5).of("l4") is not None
    found = serving("8B", beside="70B", most_devices=2, users=1, among_devices="L4,B200", speed=5)
    assert [each.device for each in found.candidates] == ["b200-sxm-180gb"]
    (left,) = found.rejected
    assert (left.device, left.reason.subject, left.reason.numbers["model"]) == ("l4", "memory", "llama-3.1-70b")


def test_limits_of_the_site_are_of_all_devices_together() -> None:
    five = {"among_devices": "H100,B200"}
    by_count = serving("70B", beside="8B", most_devices=4, **five).rejected
    by_power = serving("70B", beside="8B", power="10kW", among_devices="H100,L40S").rejected
    assert [(each.device, each.reason.subject) for each in by_count] == [("h100-sxm-80gb", "together")]
    assert [(each.device, each.reason.subject) for each in by_power] == [("h100-sxm-80gb", "power")]
    assert (by_count[0].reason.numbers["devices"], by_power[0].reason.numbers["needed_w"]) == (5, 10_200)


def test_a_model_has_its_own_users_and_context() -> None:
    asked = tl.plan.choose("70B", inference=100, users=16, beside="8B:64:4K,qwen3-8b::2K", among_devices="H200")
    wanted = asked.answer.wanted.serving
    assert wanted is not None
    assert [(each.users, each.prompt + each.answer) for each in wanted.models] == [(16, 8192), (64, 4096), (16, 2048)]
    whole = of(asked.answer.inference, "h200-sxm-141gb")  # type: ignore[arg-type]
    like = of(serving("8B", users=64, context="4K", beside="qwen3-8b"), "h200-sxm-141gb").parts[0]
    assert whole.parts[1].rate.number == pytest.approx(like.rate.number)
    plain = tl.plan.fit("70B", users=64, context="4K", device="H200", precision="fp8").answer.asked
    fitted = tl.plan.fit("8B", users=16, beside="70B:64:4K", device="H200", precision="fp8").answer.asked
    assert plain is not None
    assert fitted is not None
    assert fitted.parts[-1].number == pytest.approx(plain.needed.number)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"beside": "qwen3-8"}, "did you mean 'qwen3-8b'"),
        ({"beside": " ,"}, "--beside names no model"),
        ({"beside": "8B:0"}, "--beside"),
        ({"beside": "8B:1:2:3"}, "its users and its context"),
        ({"beside": "gpt3-175b", "context": "64K"}, "gpt3-175b"),
        ({"beside": "8B", "inference": 0}, "--beside is of inference"),
        ({"beside": "8B", "users": 16, "most_devices": 4, "among_devices": "H100"}, "possible with --most-devices 5"),
    ],
)
def test_what_cannot_be_is_one_sentence(options: dict[str, Any], words: str) -> None:
    with pytest.raises(BadInput) as wrong:
        tl.plan.choose("70B", **{"inference": 100, "context": "8K", **options})
    assert words in str(wrong.value)
    assert "\n" not in str(wrong.value)


@pytest.mark.parametrize(("name", "asked"), [("speed", "3000"), ("ttft", "10ms"), ("power", "800W")])
def test_what_is_said_to_be_possible_for_all_is(name: str, asked: str) -> None:
    given = {"beside": "405B,8B", "among_devices": "H200,B200"}
    with pytest.raises(BadInput) as wrong:
        serving("70B", **given, **{name: asked})
    told = str(wrong.value).rpartition(f"--{name} ")[2].split(" ")[0]
    assert serving("70B", **given, **{name: told}).candidates


def test_each_model_is_served_as_its_maker_publishes_it() -> None:
    """gpt-oss-20b beside 8B was taken in 16 bits, as 8B is: 41.8 GB for 13.8."""
    both = of(serving("8B", beside="gpt-oss-20b"), "h100-sxm-80gb")
    assert [(each.model, each.precision) for each in both.parts] == [
        ("llama-3.1-8b", "bf16"), ("gpt-oss-20b", "mxfp4-experts"),
    ]  # fmt: skip
    assert both.precision == "bf16 + mxfp4-experts"
    assert both.parts[1].memory_share < 0.5  # of 77 GB


def test_formats_that_were_asked_for_stand_side_by_side() -> None:
    found = serving("8B", beside="qwen3-8b", precision="bf16,fp8", among_devices="H100")
    assert sorted(each.precision for each in found.candidates) == ["bf16", "fp8"]
    for each in found.candidates:
        assert {part.precision for part in each.parts} == {each.precision}
