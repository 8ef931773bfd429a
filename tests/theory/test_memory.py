"""Memory, traffic and the roofline: laws, and the one-line arithmetic."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinlens.errors import BadInput
from twinlens.spec.model.reference import DecoderShape, load_model
from twinlens.spec.model.shape import ModelShape
from twinlens.spec.precision import precision
from twinlens.theory.activation import activation_bytes, logits_bytes
from twinlens.theory.memory import (
    LAYOUTS,
    inference_memory,
    kv_bytes,
    kv_bytes_per_token,
    layout_of,
    training_memory,
    weights_bytes,
)
from twinlens.theory.parameter import parameters
from twinlens.theory.roofline import (
    attainable_flop_per_s,
    batch_at_ridge,
    intensity,
    ridge_point,
    time_floor_s,
)
from twinlens.theory.traffic import (
    decode_step_bytes,
    optimizer_step_bytes,
    prefill_bytes,
    training_step_bytes,
    weights_read_bytes,
)


def decoder(name: str) -> DecoderShape:
    shape = load_model(name).shape
    assert isinstance(shape, DecoderShape)
    return shape


def any_shape(name: str) -> ModelShape:
    return load_model(name).shape


TINY = decoder("tiny")
BIG = decoder("llama-3.1-70b")
MIXTRAL = decoder("mixtral-8x7b")
WINDOWED = TINY.model_copy(update={"sliding_window": 16, "full_attention_layers": 1, "layers": 3})


def test_training_memory_explains_itself() -> None:
    memory = training_memory(decoder("demo-134m"), LAYOUTS["fp32"], 1, 256)
    assert memory.arithmetic == (
        "134.1 M parameters × 16 B = 2.00 GiB + activations 188 MiB + logits 93.8 MiB = 2.27 GiB"
    )


def test_inference_memory_explains_itself() -> None:
    found = inference_memory(BIG, 16, 2, batch=16, context=32768)
    assert found.arithmetic == (
        "70.55 G parameters × 2 B = 131 GiB + 16 × 32,768 tokens of KV cache = 160 GiB; total 291 GiB"
    )


@pytest.mark.parametrize("name", ["tiny", "vit-tiny", "resnet-tiny"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_total_is_its_parts(name: str, layout: str) -> None:
    memory = training_memory(any_shape(name), LAYOUTS[layout], 2, 64)
    parts = memory.weights_bytes + memory.gradients_bytes + memory.master_bytes + memory.optimizer_bytes
    assert memory.total_bytes == pytest.approx(parts + memory.activations_bytes)


def test_a_cited_total_of_eight_copies_needs_eight_b200() -> None:
    # 16 B × 70.55e9 = 1 129 GB: over 8 × 141 and under 8 × 180.
    state = parameters(BIG).total * LAYOUTS["16-bit-fp32-master"].total
    assert 8 * 141e9 < state < 8 * 180e9


@pytest.mark.parametrize(
    ("name", "per_parameter", "activations"),
    [("fp32", 16, 4), ("tf32", 16, 4), ("bf16", 18, 2), ("fp8", 17, 2)],
)
def test_a_precision_regime_has_a_layout(name: str, per_parameter: float, activations: float) -> None:
    layout = layout_of(precision(name))
    assert (layout.total, layout.activations) == (per_parameter, activations)


def test_plain_gradient_descent_keeps_no_state() -> None:
    assert layout_of(precision("fp32"), optimizer_states=0).total == 8


def test_a_shared_latent_is_71_times_smaller_than_the_heads_it_stands_for() -> None:
    shape = decoder("deepseek-v3")
    expanded = kv_bytes_per_token(shape, 2, latent=False)
    assert expanded == 61 * 128 * (192 + 128) * 2
    assert expanded / kv_bytes_per_token(shape, 2) == pytest.approx(71.1, rel=0.001)


@given(st.integers(0, 200), st.integers(0, 5))
def test_a_window_stops_growing(tokens: int, sequences: int) -> None:
    per_layer = kv_bytes_per_token(WINDOWED, 2) / 3
    held = tokens + 2 * min(tokens, 16)
    assert kv_bytes(WINDOWED, tokens, 2, sequences=sequences) == pytest.approx(sequences * held * per_layer)


def test_a_decoder_without_a_length_is_refused() -> None:
    with pytest.raises(BadInput, match="sequence length"):
        training_memory(TINY, LAYOUTS["fp32"], 1)


def test_checkpointing_a_residual_network_is_refused() -> None:
    with pytest.raises(BadInput, match="checkpointing"):
        activation_bytes(any_shape("resnet-tiny"), 1, checkpointing="full")


@given(st.integers(1, 64), st.integers(1, 4096))
def test_less_is_kept_with_more_checkpointing(microbatch: int, seq_len: int) -> None:
    none, fused, selective, full = (
        activation_bytes(BIG, microbatch, seq_len, checkpointing, attention)  # type: ignore[arg-type]
        for checkpointing, attention in (
            ("none", "materialised"),
            ("none", "fused"),
            ("selective", "materialised"),
            ("full", "fused"),
        )
    )
    assert none > fused == selective > full


def test_a_large_vocabulary_outweighs_layers_that_are_recomputed() -> None:
    shape = decoder("llama-3.2-1b")
    assert logits_bytes(shape, 8, 512, 2) > 2 * activation_bytes(shape, 8, 512, "full")


def test_unequal_bits_are_weighted_by_tensor() -> None:
    same = weights_bytes(TINY, 8)
    assert weights_bytes(TINY, 8, embedding_bits=16) - same == 2 * 512 * 128
    tied = TINY.model_copy(update={"tied_embeddings": True})
    assert weights_bytes(tied, 8, embedding_bits=16) - weights_bytes(tied, 8) == 512 * 128


@pytest.mark.parametrize("layout", ["fp32", "16-bit-fp32-master"])
def test_adamw_moves_28_bytes_per_parameter(layout: str) -> None:
    assert optimizer_step_bytes(TINY, LAYOUTS[layout]) == 28 * parameters(TINY).total


def test_decode_reads_all_but_the_input_table() -> None:
    # One row of the table is read: 70.55e9 − 1.05e9 parameters and 8192, 2 bytes each.
    expected = 2 * (70_553_706_496 - 128256 * 8192 + 8192)
    assert weights_read_bytes(BIG) == expected
    assert decode_step_bytes(BIG, 8192) == expected + 8193 * 327_680


def test_a_tied_table_is_read_as_the_head() -> None:
    shape = decoder("llama-3.2-1b")
    assert weights_read_bytes(shape) == 2 * (parameters(shape).total + 2048)


def test_one_token_reads_only_its_experts() -> None:
    count = parameters(MIXTRAL)
    assert weights_read_bytes(MIXTRAL) == pytest.approx(2 * (count.active - count.embedding + 4096))


@given(st.integers(1, 4096))
def test_more_tokens_touch_more_experts_and_never_more_than_there_are(tokens: int) -> None:
    all_of_them = 2 * (parameters(MIXTRAL).total - 32000 * 4096 + tokens * 4096)
    assert weights_read_bytes(MIXTRAL, tokens) <= weights_read_bytes(MIXTRAL, tokens + 1)
    assert weights_read_bytes(MIXTRAL, tokens) <= all_of_them * (1 + 1e-12)


@given(st.integers(1, 64), st.integers(1, 8192))
def test_a_batch_shares_its_weights(batch: int, context: int) -> None:
    together = decode_step_bytes(BIG, context, batch)
    assert together <= batch * decode_step_bytes(BIG, context)
    assert prefill_bytes(BIG, context, batch) <= batch * prefill_bytes(BIG, context)


def test_accumulation_moves_the_optimizer_once() -> None:
    layout = LAYOUTS["fp32"]
    one, four = (training_step_bytes(TINY, layout, 2, 64, accumulation=steps) for steps in (1, 4))
    assert four < 4 * one
    assert 4 * one - four == 3 * optimizer_step_bytes(TINY, layout) - 3 * parameters(TINY).total * 4


rates = st.floats(1e6, 1e16)
amounts = st.floats(0, 1e18)


@given(amounts, amounts, rates, rates)
def test_no_work_beats_either_roof(flop: float, moved: float, flop_per_s: float, bytes_per_s: float) -> None:
    floor = time_floor_s(flop, moved, flop_per_s, bytes_per_s)
    assert floor.time_s == max(flop / flop_per_s, moved / bytes_per_s)
    assert floor.binds == ("compute" if flop / flop_per_s >= moved / bytes_per_s else "bandwidth")


@given(rates, rates)
def test_the_roofs_meet_at_the_ridge(flop_per_s: float, bytes_per_s: float) -> None:
    ridge = ridge_point(flop_per_s, bytes_per_s)
    assert attainable_flop_per_s(ridge, flop_per_s, bytes_per_s) == pytest.approx(flop_per_s)
    assert attainable_flop_per_s(ridge / 2, flop_per_s, bytes_per_s) == pytest.approx(flop_per_s / 2)
    assert batch_at_ridge(flop_per_s, bytes_per_s) == ridge


@pytest.mark.parametrize("bits", [0.0, -1.0, float("nan")])
def test_a_rate_must_be_a_positive_number(bits: float) -> None:
    with pytest.raises(BadInput, match="above 0"):
        batch_at_ridge(1e12, 1e12, bits)


def test_no_bytes_is_no_intensity() -> None:
    assert intensity(8, 2) == 4
    with pytest.raises(BadInput, match="above 0"):
        intensity(8, 0)
