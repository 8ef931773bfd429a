"""Will quantising help: predictions worked by hand, and the measured ratio, which goes before them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from benchmarks.quantising import PLACE, published, table
from hypothesis import given
from hypothesis import strategies as st

from diagnosis.saturated import CEILINGS, decoded, rate, request, served, step, trained
from diagnosis.test_scale_out import demo
from twinlens.diagnosis.decoder import batch_at_flip, decode_floor_s, roofs_of, weights_bytes
from twinlens.diagnosis.evidence import Evidence
from twinlens.diagnosis.quantise import CASTS, Sibling, quantise, times_in
from twinlens.pages import find
from twinlens.record.estimate import Estimate
from twinlens.record.finding import Finding
from twinlens.reporting.wording.finding import advice_of, clause_of, sentence_of
from twinlens.spec.precision import PRECISIONS, precision

NATIVE = {"fp32": "native", "bf16": "native", "int8": "native", "fp16": "emulated"}
ABSENT = Estimate.absent("1", "none")


def stepped(flop: float, peak: float, name: str) -> Evidence:
    """A training step of a second that computes for 0.8 s of it."""
    ceilings = CEILINGS | {"matrix_flop_per_s_at": rate(peak, "flop/s")}
    parts = step(data=0.2, forward=0.3, backward=0.5)
    return trained(parts, flop, ceilings=ceilings, precision=precision(name), engine_formats=NATIVE)


def ratio(value: float, low: float, high: float) -> Estimate:
    return Estimate(value, "1", "by hand", "derived", low, high, 0.95, 6)


def of(found: tuple[Finding, ...], name: str) -> Finding:
    return next(each for each in found if each.subject == name)


def run_of(decode_s: float, name: str = "bf16", **parts: Any) -> Evidence:
    """One request of a second: 16 decode steps on the device of round numbers, and transport."""
    ran = replace(demo(precision=precision(name)), answer=17)
    seen = decoded(6e7, float(weights_bytes(ran)), decode_s, decoder=ran, precision=ran.precision,
                   engine_formats=NATIVE)  # fmt: skip
    spent = request(transport=1 - 16 * decode_s, decode=16 * decode_s)
    return replace(seen, phases=seen.phases[1:], **({"partition": spent} | parts))


def test_a_step_in_bf16_swaps_its_least_time_for_the_one_that_was_measured() -> None:
    # 60 GFLOP at 100 GFLOP/s are 0.6 s of the 1 s; at 300 GFLOP/s they are 0.2 s: 1 / (1 - 0.6 + 0.2) = 1.67, not 2.
    other = Sibling(stepped(60e9, 300e9, "bf16"), ABSENT, ABSENT)
    found = of(quantise(stepped(60e9, 100e9, "fp32"), {"bf16": other}), "bf16")
    assert found.code == "quantise-latency"
    assert found.numbers["naive"] == 2.0
    assert found.numbers["predicted"] == pytest.approx(1 / 0.6)
    assert found.evidence["predicted"].origin == "modelled"


def test_the_band_has_two_sides_the_rest_stays_or_shrinks_as_the_least_time_does() -> None:
    # Of the second 0.6 s are least time, a third of it in bf16: all of the second shrinks to a third at the most. A
    # format that casts operands may give training a quarter less than the rest that stays: 1.67 / 1.25.
    other = Sibling(stepped(60e9, 300e9, "bf16"), ABSENT, ABSENT)
    band = of(quantise(stepped(60e9, 100e9, "fp32"), {"bf16": other}), "bf16").evidence["predicted"]
    assert (band.low, band.high) == pytest.approx((1 / 0.6 / CASTS, 3.0))
    assert band.no_interval is None
    # Decode at a fifth of its ceiling: launches stay (1 / 0.9), or kernels keep their share of bandwidth (twice).
    assert [1 / each for each in times_in(1.0, {"decode": 1.0}, {"decode": 0.2}, {"decode": 0.1})] == \
        pytest.approx([1 / 0.9, 2.0])  # fmt: skip
    assert times_in(1.0, {"decode": 1.0}, {"decode": 0.2}, {}) == ()


def test_a_format_whose_rate_is_not_known_predicts_nothing_of_training() -> None:
    assert quantise(stepped(60e9, 100e9, "fp32")) == ()


def test_an_emulated_format_is_left_out_unless_it_was_measured() -> None:
    seen = stepped(60e9, 100e9, "fp32")
    assert [each.subject for each in quantise(seen, {"bf16": Sibling(stepped(60e9, 300e9, "bf16"), ABSENT, ABSENT)})] \
        == ["bf16"]  # fmt: skip
    slower = Sibling(stepped(60e9, 50e9, "fp16"), ABSENT, ABSENT)
    # At 50 GFLOP/s the 0.6 s become 1.2 s: 1 / 1.6.
    assert of(quantise(seen, {"fp16": slower}), "fp16").numbers["predicted"] == pytest.approx(1 / 1.6)
    assert of(quantise(seen, {"fp16": slower}), "fp16").code == "quantise-memory"


def test_decode_is_predicted_by_its_bytes() -> None:
    ran, roofs = run_of(0.05).decoder, roofs_of(CEILINGS)
    assert ran is not None
    assert roofs is not None
    # 16 steps read 58.7 MB of bf16 weights at 10 GB/s, 5.9 ms each, and 29.5 MB of int8: 2.9 ms. The cache
    # of 264 tokens, 8 KiB each and written once more, is 2.2 MB: 0.2 ms.
    narrow = float(decode_floor_s(ran, roofs, 1, precision("int8-weight")))
    assert narrow == pytest.approx(2.95e-3 + 0.22e-3, rel=0.01)
    found = of(quantise(run_of(0.05)), "int8-weight")
    own = float(weights_bytes(ran)) / 10e9
    assert own == pytest.approx(5.87e-3, rel=0.01)
    assert found.numbers["predicted"] == pytest.approx(1 / (1 - 16 * own + 16 * narrow))
    assert found.numbers["same_compute"] is True
    assert found.numbers["bytes_ratio"] == pytest.approx(2.0, rel=0.01)
    assert found.numbers["naive"] == 2.0


def test_the_measured_ratio_decides_and_says_where_the_prediction_is_wrong() -> None:
    other = stepped(60e9, 300e9, "bf16")
    for measured, code, outside in (
        (ratio(1.6, 1.4, 1.8), "quantise-latency", False),
        (ratio(1.0, 0.98, 1.02), "quantise-memory", True),
        (ratio(1.1, 0.9, 1.3), "quantise-unclear", True),
    ):
        siblings = {"bf16": Sibling(other, measured, ABSENT, is_ranked=False, passes=False)}
        found = of(quantise(stepped(60e9, 100e9, "fp32"), siblings), "bf16")
        assert (found.code, found.numbers["is_outside"]) == (code, outside)
        assert "quality fail" in sentence_of(found)
        assert "not valid" in sentence_of(found)
        assert ("prediction lies outside" in sentence_of(found)) is outside
        assert f"measured ×{measured.value}" in clause_of(found).replace("1.60", "1.6").replace("1.10", "1.1") \
            .replace("1.00", "1.0")  # fmt: skip
        assert advice_of(found)
        assert find(code).name == "quantise-latency"


def test_time_that_neither_computes_nor_reads_stays() -> None:
    slow = of(quantise(run_of(0.06)), "int4-weight").numbers["predicted"]
    slower = of(quantise(replace(run_of(0.06), partition=request(transport=0.7, decode=0.3))),
                "int4-weight").numbers["predicted"]  # fmt: skip
    assert slower < slow


def test_a_server_and_a_run_without_ceilings_are_not_judged() -> None:
    assert quantise(served(request(decode=1.0))) == ()
    assert quantise(replace(run_of(0.05), ceilings={})) == ()
    assert quantise(trained(step(forward=1.0))) == (), "its precision is not known"


def test_the_narrowest_precision_has_nothing_below_it() -> None:
    assert quantise(run_of(0.05, "int4-weight")) == ()


@given(st.floats(0.013, 0.06), st.integers(1, 64))
def test_narrower_weights_at_the_same_rates_never_slow_decode_down(decode_s: float, batch: int) -> None:
    seen = run_of(decode_s)
    assert seen.decoder is not None
    ran, roofs = replace(seen.decoder, batch=batch), roofs_of(CEILINGS)
    assert roofs is not None
    floors = [float(decode_floor_s(ran, roofs, batch, PRECISIONS[name])) for name in
              ("fp32", "bf16", "int8-weight", "int4-weight")]  # fmt: skip
    assert floors == sorted(floors, reverse=True)


@given(st.sampled_from(["fp32", "bf16", "int8-weight", "int4-weight"]))
def test_at_the_flip_batch_arithmetic_and_bytes_take_equally_long(name: str) -> None:
    ran, roofs = demo(precision=precision(name)), roofs_of(CEILINGS)
    assert roofs is not None
    batch = batch_at_flip(ran, roofs)
    assert batch is not None
    at, twice = (float(decode_floor_s(ran, roofs, max(1.0, batch) * times)) for times in (1.0, 2.0))
    assert twice == pytest.approx(2 * at, rel=1e-3), "beyond it time grows with the batch"
    assert float(decode_floor_s(ran, roofs, max(1.0, batch / 2))) > at / 2, "below it bytes bind"


def test_the_batch_at_which_it_ends_needs_the_rate_of_its_products() -> None:
    same, other = (of(quantise(run_of(0.05, name)), "int8-weight").numbers for name in ("bf16", "fp32"))
    assert same["until_batch"] is not None
    assert other["until_batch"] is None, "how fast bf16 multiplies here was not measured by a run in fp32"
    faster = replace(run_of(0.05), ceilings=CEILINGS | {"matrix_flop_per_s_at": rate(150e9, "flop/s")})
    measured = quantise(run_of(0.05, "fp32"), {"int8-weight": Sibling(faster, ABSENT, ABSENT)})
    until = of(measured, "int8-weight").numbers["until_batch"]
    # 63 MFLOP and 2.2 MB of cache a sequence, 29.5 MB of weights: 2.95 / (0.63 - 0.22) is 7, 2.95 / (0.42 - 0.22) 14.
    assert same["until_batch"] == pytest.approx(7.1, rel=0.02)
    assert until == pytest.approx(14.5, rel=0.03)


BOTH = "ceilings of both runs"


def test_the_gains_of_the_published_ladder_lie_in_their_bands() -> None:
    """Before the bands had two sides, all four lay above theirs, by 5 to 41 %."""
    found = [each for each in published("2026-11-22-ledger*") if each.by == BOTH]
    assert [each.place for each in found] == [0, 0, 0, 0]


@pytest.mark.slow
def test_of_all_published_pairs_nine_in_ten_measured_gains_lie_in_their_bands() -> None:
    """Before, 7 of the 32 values lay in their bands, and 18 of the intervals met them."""
    found = [each for each in published() if each.by == BOTH]
    assert len(found) >= 32
    assert sum(each.place == 0 for each in found) >= 0.85 * len(found)
    page = PLACE.read_text(encoding="utf-8").splitlines()
    assert set(table(found).splitlines()[:-1]) <= set(page), "docs/results/quantising.md tells the figures of today"
