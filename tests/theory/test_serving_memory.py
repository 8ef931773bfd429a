"""Stored weights by format against published sizes, and memory of serving by component."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinlens.errors import BadInput
from twinlens.spec.model.reference import DecoderShape, load_model
from twinlens.spec.model.shape import Experts
from twinlens.theory.parameter import parameters
from twinlens.theory.serving import kv_share, most_sequences, prefill_activation_bytes, serving_memory
from twinlens.theory.traffic import weights_read_bytes
from twinlens.theory.weight_format import WEIGHT_FORMATS, layer_bits, mean_bits, stored_bytes, weight_format


def decoder(name: str) -> DecoderShape:
    shape = load_model(name).shape
    assert isinstance(shape, DecoderShape)
    return shape


BIG, SMALL = decoder("llama-3.1-70b"), decoder("llama-3.1-8b")
# GPT-OSS-20B: 24 layers, 32 experts of 3 matrices of 2,880²
OSS = DecoderShape(
    layers=24, hidden=2880, heads=64, kv_heads=8, head_dim=64, intermediate=2880, vocab=201_088, tied_embeddings=False,
    max_context=131_072, attention_bias="all", sliding_window=128, full_attention_layers=12, sinks=True,
    experts=Experts(count=32, per_token=4, intermediate=2880, bias=True),
)  # fmt: skip


@pytest.mark.parametrize(
    ("name", "published"), [("q4_k_m", 4.8944), ("q5_k_m", 5.7036), ("q6_k", 6.5633), ("q8_0", 8.5008)]
)
def test_a_gguf_file_of_llama_8b_has_the_bits_that_llama_cpp_lists(name: str, published: float) -> None:
    # tools/quantize/README.md of llama.cpp
    assert mean_bits(SMALL, weight_format(name)) == pytest.approx(published, abs=0.0002)


@pytest.mark.parametrize(
    ("shape", "name", "gb"),
    [
        (BIG, "bf16", 141.1),  # 70.55e9 · 2
        (BIG, "q4_k_m", 42.5),  # a published file has 42.52 GB
        (BIG, "awq-int4-g128", 39.8),  # published: 39.77 GB
        (BIG, "nvfp4", 42.7),
        (BIG, "mxfp4", 40.6),
        (BIG, "nf4-double", 39.5),
        (OSS, "mxfp4-experts", 13.76),  # published: 13.76 GB
    ],
)
def test_a_format_comes_to_its_published_size(shape: DecoderShape, name: str, gb: float) -> None:
    assert stored_bytes(shape, weight_format(name)) / 1e9 == pytest.approx(gb, rel=0.003)


@pytest.mark.parametrize("name", WEIGHT_FORMATS)
@pytest.mark.parametrize("model", ["llama-3.1-8b", "llama-3.2-1b", "mixtral-8x7b", "deepseek-v3", "vit-base"])
def test_no_format_is_wider_than_fp32_or_narrower_than_its_matrices(model: str, name: str) -> None:
    shape, kept = load_model(model).shape, weight_format(name)
    assert min(kept.matrices, kept.experts or 99) <= mean_bits(shape, kept) <= 32
    assert stored_bytes(shape, WEIGHT_FORMATS["bf16"]) == 2 * parameters(shape).total


def test_an_unknown_format_names_the_nearest() -> None:
    with pytest.raises(BadInput, match="'q4_k_m'"):
        weight_format("Q4_K")


def test_a_decode_step_reads_what_is_stored_but_the_table() -> None:
    kept = weight_format("q4_k_m")
    read = weights_read_bytes(BIG, 1, layer_bits(BIG, kept), kept.head)
    table = parameters(BIG).embedding * kept.table / 8
    assert read == pytest.approx(stored_bytes(BIG, kept) - table, rel=0.001)


def test_serving_is_its_parts() -> None:
    # 70B in 16 bits on 4 devices: 141.1 / 4; KV 16 × 32,768 × 320 KiB / 4; scores 16 × 128,256 × 10 B
    memory = serving_memory(BIG, 141.1e9, 16, 32768, runtime_bytes=1e9, tensor_parallel=4)
    assert memory.weights_bytes == pytest.approx(35.3e9, rel=0.001)
    assert memory.kv_bytes == 171_798_691_840 / 4
    assert memory.sampler_bytes == 16 * 128_256 * 10
    # 2,048 tokens × 2 B × (2 · 8,192 + 3 · 28,672 / 4)
    assert memory.activations_bytes == 2048 * 2 * (16_384 + 21_504)
    # a pass of prefill and a sampling are not alive together: the larger counts
    parts = memory.weights_bytes + memory.kv_bytes + memory.activations_bytes + 1e9
    assert memory.total_bytes == parts


def test_stages_of_a_pipeline_hold_whole_layers() -> None:
    # 80 layers on 3 stages: 27 on the fullest
    one, three = (serving_memory(BIG, 141.1e9, 16, 4096, pipeline=stages) for stages in (1, 3))
    assert three.kv_bytes == pytest.approx(one.kv_bytes * 27 / 80)


def test_a_grid_of_batches_and_contexts_is_one_call() -> None:
    batch, context = np.array([[1], [16]]), np.array([1000, 8192])
    memory = serving_memory(BIG, 141.1e9, batch, context)
    assert memory.total_bytes.shape == (2, 2)
    assert memory.total_bytes[1, 0] == serving_memory(BIG, 141.1e9, 16, 1000).total_bytes


@pytest.mark.parametrize(("ranks", "share"), [(1, 1.0), (2, 0.5), (8, 1 / 8), (16, 1 / 8)])
def test_more_devices_than_heads_copy_heads(ranks: int, share: float) -> None:
    assert kv_share(BIG, ranks) == share


def test_a_latent_is_on_every_device() -> None:
    assert kv_share(decoder("deepseek-v3"), 8) == 1


def test_four_boards_of_80_gb_hold_13_sequences_of_32k() -> None:
    # 4 · (80 · 0.9 − 1 − 0.155 of a pass) − 141.1 = 142.3 GB over 10.74 GB each
    assert most_sequences(BIG, 72e9, 141.1e9, 32768, tensor_parallel=4) == 13
    assert list(most_sequences(BIG, np.array([72e9, -1.0]), 141.1e9, 32768, tensor_parallel=4)) == [13, 0]


@given(st.integers(1, 40_000), st.floats(1e9, 1e12))
def test_what_fits_fits_and_one_more_does_not(context: int, free: float) -> None:
    many = most_sequences(BIG, free, 1e9, context, sampled=256)
    need = serving_memory(BIG, 1e9, np.array([1, many, many + 1]), context, sampled=256).total_bytes
    assert need[0] > free * (1 - 1e-12) if many == 0 else need[1] <= free * (1 + 1e-12)
    assert need[2] > free * (1 - 1e-12)


def test_experts_widen_the_largest_layer() -> None:
    shape = decoder("mixtral-8x7b")
    assert prefill_activation_bytes(shape, 1) == 2 * (2 * 4096 + 3 * 2 * 14_336)
