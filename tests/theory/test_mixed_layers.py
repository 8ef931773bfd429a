"""Models whose layers differ: published sizes, torch's own caches, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from twinlens.errors import BadInput
from twinlens.spec.model.config import READERS, shape_from_config
from twinlens.spec.model.shape import DecoderShape
from twinlens.theory.adapter import adapter_parameters
from twinlens.theory.attention import held_elements, state_bytes
from twinlens.theory.flop import decode_flop
from twinlens.theory.memory import kv_bytes
from twinlens.theory.parameter import parameters

NEMOTRON_8B = {
    "model_type": "nemotron_h", "hybrid_override_pattern": "M-M-M-M*-" + "M-M-M-M-M*-" * 3 + "M-M-M-M-M-",
    "vocab_size": 131072, "hidden_size": 4096, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128,
    "intermediate_size": 21504, "mamba_num_heads": 128, "mamba_head_dim": 64, "n_groups": 8, "ssm_state_size": 128,
    "conv_kernel": 4, "max_position_embeddings": 8192,
}  # fmt: skip
NANO = NEMOTRON_8B | {
    "hybrid_override_pattern": "MEMEM*" + "EMEMEM*" * 4 + "EMEMEMEM*EMEMEMEME", "hidden_size": 2688,
    "num_key_value_heads": 2, "intermediate_size": 1856, "moe_intermediate_size": 1856, "n_routed_experts": 128,
    "moe_shared_expert_intermediate_size": 3712, "num_experts_per_tok": 6, "mamba_num_heads": 64,
}  # fmt: skip
GEMMA_31B = {
    "model_type": "gemma4_text", "hidden_size": 5376, "intermediate_size": 21504, "num_hidden_layers": 60,
    "num_attention_heads": 32, "num_key_value_heads": 16, "num_global_key_value_heads": 4, "attention_k_eq_v": True,
    "hidden_size_per_layer_input": 0, "sliding_window": 1024,
}  # fmt: skip
GEMMA_26B = GEMMA_31B | {
    "hidden_size": 2816, "intermediate_size": 2112, "num_hidden_layers": 30, "num_attention_heads": 16,
    "num_key_value_heads": 8, "num_global_key_value_heads": 2, "enable_moe_block": True, "num_experts": 128,
    "top_k_experts": 8, "moe_intermediate_size": 704,
}  # fmt: skip


def decoder(config: dict[str, Any]) -> DecoderShape:
    shape = shape_from_config(config)
    assert isinstance(shape, DecoderShape)
    return shape


@pytest.mark.parametrize(
    ("config", "total", "active"),
    [(NEMOTRON_8B, 8.10e9, 8.10e9), (NANO, 31.6e9, 3.58e9), (GEMMA_31B, 30.7e9, 30.7e9), (GEMMA_26B, 25.2e9, 3.8e9)],
    ids=["Nemotron-H-8B", "Nemotron-3-Nano-30B-A3B", "gemma-4-31B", "gemma-4-26B-A4B"],
)
def test_a_published_model_has_its_published_parameters(config: dict[str, Any], total: float, active: float) -> None:
    counted = parameters(decoder(config))
    assert counted.total == pytest.approx(total, rel=0.003)
    assert counted.active == pytest.approx(active, rel=0.01)


@pytest.mark.torch
@pytest.mark.parametrize("config", [NEMOTRON_8B, NANO, GEMMA_31B, GEMMA_26B], ids=["8B", "nano", "31B", "26B"])
def test_parameters_are_those_that_transformers_builds_without_memory(config: dict[str, Any]) -> None:
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    written = transformers.AutoConfig.for_model(**config)
    with torch.device("meta"):
        built = transformers.AutoModelForCausalLM.from_config(written)
    counted = sum(each.numel() for each in built.parameters())
    assert counted == parameters(decoder(config)).total
    assert counted == parameters(decoder(written.to_dict() | {"model_type": config["model_type"]})).total


@pytest.mark.torch
def test_a_nemotron_keeps_what_torch_keeps() -> None:
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    small = NEMOTRON_8B | {
        "hybrid_override_pattern": "M-M*-", "vocab_size": 96, "hidden_size": 32, "num_attention_heads": 4,
        "num_key_value_heads": 2, "head_dim": 16, "intermediate_size": 48, "mamba_num_heads": 4, "mamba_head_dim": 8,
        "n_groups": 2, "ssm_state_size": 16,
    }  # fmt: skip
    model = transformers.AutoModelForCausalLM.from_config(transformers.AutoConfig.for_model(**small)).eval()
    with torch.inference_mode():
        layers = model(input_ids=torch.arange(24)[None], use_cache=True).past_key_values.layers
    shape = decoder(small)
    held = sum(tensor.numel() for tensor in kept(layers, "keys") + kept(layers, "values"))
    assert held == held_elements(shape, 24)
    states = sum(tensor.numel() for tensor in kept(layers, "recurrent_states"))
    assert states == state_bytes(shape, 0.0, 1.0)


def kept(layers: list[Any], name: str) -> list[Any]:
    """Tensors of this name, of the layers that have one; some kinds of cache hold a dict of them."""
    found = [getattr(layer, name, None) for layer in layers]
    tensors = [each for one in found for each in (one.values() if isinstance(one, dict) else [one])]
    return [tensor for tensor in tensors if tensor is not None]


def test_full_layers_cache_their_own_sizes_and_windowed_ones_no_more_than_the_window() -> None:
    """Gemma 4 31B: ten full layers of 4 heads × 512, fifty windowed ones of 16 × 256 that hold 1,024 tokens; keys and
    values are normed apart, so both are kept."""
    assert kv_bytes(decoder(GEMMA_31B), 8192) == 2 * 2 * (10 * 4 * 512 * 8192 + 50 * 16 * 256 * 1024)


def test_layers_that_share_keys_keep_none_and_attend_all_the_same() -> None:
    alone = {**GEMMA_31B, "num_hidden_layers": 12}
    shared = decoder({**alone, "num_kv_shared_layers": 6})
    assert kv_bytes(shared, 4096) * 2 == kv_bytes(decoder(alone), 4096)
    spared = (parameters(decoder(alone)).matmul - parameters(shared).matmul) * 2.0
    assert decode_flop(decoder(alone), 4096) - decode_flop(shared, 4096) == spared > 0


def test_adapters_stand_on_projections_that_are_there() -> None:
    """A full layer of Gemma 4 31B makes its values from its keys: no adapter of values there."""
    shape = decoder({**GEMMA_31B, "num_hidden_layers": 6})
    assert adapter_parameters(shape, 1, ["v"]) == 5 * (5376 + 16 * 256)
    assert adapter_parameters(shape, 1, ["k"]) == 5 * (5376 + 16 * 256) + 5376 + 4 * 512


@pytest.mark.parametrize("kind", ["deepseek_v4", "minimax_m3_vl", "minimax_m3_vl_text"])
def test_a_type_that_is_not_counted_is_refused_with_what_is_not_counted(kind: str) -> None:
    with pytest.raises(BadInput, match=f"{kind}.*not counted: its .*no formula here") as told:
        shape_from_config({"model_type": kind, "hidden_size": 4096})
    assert told.value.code == "TL202"
    assert kind not in READERS


@pytest.mark.parametrize(
    ("config", "why"),
    [
        ({**GEMMA_31B, "num_hidden_layers": 6, "num_kv_shared_layers": 3}, "no earlier layer makes"),
        ({**GEMMA_31B, "use_bidirectional_attention": "all"}, "both directions"),
        ({**GEMMA_31B, "per_layer_config": {"0": {"head_dim": 8}}}, "different sizes"),
        ({**NANO, "mlp_bias": True}, "biases of experts"),
        ({**NANO, "hybrid_override_pattern": "MX"}, "unknown here"),
    ],
)
def test_what_a_config_asks_for_and_nobody_counts_is_refused(config: dict[str, Any], why: str) -> None:
    with pytest.raises(BadInput, match=why):
        shape_from_config(config)
