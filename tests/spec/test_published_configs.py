"""Published configs, as they lie beside the weights, against the sizes their authors state."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from twinlens.errors import BadInput
from twinlens.spec.model.config import shape_from_config
from twinlens.spec.model.reference import load_model
from twinlens.spec.model.shape import DecoderShape
from twinlens.theory.flop import prefill_flop
from twinlens.theory.memory import kv_bytes
from twinlens.theory.parameter import parameters

SCOUT = {
    "model_type": "llama4_text", "num_hidden_layers": 48, "hidden_size": 5120, "num_attention_heads": 40,
    "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 8192, "intermediate_size_mlp": 16384,
    "num_local_experts": 16, "num_experts_per_tok": 1, "interleave_moe_layer_step": 1, "vocab_size": 202048,
    "max_position_embeddings": 10485760, "attention_chunk_size": 8192, "no_rope_layers": [], "moe_layers": [],
}  # fmt: skip
PUBLISHED: dict[str, tuple[dict[str, Any], float, float]] = {  # config, billions of parameters in all and active
    "gpt-oss-120b": ({
        "model_type": "gpt_oss", "num_hidden_layers": 36, "hidden_size": 2880, "num_attention_heads": 64,
        "num_key_value_heads": 8, "head_dim": 64, "intermediate_size": 2880, "num_local_experts": 128,
        "num_experts_per_tok": 4, "vocab_size": 201088, "max_position_embeddings": 131072, "sliding_window": 128,
        "attention_bias": True, "layer_types": ["sliding_attention", "full_attention"] * 18}, 116.83, 5.71),
    "gpt-oss-20b": ({
        "model_type": "gpt_oss", "num_hidden_layers": 24, "hidden_size": 2880, "num_attention_heads": 64,
        "num_key_value_heads": 8, "head_dim": 64, "intermediate_size": 2880, "num_local_experts": 32,
        "num_experts_per_tok": 4, "vocab_size": 201088, "max_position_embeddings": 131072, "sliding_window": 128,
        "attention_bias": True}, 20.91, 4.19),
    "qwen3-30b-a3b": ({
        "model_type": "qwen3_moe", "num_hidden_layers": 48, "hidden_size": 2048, "num_attention_heads": 32,
        "num_key_value_heads": 4, "head_dim": 128, "intermediate_size": 6144, "num_experts": 128,
        "num_experts_per_tok": 8, "moe_intermediate_size": 768, "vocab_size": 151936, "decoder_sparse_step": 1,
        "mlp_only_layers": [], "max_position_embeddings": 40960}, 30.53, 3.35),
    "qwen3-next-80b-a3b": ({
        "model_type": "qwen3_next", "num_hidden_layers": 48, "hidden_size": 2048, "num_attention_heads": 16,
        "num_key_value_heads": 2, "head_dim": 256, "intermediate_size": 5120, "num_experts": 512,
        "num_experts_per_tok": 10, "moe_intermediate_size": 512, "shared_expert_intermediate_size": 512,
        "vocab_size": 151936, "full_attention_interval": 4, "linear_conv_kernel_dim": 4, "linear_key_head_dim": 128,
        "linear_num_key_heads": 16, "linear_num_value_heads": 32, "linear_value_head_dim": 128,
        "max_position_embeddings": 262144}, 79.67, 3.87),
    "jamba-v0.1": ({
        "model_type": "jamba", "num_hidden_layers": 32, "hidden_size": 4096, "num_attention_heads": 32,
        "num_key_value_heads": 8, "intermediate_size": 14336, "num_experts": 16, "num_experts_per_tok": 2,
        "attn_layer_offset": 4, "attn_layer_period": 8, "expert_layer_offset": 1, "expert_layer_period": 2,
        "mamba_d_state": 16, "mamba_d_conv": 4, "mamba_expand": 2, "mamba_dt_rank": 256, "vocab_size": 65536,
        "max_position_embeddings": 262144}, 51.57, 12.11),
    "deepseek-v2-lite": ({
        "model_type": "deepseek_v2", "num_hidden_layers": 27, "hidden_size": 2048, "num_attention_heads": 16,
        "num_key_value_heads": 16, "intermediate_size": 10944, "n_routed_experts": 64, "n_shared_experts": 2,
        "num_experts_per_tok": 6, "moe_intermediate_size": 1408, "first_k_dense_replace": 1, "kv_lora_rank": 512,
        "q_lora_rank": None, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128,
        "vocab_size": 102400, "moe_layer_freq": 1, "max_position_embeddings": 163840}, 15.71, 2.66),
    "deepseek-v2": ({
        "model_type": "deepseek_v2", "num_hidden_layers": 60, "hidden_size": 5120, "num_attention_heads": 128,
        "num_key_value_heads": 128, "intermediate_size": 12288, "n_routed_experts": 160, "n_shared_experts": 2,
        "num_experts_per_tok": 6, "moe_intermediate_size": 1536, "first_k_dense_replace": 1, "kv_lora_rank": 512,
        "q_lora_rank": 1536, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128,
        "vocab_size": 102400, "moe_layer_freq": 1, "max_position_embeddings": 163840}, 235.74, 21.38),
    "llama-4-scout": ({"model_type": "llama4", "vision_config": {}, "text_config": SCOUT}, 107.77, 17.17),
    "llama-4-maverick": ({"model_type": "llama4", "text_config": {
        **SCOUT, "num_local_experts": 128, "interleave_moe_layer_step": 2}}, 400.71, 17.17),
    "gemma-3-27b": ({"model_type": "gemma3", "vision_config": {}, "text_config": {
        "model_type": "gemma3_text", "head_dim": 128, "hidden_size": 5376, "intermediate_size": 21504,
        "num_attention_heads": 32, "num_hidden_layers": 62, "num_key_value_heads": 16, "sliding_window": 1024,
        "query_pre_attn_scalar": 168}}, 27.01, 27.01),
    "gemma-3-4b": ({"model_type": "gemma3", "text_config": {
        "model_type": "gemma3_text", "hidden_size": 2560, "intermediate_size": 10240, "num_hidden_layers": 34,
        "sliding_window": 1024}}, 3.88, 3.88),
    "llama-3.2-11b-vision": ({"model_type": "mllama", "text_config": {
        "model_type": "mllama_text_model", "num_hidden_layers": 40, "hidden_size": 4096, "num_attention_heads": 32,
        "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 128256,
        "max_position_embeddings": 131072, "cross_attention_layers": [3, 8, 13, 18, 23, 28, 33, 38]}}, 9.78, 9.78),
}  # fmt: skip


def shape(name: str) -> DecoderShape:
    found = shape_from_config(PUBLISHED[name][0])
    assert isinstance(found, DecoderShape)
    return found


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_published_config_has_the_size_its_authors_state(name: str) -> None:
    count = parameters(shape(name))
    _, total, active = PUBLISHED[name]
    assert (count.total / 1e9, count.active / 1e9) == pytest.approx((total, active), rel=0.002)


def test_a_model_that_sees_is_read_as_its_text_part() -> None:
    config = {**load_model("qwen2.5-7b").config, "model_type": "qwen2_5_vl", "vision_config": {"depth": 32}}
    assert shape_from_config(config) == load_model("qwen2.5-7b").shape


def test_layers_are_counted_by_kind() -> None:
    gemma, jamba, scout = shape("gemma-3-27b"), shape("jamba-v0.1"), shape("llama-4-scout")
    assert (gemma.full_layers, gemma.windowed_layers) == (10, 52)
    assert (jamba.attention_layers, jamba.expert_layers) == (4, 16)
    assert (scout.full_layers, scout.windowed_layers, scout.window_kind) == (12, 36, "chunked")
    assert shape("qwen3-next-80b-a3b").attention_layers == 12


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"num_hidden_layers": 0}, "layers"),
        ({"num_hidden_layers": -4}, "layers"),
        ({"num_hidden_layers": 10**30}, "layers"),
        ({"num_experts_per_tok": 600}, "600 experts per token out of 512"),
        ({"layer_types": ["full_attention"]}, "lists 1 of 48 layers"),
        ({"linear_key_head_dim": -1}, "key_dim"),
        ({"model_type": "qwen4_tomorrow"}, "unknown model_type 'qwen4_tomorrow'"),
        ({"text_config": [1]}, None),
    ],
)
def test_an_absurd_config_is_one_sentence(change: dict[str, Any], says: str | None) -> None:
    config = {**PUBLISHED["qwen3-next-80b-a3b"][0], **change}
    if says is None:
        assert shape_from_config(config) == shape("qwen3-next-80b-a3b")
        return
    with pytest.raises(BadInput, match=says) as caught:
        shape_from_config(config)
    assert "\n" not in str(caught.value)


WRONG: list[Any] = [0, -1, 1, 7, 2**40, 10**30, 1.5, float("nan"), True, None, "", "x", [], [1], [0] * 4, {}, {"a": 1}]


@settings(max_examples=400)
@given(st.sampled_from(sorted(PUBLISHED)), st.lists(st.tuples(st.integers(0, 99), st.sampled_from(WRONG)), max_size=3))
def test_a_spoilt_config_is_counted_or_refused_in_one_sentence(name: str, spoilt: list[tuple[int, Any]]) -> None:
    whole = PUBLISHED[name][0]
    config = dict(whole.get("text_config", whole))
    for at, value in spoilt:
        config[sorted(config)[at % len(config)]] = value
    try:
        shape_read = shape_from_config(config)
    except BadInput as refused:
        lines = str(refused).splitlines()
    else:
        lines = []
    if lines:
        assert len(lines) == 1
        return
    assert isinstance(shape_read, DecoderShape)
    assert parameters(shape_read).total > 0
    assert prefill_flop(shape_read, 100) > 0
    assert kv_bytes(shape_read, 100) >= 0
