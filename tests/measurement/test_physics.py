"""What theory says of one unit of work, beside what the executor counts."""

from __future__ import annotations

import pytest

from each import each
from material import fixed, inference, spec_of, training
from twinlens.measurement.facts.predicted_work import coverage_of, datasheet_of, theory_of
from twinlens.record.estimate import Estimate
from twinlens.spec.device import list_devices, load_device
from twinlens.spec.precision import precision
from twinlens.units import FLOP


def value(found: dict[str, object], name: str) -> float:
    return float(found[name].value)  # type: ignore[attr-defined]


def test_a_step_by_hand() -> None:
    work = theory_of(spec_of(training(global_batch=4, seq_len=32)))
    matmul = 1_016_448 - 512 * 128 - 5 * 128  # all but the embedding and the norms
    attention = 6 * 2 * 4 * 32 * 32  # 6 L H d S, causal
    assert value(work, "step_flop_causal") == 4 * 32 * (6 * matmul + attention)
    assert value(work, "step_flop_palm_full") == 4 * 32 * (6 * matmul + 2 * attention)
    assert value(work, "step_flop") == value(work, "step_flop_causal")
    assert {estimate.origin for estimate in work.values()} == {"modelled"}


def test_accumulation_changes_traffic_and_not_flop() -> None:
    whole, parts = (theory_of(spec_of(training(point={"microbatch": m}))) for m in (4, 1))
    assert value(whole, "step_flop") == value(parts, "step_flop")
    assert value(parts, "step_bytes") > value(whole, "step_bytes"), "the weights are read once for every microbatch"


def test_decoding_reads_every_weight_once_for_all() -> None:
    one, four = (theory_of(spec_of(inference(point={"batch": b}))) for b in (1, 4))
    assert value(four, "decode_flop") == 4 * value(one, "decode_flop")
    assert value(one, "decode_bytes") < value(four, "decode_bytes") < 1.1 * value(one, "decode_bytes")
    assert value(four, "prefill_flop") == 4 * value(one, "prefill_flop")


def test_fewer_bits_are_fewer_bytes() -> None:
    found = [
        value(theory_of(spec_of(inference(point={"precision": p}))), "decode_bytes")
        for p in ("fp32", "bf16", "int8-weight", "int4-weight")
    ]
    assert found == sorted(found, reverse=True)
    assert found[0] == pytest.approx(2 * found[1])


def test_decode_is_taken_in_the_middle_of_the_answer() -> None:
    work = theory_of(spec_of(inference(input_tokens=fixed(100), output_tokens=fixed(40))))
    assert "120 tokens of context" in work["decode_flop"].method


def test_images_have_no_tokens() -> None:
    assert "image_flop" in theory_of(spec_of(inference("torch", "vit-tiny")))
    assert "step_flop_6n" not in theory_of(spec_of(training("torch", "resnet-tiny")))


@each(list_devices())
def test_a_datasheet_is_quoted_with_its_source_and_unknown_boards_have_none(name: str) -> None:
    device = load_device(name)
    for reported in device.reported_names:
        found = datasheet_of(reported, precision("bf16"))
        assert found["datasheet_bytes_per_s"].value == device.bandwidth_bytes_per_s
        assert {estimate.origin for estimate in found.values()} == {"quoted"}
        assert ("datasheet_flop_per_s" in found) == (device.rate("bf16") is not None)
    assert datasheet_of("an unknown board", precision("bf16")) == {}
    assert datasheet_of(None, precision("bf16")) == {}


def test_flop_that_were_not_counted_have_no_coverage_rather_than_none() -> None:
    theory = Estimate(100.0, FLOP, "by hand", "modelled")
    counted = Estimate(90.0, FLOP, "by hand", "measured")
    assert coverage_of({"step_flop": theory, "counted_step_flop": counted})["flop_coverage"].value == 0.9
    assert coverage_of({"step_flop": theory, "counted_step_flop": Estimate.absent(FLOP, "not counted")}) == {}
    assert coverage_of({"step_flop": theory}) == {}
