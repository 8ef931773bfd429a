"""Choice of a method: hand-worked hours, rules that decide, and laws that hold whatever is needed."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from twinlens.planning.check.deadline import Mfu
from twinlens.planning.method import WAYS, Asked, Method, Way, method_answer, way_of
from twinlens.planning.need import CHANGES, METHOD_RULES, Need, ruling
from twinlens.planning.subject import Subject
from twinlens.spec.device import load_device
from twinlens.spec.model.reference import load_model
from twinlens.theory.flop import prefill_flop
from twinlens.theory.parameter import parameters

H100 = load_device("h100-sxm-80gb")
SHAPE: Any = load_model("llama-3.1-8b").shape
LLAMA = Subject("llama-3.1-8b", parameters(SHAPE).total, SHAPE)
RATE = H100.rate("bf16") or 0.0


def asked(devices: int = 8, **need: Any) -> Asked:
    return Asked(Need(**need), LLAMA, H100, devices)


def answer(devices: int = 8, **need: Any) -> Method:
    return method_answer(asked(devices, **need))


def chosen(devices: int = 8, **need: Any) -> str | None:
    found = answer(devices, **need).chosen
    return found.name if found else None


def hours(way: Way) -> float:
    return float(way.hours.value or 0)


@pytest.mark.parametrize(
    ("need", "name"),
    [
        ({}, "prompt"),
        ({"corpus": 2e7, "changes": "daily"}, "retrieval"),
        ({"corpus": 2e7}, "retrieval"),
        ({"corpus": 1000.0, "changes": "daily"}, "prompt"),
        ({"style": True, "examples": 2000}, "lora"),
        ({"style": True, "examples": 100_000, "requests": 1e9}, "full"),
        ({"style": True}, "prompt"),
        ({"corpus": 2e7, "style": True, "examples": 2000}, "retrieval+lora"),
        ({"own_weights": True}, "scratch"),
    ],
)
def test_what_is_needed_decides(need: dict[str, Any], name: str) -> None:
    assert chosen(**need) == name


def test_retrieval_costs_the_prefill_of_longer_prompts_by_hand() -> None:
    """A million requests × (FLOP of 2,560 tokens − of 512) / (0.4 × the rate)."""
    way = way_of("retrieval", asked(corpus=2e7, requests=1e6))
    extra = float(prefill_flop(SHAPE, 2560)) - float(prefill_flop(SHAPE, 512))
    assert way.monthly.value == pytest.approx(1e6 * extra / (0.4 * RATE) / 3600)
    assert extra > 2 * 2048 * (LLAMA.params - 2 * 128256 * 4096)  # attention comes on top of every matrix
    assert way.once.value == 0


def test_a_bare_size_by_hand() -> None:
    """4 × 7e9 × 2,000 × 512 × 3 FLOP of LoRA / (0.5 × rate), and 2 × 7e9 × 8 × 512 a request with examples."""
    need = Need(style=True, examples=2000, requests=1000.0, price=(Decimal(2), Decimal(2)))
    bare = Asked(need, Subject("7B", 7_000_000_000), H100, 8, Mfu(0.5, 0.5, 0.5, "asked"))
    lora, prompt = way_of("lora", bare), way_of("prompt", bare)
    assert hours(lora) == pytest.approx(4 * 7e9 * 2000 * 512 * 3 / (0.5 * RATE) / 3600)
    assert hours(prompt) == pytest.approx(12 * 1000 * 2 * 7e9 * 8 * 512 / (0.5 * RATE) / 3600)
    assert lora.cost.value == (Decimal(str(hours(lora))) * 2).quantize(Decimal("0.01"))
    assert lora.cost.low == lora.cost.value == lora.cost.high


def test_weights_that_hold_changing_facts_are_trained_again() -> None:
    once, daily = (way_of("lora", asked(corpus=2e7, changes=each)) for each in ("never", "daily"))
    assert once.monthly.value == 0
    assert float(daily.monthly.value or 0) == pytest.approx(365 / 12 * float(once.once.value or 0))
    slow = way_of("lora", asked(1, corpus=1e11, changes="daily"))
    assert "changes" in {each.subject for each in slow.against}


@pytest.mark.parametrize(
    ("need", "name", "why"),
    [
        ({"style": True}, "lora", "nothing-to-train-on"),
        ({"style": True, "examples": 2000, "deadline_s": 1.0}, "lora", "deadline"),
        (
            {"style": True, "examples": 2000, "price": (Decimal(3), Decimal(3)), "budget": Decimal("0.01")},
            "lora",
            "budget",
        ),
        ({"own_weights": True, "corpus": 2e7}, "retrieval", "own-weights"),
    ],
)
def test_what_is_out_of_the_question_says_why(need: dict[str, Any], name: str, why: str) -> None:
    assert why in {each.subject for each in way_of(name, asked(**need)).against}


def test_full_tuning_does_not_fit_one_device_and_says_how_many_it_takes() -> None:
    (found,) = [each for each in way_of("full", asked(1, style=True, examples=100)).against if each.subject == "memory"]
    assert found.numbers["needs"] > found.numbers["has"] == 1


def test_without_a_price_there_are_hours_and_no_money() -> None:
    way = way_of("retrieval", asked(corpus=2e7))
    assert hours(way) > 0
    assert way.cost.value is None
    assert way.cost.reason is not None


def test_every_step_has_a_rule_for_every_part_and_the_last_of_each_is_always() -> None:
    steps, parts = {rule.step for rule in METHOD_RULES}, {rule.part for rule in METHOD_RULES}
    assert steps == {step for each in WAYS.values() for step in each}
    for step in steps:
        for part in parts:
            last = [rule for rule in METHOD_RULES if (rule.step, rule.part) == (step, part)][-1]
            assert last.when == ""


needs = st.builds(
    Need,
    changes=st.sampled_from(CHANGES),
    corpus=st.sampled_from([0.0, 500.0, 1e6, 1e10]),
    examples=st.sampled_from([0, 10, 1000, 200_000]),
    style=st.booleans(),
    own_weights=st.booleans(),
    requests=st.floats(1, 1e9),
    price=st.just((Decimal(2), Decimal(4))),
)


@given(needs, st.sampled_from([1, 8]))
@settings(max_examples=30, deadline=None)
def test_nothing_that_is_possible_lacks_less_or_as_much_for_fewer_hours(need: Need, devices: int) -> None:
    found = method_answer(Asked(need, LLAMA, H100, devices))
    possible = [way for way in found.ways if not way.against]
    if found.chosen is None:
        assert not possible
        return
    assert found.chosen in possible
    best = (found.chosen.shortfall, hours(found.chosen))
    assert all(best <= (way.shortfall, hours(way)) for way in possible)
    for way in found.ways:
        assert way.cost.low <= way.cost.value <= way.cost.high  # type: ignore[operator]


@given(needs)
@settings(max_examples=15, deadline=None)
def test_a_flip_is_true_and_more_requests_never_cost_less(need: Need) -> None:
    found = method_answer(Asked(need, LLAMA, H100, 8))
    name = found.chosen.name if found.chosen else None
    for flip in found.flips:
        assert flip.numbers["way"] != name
        if flip.subject == "requests":
            other = replace(need, requests=flip.numbers["value"])
            assert chosen_name(other) == flip.numbers["way"]
    double = Asked(replace(need, requests=need.requests * 2), LLAMA, H100, 8)
    assert all(hours(way_of(way.name, double)) >= hours(way) for way in found.ways)


def chosen_name(need: Need) -> str | None:
    found = method_answer(Asked(need, LLAMA, H100, 8)).chosen
    return found.name if found else None


def test_a_rule_names_its_condition_and_its_source() -> None:
    rule = ruling("lora", "style", Need(style=True, examples=10), 8e9)
    assert (rule.level, rule.when) == ("partly", "few-examples")
    assert "2305.11206" in rule.source
