"""A function of an array is that function of each of its elements; and what layers of each kind see and keep."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from twinlens.errors import BadInput
from twinlens.spec.model.layer import Recurrent
from twinlens.spec.model.reference import DecoderShape, load_model
from twinlens.theory.activation import activation_bytes, korthikanti_bytes, logits_bytes
from twinlens.theory.attention import attention_pairs, flop_per_pair, recurrent_flop_per_token, seen_flop, state_bytes
from twinlens.theory.flop import (
    CONVENTIONS,
    decode_flop,
    forward_flop,
    hardware_flop_per_token,
    prefill_flop,
    training_flop_per_token,
)
from twinlens.theory.memory import LAYOUTS, kv_bytes, weights_bytes
from twinlens.theory.parameter import cross_attention_weights, parameters
from twinlens.theory.traffic import decode_step_bytes, decode_traffic, prefill_bytes, training_step_bytes


def decoder(name: str) -> DecoderShape:
    shape = load_model(name).shape
    assert isinstance(shape, DecoderShape)
    return shape


BIG, TINY, MOE, LATENT = (decoder(name) for name in ("llama-3.1-70b", "tiny", "mixtral-8x7b", "deepseek-v3"))
WINDOW = TINY.model_copy(update={"sliding_window": 16, "full_attention_layers": 1, "layers": 3})
CHUNK = WINDOW.model_copy(update={"window_kind": "chunked"})
EACH = flop_per_pair(WINDOW, absorbed=False)
DELTA = Recurrent(
    kind="gated-delta", layers=3, value_heads=4, value_dim=8, key_heads=2, key_dim=16, convolution=4
)  # fmt: skip
HYBRID = TINY.model_copy(update={"layers": 4, "recurrent": DELTA})
IMAGE = TINY.model_copy(update={"layers": 4, "cross_attention_layers": 1})
SHAPES = [BIG, MOE, LATENT, WINDOW, CHUNK, HYBRID, IMAGE]

FUNCTIONS: dict[str, Callable[[DecoderShape, Any], Any]] = {
    "prefill_flop": prefill_flop,
    "decode_flop": decode_flop,
    "forward_flop": lambda shape, n: forward_flop(shape, n, n - 1, image_tokens=n - 1),
    "kv_bytes": lambda shape, n: kv_bytes(shape, n, 2.0, sequences=n, block=16, image_tokens=7),
    "weights_bytes": lambda shape, n: weights_bytes(shape, n, 16.0),
    "decode_step_bytes": lambda shape, n: decode_step_bytes(shape, n, n, 4.5, 1.0, 16.0),
    "activations_moved": lambda shape, n: decode_traffic(shape, 5, n).activations_bytes,
    "prefill_bytes": lambda shape, n: prefill_bytes(shape, n, 3),
    "activation_bytes": lambda shape, n: activation_bytes(shape, 2, n, "none", "materialised"),
    "recomputed": lambda shape, n: activation_bytes(shape, n, 64, "full"),
    "korthikanti_bytes": lambda shape, n: korthikanti_bytes(shape, 1, n),
    "logits_bytes": lambda shape, n: logits_bytes(shape, n, 64, 2.0),
    "training_step_bytes": lambda shape, n: training_step_bytes(shape, LAYOUTS["fp32"], n, 8, n),
    "hardware": lambda shape, n: hardware_flop_per_token(shape, n, "full"),
} | {name: lambda shape, n, name=name: training_flop_per_token(shape, n, name) for name in CONVENTIONS}  # type: ignore[misc]


@pytest.mark.parametrize("name", FUNCTIONS)
@settings(max_examples=20)
@given(shape=st.sampled_from(SHAPES), numbers=st.lists(st.integers(1, 200_000), min_size=1, max_size=4))
def test_a_function_of_an_array_is_that_of_its_elements(name: str, shape: DecoderShape, numbers: list[int]) -> None:
    function = FUNCTIONS[name]
    found = function(shape, np.array(numbers))
    assert found == pytest.approx([function(shape, number) for number in numbers], rel=1e-12)


def test_a_grid_broadcasts() -> None:
    batch, context = np.array([[1], [8]]), np.array([1024, 8192, 32768])
    found = decode_step_bytes(BIG, context, batch)
    assert found.shape == (2, 3)
    assert found[1, 2] == decode_step_bytes(BIG, 32768, 8)


def test_a_count_of_flop_does_not_overflow() -> None:
    assert prefill_flop(decoder("llama-3.1-405b"), np.array([100_000_000]))[0] > 2**63


@pytest.mark.parametrize("wrong", [0, -1, float("nan"), float("inf"), np.array([4, 0]), "many", [1, None]])
def test_what_is_no_count_is_refused_in_one_sentence(wrong: Any) -> None:
    with pytest.raises(BadInput, match="new_tokens must be") as caught:
        forward_flop(TINY, wrong)
    assert "\n" not in str(caught.value)


@given(st.integers(1, 70), st.integers(0, 70))
def test_pairs_of_chunks_are_those_counted_one_by_one(new: int, context: int) -> None:
    by_hand = sum((i + 1) + 2 * (i % 16 + 1) for i in range(context, context + new))
    assert attention_pairs(CHUNK, new, context) == by_hand


def test_a_chunk_of_the_whole_sequence_is_full_attention() -> None:
    assert seen_flop(CHUNK, 16, causal=True) / EACH == 3 * 8
    assert seen_flop(CHUNK, 32, causal=True) / EACH == 16 + 2 * 8  # two chunks, of which a token sees 8 on average


def test_a_window_sees_less_at_its_start() -> None:
    # S = 32, w = 16: 16 − 16² / 64 = 12
    assert seen_flop(WINDOW, 32, causal=True) / EACH == 16 + 2 * 12


def test_pages_are_held_whole() -> None:
    per_token = 2 * TINY.kv_heads * TINY.head_dim * 2
    assert kv_bytes(TINY, 17, 2.0, block=16, sequences=3) == 3 * TINY.layers * 32 * per_token


def test_a_recurrent_state_does_not_grow() -> None:
    # 3 layers × (4·8·16 elements in fp32 + 3 tokens of a convolution over 4·8 + 2·2·16 channels in 16 bits)
    assert state_bytes(HYBRID, 2.0) == 3 * (512 * 4 + 3 * 96 * 2)
    grown = kv_bytes(HYBRID, 2000) - kv_bytes(HYBRID, 1000)
    assert grown == 1000 * 1 * 2 * TINY.kv_heads * TINY.head_dim * 2  # only the one layer that attends


def test_a_delta_net_reads_its_state_twice_and_writes_it_once() -> None:
    assert recurrent_flop_per_token(HYBRID) == 6 * 3 * 512
    mamba = HYBRID.model_copy(update={"recurrent": DELTA.model_copy(update={"kind": "mamba2"})})
    assert recurrent_flop_per_token(mamba) == 4 * 3 * 512


def test_layers_of_cross_attention_work_only_on_images() -> None:
    without, with_image = forward_flop(IMAGE, 4), forward_flop(IMAGE, 4, image_tokens=9)
    pairs = 4 * 9 * 4 * IMAGE.heads * IMAGE.head_dim
    assert with_image - without == 4 * 2 * cross_attention_weights(IMAGE) + pairs
    assert kv_bytes(IMAGE, 5, image_tokens=9) - kv_bytes(IMAGE, 5) == 9 * 2 * IMAGE.kv_heads * IMAGE.head_dim * 2


def test_recomputing_all_is_one_more_forward_pass() -> None:
    once = training_flop_per_token(BIG, 4096) / 3
    assert hardware_flop_per_token(BIG, 4096, "full") == pytest.approx(4 * once)
    attention = once - 2 * parameters(BIG).matmul
    assert hardware_flop_per_token(BIG, 4096, "selective") == pytest.approx(3 * once + attention)
    with pytest.raises(BadInput, match="causal or palm-full"):
        hardware_flop_per_token(BIG, 4096, "full", "6n")


def test_a_decode_step_is_weights_and_cache_before_all() -> None:
    moved = decode_traffic(BIG, 8192, 16)
    assert moved.compulsory_bytes == decode_step_bytes(BIG, 8192, 16)
    assert moved.state_bytes == 0
    assert moved.activations_bytes < 0.01 * moved.compulsory_bytes
