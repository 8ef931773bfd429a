"""Scale out or optimise: each outcome from its evidence, with the numbers worked by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diagnosis.saturated import CEILINGS, decoded, rate, request, served, step, told, trained
from twinlens.diagnosis.decoder import Decoder
from twinlens.diagnosis.evidence import Evidence
from twinlens.diagnosis.scale_out import batch_gain, device_gain, scale_out, utilisation
from twinlens.pages import find
from twinlens.record.estimate import Estimate
from twinlens.record.finding import Finding
from twinlens.reporting.wording.finding import advice_of, clause_of, sentence_of
from twinlens.spec.model.any_model import any_model
from twinlens.spec.precision import precision

MISSED = (Finding("slo-missed", "disqualifies", "ttft_s"),)


def demo(**changes: Any) -> Decoder:
    shape: Any = any_model("demo-34m").shape
    return replace(Decoder(shape, precision("fp32"), 1, 256, 16), **changes)


def under_slo(seen: Evidence, **parts: Any) -> Evidence:
    return replace(seen, **({"slo_share": 0.95} | parts))


OUTCOMES: dict[str, tuple[Evidence, str, str]] = {
    # 90 of 100 GFLOP/s in a step of 1 s: optimising gives 1/0.9, a second device 1/(0.1 + 0.9/2) = 1.82.
    "a busy step": (trained(step(data=0.1, forward=0.3, backward=0.6), 90e9), "scale-out", ""),
    "an idle step": (trained(step(data=0.1, forward=0.3, backward=0.6), 30e9), "optimise-first", "kernels"),
    "no ceilings": (trained(step(forward=1.0), ceilings={}), "scaling-undecided", "utilisation"),
    "an invalid run": (
        under_slo(served(request(decode=1.0), told(slo_attainment=1.0)), label="invalid"), "scaling-undecided", "valid",
    ),
    "a server without SLO": (served(request(decode=1.0)), "scaling-undecided", "slo"),
    "an SLO that is kept": (
        under_slo(served(request(queue=0.1, decode=0.9), told(slo_attainment=0.99))), "neither-needed", "",
    ),
    "an SLO that is unclear": (
        under_slo(served(request(decode=1.0), told(slo_attainment=0.9)),
                  findings=(Finding("slo-unclear", "warns", "ttft_s"),)), "scaling-undecided", "attainment",
    ),
    "a queue before full slots": (
        under_slo(served(request(queue=0.6, prefill=0.1, transport=0.1, decode=0.2),
                         told(slo_attainment=0.5, batching_efficiency=0.9)), findings=MISSED), "scale-out", "",
    ),
    "a queue before empty slots": (
        under_slo(served(request(queue=0.6, prefill=0.1, transport=0.1, decode=0.2),
                         told(slo_attainment=0.5, batching_efficiency=0.2)), findings=MISSED), "optimise-first",
        "slots",
    ),
    "a queue before slots that are not known": (
        under_slo(served(request(queue=0.6, decode=0.4), told(slo_attainment=0.5)), findings=MISSED),
        "scaling-undecided", "slots",
    ),
    "a queue that is not known": (
        under_slo(served(request(decode=0.5), told(slo_attainment=0.5)), findings=MISSED), "scaling-undecided", "queue",
    ),
    "transport": (
        under_slo(served(request(queue=0.1, transport=0.6, decode=0.3), told(slo_attainment=0.5)), findings=MISSED),
        "optimise-first", "host",
    ),
    "slow service": (
        under_slo(served(request(queue=0.1, transport=0.1, decode=0.8), told(slo_attainment=0.5)), findings=MISSED),
        "optimise-first", "service",
    ),
    "a queue and slow tokens": (
        under_slo(served(request(queue=0.6, transport=0.1, decode=0.3),
                         told(slo_attainment=0.5, batching_efficiency=0.9, tpot_s_within=0.4)), findings=MISSED),
        "optimise-and-scale-out", "",
    ),
    "overload without SLO": (
        replace(served(request(queue=0.6, transport=0.1, decode=0.3), told(batching_efficiency=0.9)),
                label="overload"), "scale-out", "",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("flop", "code"), [(80e9, "scale-out"), (20e9, "optimise-first")])
def test_a_decode_step_stands_for_slots_that_a_server_does_not_tell(flop: float, code: str) -> None:
    # 80 or 20 GFLOP in a second at 100 GFLOP/s: above or below the half at which a second device gives as much.
    seen = under_slo(served(request(queue=0.6, transport=0.1, decode=0.3), told(slo_attainment=0.5)), findings=MISSED)
    measured = replace(seen, phases=decoded(flop, 1e9).phases, ceilings=CEILINGS)
    found = scale_out(measured)
    assert found.code == code
    assert found.numbers["decode_use"] == pytest.approx(flop / 100e9)
    assert f"a decode step reaches {flop / 1e9:.0f} % of its ceiling" in sentence_of(found)


@pytest.mark.parametrize("case", OUTCOMES)
def test_each_outcome_comes_from_its_evidence_and_has_words_and_a_page(case: str) -> None:
    seen, code, decided_by = OUTCOMES[case]
    found = scale_out(seen)
    assert found.code == code
    assert (found.numbers.get("lever") or found.numbers.get("missing") or "") == decided_by
    assert not sentence_of(found).startswith("A check found")
    assert clause_of(found) != sentence_of(found)
    assert advice_of(found)
    assert find(code).name == "scale-out"


def test_a_step_has_its_numbers_worked_by_hand() -> None:
    found = scale_out(trained(step(data=0.1, forward=0.3, backward=0.6), 90e9))
    numbers = found.numbers
    # The step computes for 0.9 s of its second: 90 GFLOP at 100 GFLOP/s are 0.9 s, so 90 % is used and 0.1 s is left.
    assert numbers["utilisation"] == pytest.approx(0.9)
    assert numbers["headroom_s"] == pytest.approx(0.1)
    assert numbers["optimise_at_most"] == pytest.approx(1 / 0.9)
    # A second device halves 0.9 s and leaves the wait of 0.1 s: 0.55 s.
    assert numbers["device_at_most"] == pytest.approx(1 / 0.55)
    assert numbers["device_saves_s"] == pytest.approx(0.45)
    assert (numbers["flips_at"], numbers["flips_at_s"]) == pytest.approx((0.55, 0.9 / 0.55))


def test_the_more_devices_there_are_the_less_one_more_gives() -> None:
    seen = decoded(80e9, 1e9)
    assert [device_gain(replace(seen, devices=count)) for count in (1, 3)] == pytest.approx([2.0, 4 / 3])


def test_an_interval_around_the_flip_point_decides_nothing() -> None:
    seen = trained(step(data=0.1, forward=0.3, backward=0.6), 57e9)
    measured = Estimate(100.0, "tokens/s", "by hand", "measured", 90.0, 110.0, 0.95, 9)
    found = scale_out(replace(seen, metrics={"training_tokens_per_s": measured}))
    assert found.numbers["missing"] == "interval"
    assert (found.numbers["low"], found.numbers["high"]) == pytest.approx((0.513, 0.627))
    assert "51 % to 63 % contains 55 %" in sentence_of(found)
    assert scale_out(seen).code == "scale-out", "without an interval its value decides"


def test_ceilings_measured_twice_span_the_utilisation() -> None:
    seen = trained(step(forward=1.0), 50e9)
    slower = {"matrix_flop_per_s_at": rate(80e9, "flop/s")}
    used = utilisation(replace(seen, ceilings_after=slower))
    assert (used.low, used.value, used.high) == pytest.approx((0.5, 0.5, 0.625))


def test_work_above_its_ceiling_has_no_utilisation() -> None:
    used = utilisation(trained(step(forward=1.0), 130e9))
    assert used.value is None
    assert "above a measured ceiling" in (used.reason or "")


def test_a_larger_batch_gains_what_the_roofline_allows() -> None:
    # One sequence of fp32: a plain read binds decode. Work on each sequence stays, reading the weights is shared.
    seen = replace(decoded(1e9, 4e9), decoder=demo(), partition=request(decode=1.0))
    twice, many = batch_gain(seen, 2.0), batch_gain(seen)
    assert twice is not None
    assert many is not None
    weights, cache = 117_499_904.0, 4_341_760.0  # 29.4 M weights in fp32; 264 tokens read and one written, 16 KiB each
    assert twice == pytest.approx(2 * (weights + cache) / (weights + 2 * cache), rel=0.01)
    assert 1 < twice < 2 < many


def test_batch_gain_needs_a_decoder_and_ceilings() -> None:
    assert batch_gain(decoded(1e9, 4e9)) is None
    assert batch_gain(replace(decoded(1e9, 4e9, ceilings={}), decoder=demo())) is None


@given(st.lists(st.floats(1e9, 110e9), min_size=2, max_size=2))
def test_more_of_the_device_in_use_never_turns_scale_out_into_optimise(done: list[float]) -> None:
    order = {"optimise-first": 0, "scale-out": 1}
    codes = [scale_out(trained(step(data=0.1, forward=0.3, backward=0.6), flop)).code for flop in sorted(done)]
    assert order[codes[0]] <= order[codes[1]]


@given(st.floats(0.0, 1.0), st.floats(0.0, 1.0))
def test_fuller_slots_never_turn_scale_out_into_optimise(one: float, other: float) -> None:
    order = {"optimise-first": 0, "scale-out": 1}
    parts = request(queue=0.6, transport=0.1, decode=0.3)
    codes = [
        scale_out(under_slo(served(parts, told(slo_attainment=0.5, batching_efficiency=full)), findings=MISSED)).code
        for full in sorted((one, other))
    ]
    assert order[codes[0]] <= order[codes[1]]


@given(st.floats(1e9, 110e9), st.integers(1, 64))
def test_the_flip_point_is_where_the_two_gains_are_equal(flop: float, devices: int) -> None:
    seen = replace(trained(step(data=0.1, forward=0.3, backward=0.6), flop), devices=devices)
    numbers = scale_out(seen).numbers
    assert numbers["flips_at"] * numbers["device_at_most"] == pytest.approx(1)
    assert numbers["flips_at_s"] == pytest.approx(numbers["utilisation"] * numbers["device_at_most"])


def test_time_without_a_processor_may_have_been_use() -> None:
    # 0.5 of the time at the ceiling, but the threads had a processor for half of it: up to all of theirs.
    used = utilisation(trained(step(forward=1.0), 50e9, on_processor=0.5))
    assert (used.low, used.value, used.high) == pytest.approx((0.5, 0.5, 1.0))
