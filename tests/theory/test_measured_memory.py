"""Predicted bytes against what torch allocated for small models: weights, gradients, state, caches; to 2 %."""

from __future__ import annotations

from typing import Any

import pytest

from twinlens.spec.model.config import shape_from_config
from twinlens.spec.model.reference import load_model
from twinlens.spec.model.shape import DecoderShape
from twinlens.theory.memory import LAYOUTS, kv_bytes, training_memory, weights_bytes, with_optimizer

pytestmark = pytest.mark.torch
TOKENS = 320
SIZES = {
    "vocab_size": 128, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 4, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 512, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip
CONFIGS: dict[str, dict[str, Any]] = {
    "full": {**SIZES, "model_type": "llama"},
    "one-kv-head": {**SIZES, "model_type": "llama", "num_key_value_heads": 1},
    "experts": {**SIZES, "model_type": "qwen3_moe", "head_dim": 24, "num_experts": 4, "num_experts_per_tok": 2,
                "moe_intermediate_size": 32},
    "window": {**SIZES, "model_type": "gemma3_text", "head_dim": 24, "sliding_window": 128,
               "layer_types": ["sliding_attention"] * 3 + ["full_attention"]},
    "latent": {**SIZES, "model_type": "deepseek_v2", "num_key_value_heads": 4, "kv_lora_rank": 32, "q_lora_rank": None,
               "qk_rope_head_dim": 8, "qk_nope_head_dim": 16, "v_head_dim": 16, "n_routed_experts": 4,
               "num_experts_per_tok": 2, "moe_intermediate_size": 32, "n_shared_experts": 1,
               "first_k_dense_replace": 1, "n_group": 1, "topk_group": 1},
    "delta-net": {**SIZES, "model_type": "qwen3_next", "head_dim": 24, "linear_num_value_heads": 4,
                  "linear_value_head_dim": 32, "linear_num_key_heads": 2, "linear_key_head_dim": 32,
                  "linear_conv_kernel_dim": 2, "num_experts": 4, "num_experts_per_tok": 2,
                  "moe_intermediate_size": 32, "shared_expert_intermediate_size": 32},
}  # fmt: skip


def built(config: dict[str, Any]) -> Any:
    import torch
    import transformers

    torch.manual_seed(0)
    return transformers.AutoModelForCausalLM.from_config(transformers.AutoConfig.for_model(**config))


def decoder(config: dict[str, Any]) -> DecoderShape:
    shape = shape_from_config(config)
    assert isinstance(shape, DecoderShape)
    return shape


def storage(value: Any) -> int:
    """Bytes of all tensors in a cache, whatever holds them."""
    import torch

    if isinstance(value, torch.Tensor):
        return value.untyped_storage().nbytes()
    if isinstance(value, (list, tuple)):
        return sum(storage(item) for item in value)
    if isinstance(value, dict):
        return sum(storage(item) for item in value.values())
    return storage(list(vars(value).values())) if hasattr(value, "__dict__") and not isinstance(value, type) else 0


@pytest.mark.parametrize("name", CONFIGS)
def test_a_cache_takes_what_is_predicted(name: str) -> None:
    import torch

    model = built(CONFIGS[name]).eval()
    with torch.inference_mode():
        cache = model(torch.ones(2, TOKENS - 1, dtype=torch.long), use_cache=True).past_key_values
        # The first pass leaves windows as views of all tokens; the second copies what they keep.
        cache = model(torch.ones(2, 1, dtype=torch.long), past_key_values=cache, use_cache=True).past_key_values
    predicted = kv_bytes(decoder(CONFIGS[name]), TOKENS, 4.0, sequences=2)
    assert storage(cache.layers) == pytest.approx(predicted, rel=0.02)


@pytest.mark.parametrize("name", CONFIGS)
def test_weights_take_what_is_predicted(name: str) -> None:
    held = sum(parameter.untyped_storage().nbytes() for parameter in set(built(CONFIGS[name]).parameters()))
    assert held == weights_bytes(decoder(CONFIGS[name]), 32.0)


@pytest.mark.parametrize(("optimizer", "momentum"), [("adamw", 0.0), ("momentum", 0.9), ("sgd", 0.0)])
def test_a_training_step_keeps_the_state_that_is_predicted(optimizer: str, momentum: float) -> None:
    import torch

    model = built(load_model("tiny").config)
    kind = torch.optim.AdamW(model.parameters()) if optimizer == "adamw" else None
    stepper = kind or torch.optim.SGD(model.parameters(), momentum=momentum)
    model(torch.ones(1, 16, dtype=torch.long)).logits.sum().backward()
    stepper.step()
    gradients = sum(p.grad.untyped_storage().nbytes() for p in model.parameters() if p.grad is not None)
    state = sum(storage(list(kept.values())) for kept in stepper.state.values())
    # SGD's momentum is in fp32 here as the weights are
    predicted = training_memory(decoder(load_model("tiny").config), with_optimizer(LAYOUTS["fp32"], optimizer), 1, 16)
    assert gradients == predicted.gradients_bytes
    assert state == pytest.approx(predicted.optimizer_bytes, rel=0.02)
