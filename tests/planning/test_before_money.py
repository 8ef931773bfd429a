"""Checks before money goes: hand-worked vectors, what is not known, and laws that hold whatever is asked."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from each import each
from twinlens.api.plan.check import check
from twinlens.errors import BadInput
from twinlens.planning.check.answer import Stack, rulings, version
from twinlens.planning.check.deadline import Mfu, deadlines, device_hours, exposure, run_time
from twinlens.planning.check.interconnect import Supply, joined, power_figures
from twinlens.planning.check.perceived import users_at
from twinlens.planning.fit.serving import Serving
from twinlens.planning.fit.training import Training
from twinlens.planning.prediction.question import ServingQuestion
from twinlens.planning.subject import Subject
from twinlens.spec.catalogue import shipped
from twinlens.spec.compatibility import FailureRate, Rule, shipped_rates, shipped_rules
from twinlens.spec.device import DenseRates, list_devices, load_device
from twinlens.spec.model.reference import load_model
from twinlens.theory.figure import Figure
from twinlens.theory.parameter import parameters

H100, L40S, B200 = (load_device(name) for name in ("h100-sxm-80gb", "l40s", "b200-sxm-180gb"))
SHAPE = load_model("llama-3.1-70b").shape
LLAMA = Subject("llama-3.1-70b", parameters(SHAPE).total, SHAPE)  # type: ignore[arg-type]


def by_name(figures: tuple[Figure, ...]) -> dict[str, float]:
    return {one.name: float(one.value or math.nan) for one in figures}


def test_power_of_eight_h100_by_hand() -> None:
    """8 × 700 W / 0.94; × 3.412142; × 3600 / (1.204 × 1006 × 10); / (230 × 0.95); / 0.8; × 24 h."""
    found = by_name(power_figures(H100, 8, Supply(rise_k=10), 24))
    assert found["wall"] == pytest.approx(5957.447)
    assert found["heat"] == pytest.approx(20327.65, rel=1e-6)
    assert found["air"] == pytest.approx(1770.67, rel=1e-5)
    assert found["amps"] == pytest.approx(27.2652, rel=1e-5)
    assert found["circuit"] == pytest.approx(34.0815, rel=1e-5)
    assert found["energy"] == pytest.approx(142.9787, rel=1e-6)


def test_three_phases_share_the_current_and_a_host_draws_too() -> None:
    """(5600 + 4600) / 0.94 / (√3 × 400 × 0.95) = 16.486 A."""
    found = by_name(power_figures(H100, 8, Supply(volts=400, phases=3, host_w=4600)))
    assert found["amps"] == pytest.approx(16.4865, rel=1e-4)


def test_a_device_without_watts_has_no_power_and_says_so() -> None:
    (wall,) = power_figures(load_device("tpu-v5e"), 4, Supply())
    assert wall.value is None
    assert wall.reason is not None


@given(st.integers(1, 4096), st.floats(100, 480), st.floats(1, 40))
@settings(max_examples=50, deadline=None)
def test_more_devices_draw_more_and_higher_volts_take_less_current(many: int, volts: float, rise: float) -> None:
    less = by_name(power_figures(H100, many, Supply(volts=volts, rise_k=rise)))
    more = by_name(power_figures(H100, many + 1, Supply(volts=volts, rise_k=rise)))
    higher = by_name(power_figures(H100, many, Supply(volts=volts * 2, rise_k=rise * 2)))
    assert more["wall"] > less["wall"] > H100.tdp_w * many  # type: ignore[operator]
    assert higher["amps"] == pytest.approx(less["amps"] / 2)
    assert higher["air"] == pytest.approx(less["air"] / 2)


def test_interruptions_of_a_thousand_hours_by_hand() -> None:
    """419 × 8 × 1000 / 21,233,664 = 0.15786; at least one: 1 − e^−0.15786 = 14.6 %."""
    events, chance, *_ = exposure("h100-sxm-80gb", 8, 1000.0, shipped_rates())
    assert events.value == pytest.approx(0.157863, rel=1e-5)
    assert chance.value == pytest.approx(0.146033, rel=1e-5)
    assert events.low < events.value < events.high  # type: ignore[operator]
    assert "2407.21783" in events.source


def test_no_event_in_a_count_is_a_bound_and_not_a_promise() -> None:
    """The 95 % upper end of a count of 0 is −ln 0.05 = 2.9957."""
    rate = FailureRate(device="l40s", what="interruption", events=0, device_hours=1e5, date="2026-01-01", source="own")
    events, _ = exposure("l40s", 1, 1e5, (rate,))
    assert (events.value, events.low) == (0, 0)
    assert events.high == pytest.approx(-math.log(0.05))


@pytest.mark.parametrize(("device", "hours"), [("l40s", 100.0), ("h100-sxm-80gb", None)])
def test_errors_that_nobody_counted_are_not_known(device: str, hours: float | None) -> None:
    (events,) = exposure(device, 8, hours, shipped_rates())
    assert events.value is None
    assert events.reason is not None


def test_a_deadline_of_a_bare_size_by_hand() -> None:
    """6 × 7e9 × 2e9 FLOP / (0.4 × the rate) is 59 device-hours: 5 devices for 12 h, 4 for 18 h."""
    plan = Training(Subject("7B", 7_000_000_000))
    hours = device_hours(plan, H100, 2e9, Mfu())
    rate = H100.rate("bf16") or 0
    assert hours.value == pytest.approx(8.4e19 / (0.4 * rate) / 3600)
    assert [one.value for one in deadlines(hours, (12 * 3600, 18 * 3600))] == [5, 4]
    assert run_time(hours, 5).value == pytest.approx(float(hours.value or 0) * 720)


@given(st.floats(1e6, 1e13), st.floats(60, 1e7), st.integers(1, 512))
@settings(max_examples=50, deadline=None)
def test_an_earlier_deadline_never_takes_fewer_devices_and_those_it_takes_are_enough(
    tokens: float, target: float, devices: int
) -> None:
    hours = device_hours(Training(LLAMA, "lora"), H100, tokens, Mfu())
    late, early = deadlines(hours, (target, target / 2))
    assert early.value >= late.value  # type: ignore[operator]
    assert float(run_time(hours, int(late.value or 0)).value or 0) <= target * (1 + 1e-9)
    assert late.low <= late.value <= late.high  # type: ignore[operator]


def test_prefill_of_70b_needs_nvlink_by_hand() -> None:
    """2 devices: 2 × 80 × 8192 × 2 B × 1 = 2.62 MB a token, in the time of half its FLOP at 40 % of the rate."""
    plan, link = Serving(LLAMA, "bf16"), shipped().link("pcie4-x16")
    found, quick = (joined(plan, H100, 2, one, Mfu()) for one in (link, shipped().link_of(H100)))
    assert found is not None
    assert quick is not None
    sent = 2 * 80 * 8192 * 2
    work = 2 * parameters(SHAPE).matmul / 2 / (0.4 * (H100.rate("bf16") or 0))  # type: ignore[arg-type]
    assert found.needed.value == pytest.approx(sent * 4 / work)
    assert found.taken.value == pytest.approx(sent / 31.5e9 / (sent / 31.5e9 + work))
    assert (found.enough, quick.enough) == (False, True)
    assert joined(plan, H100, 1, link, Mfu()) is None


@pytest.mark.parametrize(
    ("device", "runtime", "precision", "axis", "verdict"),
    [
        ("h100-sxm-80gb", "vllm", "fp8", "runtime-precision", "yes"),
        ("a100-sxm-80gb", "vllm", "fp8", "runtime-precision", "limited"),
        ("b200-sxm-180gb", "vllm", "int8", "runtime-precision", "no"),
        ("t4", "vllm", "bf16", "runtime-precision", "no"),
        ("mi300x", "vllm", "awq-int4-g128", "runtime-precision", "no"),
        ("mi300x", "trtllm", "fp8", "runtime-device", "no"),
        ("rtx-4090", "trtllm", "fp8", "runtime-device", "limited"),
        ("v100-sxm2-32gb", "vllm", "fp16", "runtime-device", "limited"),
        ("h100-sxm-80gb", "llama.cpp", "q4_k_m", "runtime-precision", "yes"),
        ("h100-sxm-80gb", "llama.cpp", "fp8", "runtime-precision", "no"),
        ("b200-sxm-180gb", "vllm", "gptq-int4-g128", "runtime-precision", "unknown"),
        ("gaudi3", "vllm", "bf16", "runtime-device", "unknown"),
    ],
)
def test_what_makers_say_works_together(device: str, runtime: str, precision: str, axis: str, verdict: str) -> None:
    found = rulings(Stack("llama-3.1-70b", precision, load_device(device), runtime), shipped_rules())
    assert {one.axis: one.verdict for one in found}[axis] == verdict


@pytest.mark.parametrize(
    ("driver", "verdict"),
    [
        (None, "unknown"),
        ("570", "unknown"),
        ("571", "yes"),
        ("570.26", "yes"),
        ("570.124.06", "yes"),
        ("569.99", "no"),
        ("550.54.14", "no"),
    ],
)
def test_a_driver_is_judged_by_the_oldest_that_knows_the_device(driver: str | None, verdict: str) -> None:
    found = rulings(Stack("llama-3.1-8b", "bf16", B200, "vllm", driver), shipped_rules())
    assert {one.axis: one.verdict for one in found}["driver-device"] == verdict


def test_a_user_row_stands_before_the_package_and_no_row_says_unknown() -> None:
    stack = Stack("own-7b", "bf16", L40S, "vllm")
    own = Rule(axis="runtime-model", models=("own-",), verdict="yes", says="tried", date="2026-11-01", source="own")
    assert {one.axis: one.verdict for one in rulings(stack, shipped_rules())}["runtime-model"] == "unknown"
    assert {one.axis: one.verdict for one in rulings(stack, (own, *shipped_rules()))}["runtime-model"] == "yes"
    assert {one.verdict for one in rulings(stack, ())} == {"unknown"}


@each(list_devices())
def test_every_yes_has_a_source_and_a_date(name: str) -> None:
    for runtime in ("vllm", "trtllm", "llama.cpp"):
        for ruling in rulings(Stack("llama-3.1-8b", "bf16", load_device(name), runtime, "600"), shipped_rules()):
            assert ruling.verdict == "unknown" or (ruling.source and ruling.date)


@pytest.mark.parametrize("word", ["", "new", "5x", "550-54", "550..1", "-5"])
def test_a_driver_that_is_no_version_is_refused(word: str) -> None:
    with pytest.raises(BadInput, match="is no version"):
        version(word)


def test_users_on_a_device_without_a_rate_are_not_known_and_the_rate_is_the_reason() -> None:
    unrated = load_device("gb10").model_copy(update={"dense_flop_per_s": DenseRates(fp4=500e12)})
    asked = ServingQuestion("llama-3.1-70b", SHAPE, unrated, "fp8", 1024, 256, users=1, engine="vllm")
    found = users_at(asked, 30, "users")
    assert found.value is None
    assert found.reason is not None
    assert found.reason.numbers["needs"] == "device-rate"


def test_a_faster_pace_never_has_more_users_and_an_impossible_one_has_none() -> None:
    asked = ServingQuestion("llama-3.1-70b", SHAPE, H100, "fp8", 1792.0, 256.0, users=1.0, tensor=4, engine="vllm")  # type: ignore[arg-type]
    fast, slow, never = (users_at(asked, speed, "users") for speed in (30, 10, 1e5))
    assert 1 <= fast.value < slow.value  # type: ignore[operator]
    assert fast.low <= fast.value <= fast.high  # type: ignore[operator]
    assert never.value is None
    assert never.reason is not None
    other = users_at(replace(asked, precision="nf4-double"), 30, "users")
    assert other.value is None


@pytest.mark.parametrize(
    ("name", "devices", "link", "bytes_per_s"),
    [
        ("h100-sxm-80gb", 8, "nvlink4", 450e9),
        ("h100-sxm-80gb", 16, "infiniband-ndr", 50e9),
        ("a100-sxm-80gb", 512, "infiniband-hdr", 25e9),
        ("l4", 8, "pcie4-x16", 31.5e9),
        ("l4", 16, "pcie4-x16", 31.5e9),
    ],
)
def test_devices_of_several_nodes_are_joined_by_the_network(
    name: str, devices: int, link: str, bytes_per_s: float
) -> None:
    found = shipped().link_among(shipped().device(name), devices)
    assert found is not None
    assert found.name == link
    assert found.one_way_bytes_per_s == pytest.approx(bytes_per_s, rel=0.02)


def test_nvlink_is_not_enough_for_two_thousand_devices_of_two_hundred_nodes() -> None:
    asked: dict[str, Any] = {"train": "full", "device": "H100"}
    one, many = (check("70B", devices=devices, **asked).answer.link for devices in (8, 2048))
    assert one is not None
    assert many is not None
    assert (one.link, one.enough) == ("nvlink4", True)
    assert (many.link, many.enough) == ("infiniband-ndr", False)
