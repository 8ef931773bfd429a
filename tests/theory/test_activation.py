"""The activation count against what autograd really saves."""

from __future__ import annotations

from typing import Any

import pytest

from twinlens.spec.model.reference import DecoderShape, load_model, shape_from_config
from twinlens.theory.activation import Attention, activation_bytes

TINY = load_model("tiny").config
QWEN = {
    **TINY,
    "model_type": "qwen3",
    "head_dim": 32,
}
SIZES = {
    "vocab_size": 128, "hidden_size": 128, "intermediate_size": 352, "num_hidden_layers": 4, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 1024, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip
GEMMA = {**SIZES, "model_type": "gemma", "head_dim": 32}
GEMMA3 = {**SIZES, "model_type": "gemma3_text", "head_dim": 32, "sliding_window": 512,
          "layer_types": ["sliding_attention"] * 3 + ["full_attention"]}  # fmt: skip
GEMMA4 = {**SIZES, "model_type": "gemma4_text", "head_dim": 32, "sliding_window": 512, "global_head_dim": 64,
          "layer_types": ["sliding_attention", "full_attention"] * 3, "num_hidden_layers": 6,
          "hidden_size_per_layer_input": 0}  # fmt: skip
NANO4 = {**GEMMA4, "hidden_size_per_layer_input": 24, "vocab_size_per_layer_input": 256, "num_kv_shared_layers": 2,
         "use_double_wide_mlp": True}  # fmt: skip
MOE4 = {**GEMMA4, "enable_moe_block": True, "num_experts": 4, "top_k_experts": 2, "moe_intermediate_size": 96,
        "attention_k_eq_v": True, "num_global_key_value_heads": 1}  # fmt: skip
NEMOTRON = {**{name: value for name, value in SIZES.items() if name != "num_hidden_layers"}, "head_dim": 32,
            "model_type": "nemotron_h", "layers_block_type": ["full_attention", "moe", "mlp"] * 2,
            "moe_intermediate_size": 96, "moe_shared_expert_intermediate_size": 104, "n_routed_experts": 4,
            "num_experts_per_tok": 2, "mamba_num_heads": 4, "mamba_head_dim": 32, "n_groups": 2, "ssm_state_size": 8,
            "conv_kernel": 4}  # fmt: skip
EXPERTS = {**SIZES, "model_type": "qwen3_moe", "head_dim": 32, "num_experts": 4, "num_experts_per_tok": 2,
           "moe_intermediate_size": 96}  # fmt: skip
MIXTRAL = {**SIZES, "model_type": "mixtral", "num_local_experts": 4, "num_experts_per_tok": 2}
LATENT = {**SIZES, "model_type": "deepseek_v2", "num_key_value_heads": 4, "kv_lora_rank": 64, "q_lora_rank": None,
          "qk_rope_head_dim": 16, "qk_nope_head_dim": 32, "v_head_dim": 32, "n_routed_experts": 4,
          "num_experts_per_tok": 2, "moe_intermediate_size": 96, "n_shared_experts": 1, "first_k_dense_replace": 1,
          "n_group": 1, "topk_group": 1}  # fmt: skip
CASES: list[tuple[dict[str, Any], str, Attention]] = [
    (TINY, "float32", "fused"),
    (TINY, "bfloat16", "fused"),
    (TINY, "bfloat16", "materialised"),
    (TINY, "float32", "materialised"),
    (load_model("small").config, "bfloat16", "fused"),
    (QWEN, "bfloat16", "fused"),
    *(
        (config, dtype, attention)
        for config in (GEMMA, GEMMA3, GEMMA4, NANO4, MOE4, NEMOTRON, EXPERTS, MIXTRAL)
        for dtype in ("float32", "bfloat16")
        for attention in ("fused", "materialised")
    ),
    *((LATENT, dtype, "materialised") for dtype in ("float32", "bfloat16")),  # SDPA on a CPU has no kernel for it
    (load_model("vit-tiny").config, "float32", "fused"),
    (load_model("resnet-tiny").config, "float32", "fused"),
    ({**load_model("resnet-50").config, "image_size": 64}, "float32", "fused"),
]


def saved_bytes(config: dict[str, Any], dtype: str, attention: Attention, seq_len: int) -> int:
    """Bytes of the distinct storages autograd saves in a forward pass of two samples, parameters aside."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    vision = config["model_type"] in ("vit", "resnet")
    kind = transformers.AutoModelForImageClassification if vision else transformers.AutoModelForCausalLM
    plain = {key: value for key, value in config.items() if key != "dtype"}
    extra = {} if config["model_type"] == "resnet" else {"attn_implementation": ATTENTION[attention]}
    model = kind.from_config(transformers.AutoConfig.for_model(**plain), **extra).to(getattr(torch, dtype)).train()
    own = {tensor.untyped_storage().data_ptr() for tensor in (*model.parameters(), *model.buffers())}
    kept: dict[int, Any] = {}

    def keep(tensor: Any) -> Any:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            kept[storage.data_ptr()] = tensor  # held, so that no address comes twice
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        if vision:
            side = config["image_size"]
            model(pixel_values=torch.rand(2, 3, side, side))
        else:
            model(input_ids=torch.randint(0, config["vocab_size"], (2, seq_len)), use_cache=False)
    return sum(tensor.untyped_storage().nbytes() for tensor in kept.values())


ATTENTION = {"fused": "sdpa", "materialised": "eager"}


@pytest.mark.torch
@pytest.mark.parametrize(("config", "dtype", "attention"), CASES)
def test_activations_are_what_autograd_saves(config: dict[str, Any], dtype: str, attention: Attention) -> None:
    size = 4 if dtype == "float32" else 2
    ours = activation_bytes(shape_from_config(config), 2, 192, attention=attention, bytes_per_element=size)
    assert ours == pytest.approx(saved_bytes(config, dtype, attention, 192), rel=0.02)


def test_a_gemma_block_by_hand() -> None:
    """One token at 2 bytes: norms 2·(4+4+2) before blocks and 2·(4+4) behind, queries and keys normed in fp32; a scale
    for each of five norms, and of six heads; a log-sum-exp for each of four."""
    shape = shape_from_config({**GEMMA3, "num_hidden_layers": 1, "layer_types": ["full_attention"]})
    norms = 128 * (2 * 10 + 2 * 8)
    attention = 2 * (4 * 32 + 2 * 32 + 2 * 32 + 4 * 32) + (4 * 32 + 2 * 32) * 8
    scalars = 4 * (5 + 6 + 4)
    assert activation_bytes(shape, 1, 1) == norms + attention + 4 * 352 * 2 + 128 * 10 + scalars


def test_a_layer_of_experts_by_hand() -> None:
    """Two experts of four: four of their inner width each, their inputs gathered, their outputs kept for the scores."""
    shape = shape_from_config({**MIXTRAL, "num_hidden_layers": 1})
    experts = 2 * (4 * 2 * 352 + 2 * 2 * 128)
    attention = 2 * (4 * 32 + 2 * 32 + 2 * 32 + 4 * 32)
    router = 4 * 4 + 2 * (4 * 8 + 2)
    assert activation_bytes(shape, 1, 1) == 3 * (128 * 8 + 4) + attention + 4 * 4 + experts + router


def test_a_layer_norm_without_a_bias_keeps_no_copy_in_fp32() -> None:
    """MPT keeps input and output at 2 bytes each, and two numbers of a token in fp32; an RMSNorm 8 bytes of each."""
    shape = shape_from_config(load_model("mpt-1b").config)
    assert isinstance(shape, DecoderShape)
    assert shape.layer_norm
    plain = activation_bytes(shape, 1, 1)
    rms = activation_bytes(shape.model_copy(update={"layer_norm": False}), 1, 1)
    norms = 2 * shape.layers + 1
    assert rms - plain == norms * (shape.hidden * (8 - 4) - 4)
