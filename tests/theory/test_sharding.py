"""Memory of divided training and of adapters: the figures of the papers, and laws."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinlens.errors import BadInput
from twinlens.spec.model.reference import DecoderShape, load_model
from twinlens.theory.adapter import adapter_flop_per_token, adapter_memory, adapter_parameters
from twinlens.theory.flop import training_flop_per_token
from twinlens.theory.memory import LAYOUTS, OPTIMIZERS, training_memory, with_optimizer
from twinlens.theory.parameter import parameters
from twinlens.theory.sharding import Split, bubble_share, device_parameters, sharded_memory
from twinlens.theory.weight_format import stored_bytes, weight_format


def decoder(name: str) -> DecoderShape:
    shape = load_model(name).shape
    assert isinstance(shape, DecoderShape)
    return shape


BIG, SMALL, MOE = decoder("llama-3.1-70b"), decoder("llama-3.1-8b"), decoder("mixtral-8x7b")
MIXED = LAYOUTS["16-bit-fp32-master"]


def test_undivided_training_is_training_on_one_device() -> None:
    found, one = sharded_memory(SMALL, MIXED, Split(), 1, 4096), training_memory(SMALL, MIXED, 1, 4096)
    assert found.total_bytes == pytest.approx(one.total_bytes)


@pytest.mark.parametrize(("zero", "per_parameter"), [(0, 16.0), (1, 4 + 12 / 64), (2, 2 + 14 / 64), (3, 16 / 64)])
def test_zero_divides_state_as_its_paper_says(zero: int, per_parameter: float) -> None:
    # Figure 1 of arXiv 1910.02054 at 64 devices: 7.5 B parameters take 120, 31.4, 16.6 and 1.9 GB.
    found = sharded_memory(SMALL, MIXED, Split(data=64, zero=zero), 1, 128)
    state = found.weights_bytes + found.gradients_bytes + found.master_bytes + found.optimizer_bytes
    assert state == pytest.approx(per_parameter * parameters(SMALL).total)
    assert 7.5 * per_parameter == pytest.approx({0: 120, 1: 31.4, 2: 16.6, 3: 1.88}[zero], rel=0.01)


def test_a_tensor_split_divides_all() -> None:
    one, eight = (sharded_memory(BIG, MIXED, Split(tensor=ways), 1, 4096) for ways in (1, 8))
    assert eight.total_bytes == pytest.approx(one.total_bytes / 8)


def test_a_pipeline_end_holds_the_table_and_a_full_flight() -> None:
    dense, experts = device_parameters(BIG, Split(pipeline=8))
    table = 128_256 * 8192
    assert experts == 0
    assert dense == (parameters(BIG).total - 2 * table) / 8 + table
    whole = sharded_memory(BIG, MIXED, Split(), 1, 4096)
    # The first of 8 stages keeps 8 microbatches of an eighth of the layers: as much as one device without stages.
    staged = sharded_memory(BIG, MIXED, Split(pipeline=8, microbatches=32), 1, 4096)
    assert staged.activations_bytes == pytest.approx(whole.activations_bytes)
    assert staged.logits_bytes == 0


def test_experts_are_divided_beside_dense_weights() -> None:
    dense, experts = device_parameters(MOE, Split(data=8, expert=8))
    # 32 layers × 8 experts × 3 · 4,096 · 14,336, an eighth of them
    assert experts == 32 * 3 * 4096 * 14_336
    assert dense + 8 * experts == parameters(MOE).total


@given(st.sampled_from([1, 2, 4, 8]), st.sampled_from([1, 2, 4]), st.sampled_from([1, 2, 8]), st.integers(0, 3))
def test_more_devices_never_need_more_each(data: int, tensor: int, pipeline: int, zero: int) -> None:
    def total(split: Split) -> float:
        return float(sharded_memory(BIG, MIXED, split, 1, 2048).total_bytes)

    split = Split(data=data, tensor=tensor, pipeline=pipeline, zero=zero, microbatches=1)
    assert total(Split(2 * data, tensor, pipeline, zero=zero)) <= total(split) * (1 + 1e-12)
    assert total(Split(data, 2 * tensor, pipeline, zero=zero)) <= total(split) * (1 + 1e-12)


def test_ways_of_splitting_may_be_arrays() -> None:
    ways = np.array([1, 2, 4, 8])
    found = sharded_memory(BIG, MIXED, Split(data=8, tensor=ways, pipeline=ways, zero=1), 1, 4096).total_bytes
    each = [sharded_memory(BIG, MIXED, Split(8, int(w), int(w), zero=1), 1, 4096).total_bytes for w in ways]
    assert found == pytest.approx(each)


@pytest.mark.parametrize(
    ("split", "says"),
    [
        (Split(data=0), "data must be at least 1"),
        (Split(tensor=65), "divides 64 heads"),
        (Split(pipeline=81), "divides 80 layers"),
        (Split(expert=2), "divides 1 experts"),
        (Split(zero=4), "stage from 0 to 3"),
    ],
)
def test_an_impossible_split_is_one_sentence(split: Split, says: str) -> None:
    with pytest.raises(BadInput, match=says):
        sharded_memory(BIG, MIXED, split, 1, 128)


def test_experts_need_devices() -> None:
    with pytest.raises(BadInput, match="fewer"):
        sharded_memory(MOE, MIXED, Split(data=4, expert=8), 1, 128)


def test_a_pipeline_idles_at_its_ends() -> None:
    assert bubble_share(Split(pipeline=8, microbatches=1)) == 7 / 8
    assert bubble_share(Split(pipeline=8, microbatches=56)) == 7 / 63


def test_an_optimizer_is_named_with_its_state() -> None:
    # 70e9: 16 B with AdamW in fp32, 12 with a momentum, 8 B without any
    totals = {name: 70 * with_optimizer(MIXED, name).total for name in OPTIMIZERS}
    assert (totals["adamw"], totals["momentum"], totals["sgd"]) == (1120, 840, 560)
    with pytest.raises(BadInput, match="'adamw'"):
        with_optimizer(MIXED, "adam")


@pytest.mark.parametrize(
    ("model", "rank", "targets", "expected"),
    [
        ("llama-3.1-8b", 16, ("q", "k", "v", "o", "gate", "up", "down"), 41_943_040),
        ("llama-3.1-8b", 8, ("q", "v"), 3_407_872),
        ("llama-3.1-70b", 16, ("q", "k", "v", "o", "gate", "up", "down"), 207_093_760),
    ],
)
def test_adapters_have_the_parameters_that_peft_prints(
    model: str, rank: int, targets: tuple[str, ...], expected: int
) -> None:
    assert adapter_parameters(decoder(model), rank, targets) == expected


def test_a_projection_that_is_not_there_is_refused() -> None:
    with pytest.raises(BadInput, match="no projection 'qkv'"):
        adapter_parameters(SMALL, 8, ("qkv",))
    with pytest.raises(BadInput, match="no projection 'q'"):  # latent attention has no single query projection
        adapter_parameters(decoder("deepseek-v3"), 8, ("q",))


def test_adapters_save_a_third_of_the_flop_at_most() -> None:
    full = training_flop_per_token(SMALL, 2048)
    found = adapter_flop_per_token(SMALL, 2048, 16)
    saved = 2 * parameters(SMALL).matmul - 6 * 41_943_040
    assert full - found == pytest.approx(saved)
    assert 2 / 3 < found / full < 1


def test_qlora_of_a_70b_fits_one_board_of_80_gb_and_not_one_of_40() -> None:
    frozen = stored_bytes(BIG, weight_format("nf4-double"))
    found = adapter_memory(BIG, frozen, LAYOUTS["fp32"], 16, ("q", "k", "v", "o"), 1, 512, "full")
    assert 39.5e9 < found.total_bytes < 60e9
