"""Whether it fits: the sum by hand, and what really is resident."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from material import fixed, inference, measured, spec_of, training
from twinlens.errors import BadInput
from twinlens.measurement.preflight.memory import needed, refuse_what_cannot_fit
from twinlens.spec.study import RunSpec

SLACK = 600 * 2**20
TINY = 1_016_448


def size(spec: RunSpec) -> float:
    return needed(spec)[0]


def test_serving_is_weights_and_cache_by_hand() -> None:
    spec = spec_of(inference(input_tokens=fixed(100), output_tokens=fixed(28), point={"batch": 3}))
    # 2 layers of 2 heads of 32, keys and values, in fp32, for 3 times 128 tokens.
    assert size(spec) == 4 * TINY + 3 * 128 * (2 * 2 * 2 * 32) * 4 + SLACK


def test_16_bits_need_no_more_than_16_bits_and_quantised_weights_those_they_are_made_of() -> None:
    plain, half, four = (spec_of(inference(point={"precision": p})) for p in ("fp32", "bf16", "int4-weight"))
    assert size(half) - SLACK == pytest.approx((size(plain) - SLACK) / 2, rel=0.01)
    assert size(four) - SLACK == 2 * TINY
    assert "in 16 bits while it is made" in needed(four)[1]


def test_8_billion_parameters_in_bf16_fit_a_card_of_24_gb_and_70_in_int4_do_not() -> None:
    def at(model: str, precision: str) -> RunSpec:
        return spec_of(inference(model=model, point={"precision": precision}))

    refuse_what_cannot_fit(at("llama-3.1-8b", "bf16"), 22 * 2**30)
    with pytest.raises(BadInput, match="does not fit"):
        refuse_what_cannot_fit(at("llama-3.1-70b", "int4-weight"), 80e9)


def test_training_is_sixteen_bytes_a_parameter_and_what_is_kept() -> None:
    whole, lean = spec_of(training()), spec_of(training(checkpointing=True))
    assert size(whole) > 16 * TINY + SLACK
    assert size(lean) < size(whole)
    assert size(spec_of(training(point={"microbatch": 1}))) < size(whole)


@given(st.integers(1, 10**5))
def test_more_requests_never_need_less(batch: int) -> None:
    def at(n: int) -> float:
        return size(spec_of(inference(point={"batch": n})))

    assert at(batch + 1) > at(batch)


@pytest.mark.torch
@pytest.mark.parametrize("model", ["tiny", "vit-tiny", "resnet-tiny"])
def test_what_is_said_beforehand_is_what_is_resident(tmp_path_factory: pytest.TempPathFactory, model: str) -> None:
    pytest.importorskip("torch", reason="needs the torch extra")
    run = measured(tmp_path_factory.mktemp("fit"), training("torch", model, protocol={"min_rows": 1}))
    assert run.facts is not None
    held = sum(estimate.value or 0 for name, estimate in run.facts.memory.items())
    assert size(run.spec) - SLACK == pytest.approx(held, rel=0.35), "activations are modelled, the rest is exact"


def test_it_is_refused_by_a_byte_and_taken_by_none() -> None:
    spec = spec_of(training())
    refuse_what_cannot_fit(spec, size(spec))
    with pytest.raises(BadInput, match="it does not fit") as refused:
        refuse_what_cannot_fit(spec, size(spec) - 1)
    assert refused.value.code == "TL211"
    with pytest.raises(BadInput, match="has free 0 B"):
        refuse_what_cannot_fit(spec, 0.0)


def test_executors_that_are_no_part_of_this_machine_are_not_asked() -> None:
    refuse_what_cannot_fit(spec_of(training("fake", "llama-3.1-405b")))
