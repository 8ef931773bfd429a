"""docs/families.md: every model type that theory reads, held to a small model of it that transformers builds and torch
runs. Run it to write the page again."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

from twinlens.executors.torch.evidence.flop import counted_flop
from twinlens.executors.torch.model.build import build_model
from twinlens.spec.model.config import READERS, shape_from_config
from twinlens.spec.model.reference import ModelRef
from twinlens.spec.model.shape import DecoderShape
from twinlens.theory.attention import held_elements
from twinlens.theory.flop import forward_flop
from twinlens.theory.parameter import parameters

PAGE = Path(__file__).parents[2] / "docs" / "families.md"
TOKENS = 24
SMALL: dict[str, Any] = {
    "vocab_size": 96, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 4, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 16, "max_position_embeddings": 64, "sliding_window": 32,
    "attention_chunk_size": 32, "num_experts": 4, "num_local_experts": 4, "n_routed_experts": 4, "moe_num_experts": 4,
    "num_experts_per_tok": 2, "moe_topk": 2, "moe_intermediate_size": 24, "shared_expert_intermediate_size": 24,
    "shared_intermediate_size": 40, "intermediate_size_mlp": 56, "n_shared_experts": 1, "first_k_dense_replace": 1,
    "n_group": 1, "topk_group": 1, "kv_lora_rank": 16, "q_lora_rank": 24, "qk_rope_head_dim": 8,
    "qk_nope_head_dim": 16, "v_head_dim": 12, "index_n_heads": 2, "index_head_dim": 16, "index_topk": 64,
    "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 8, "linear_value_head_dim": 8,
    "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip
_LATENT = {"num_key_value_heads": 4, "head_dim": None}
EXTRA: dict[str, dict[str, Any]] = {
    **dict.fromkeys(("deepseek_v2", "deepseek_v3", "deepseek_v32", "glm_moe_dsa", "glm4_moe_lite"), _LATENT),
    "mpt": {"d_model": 32, "n_heads": 4, "n_layers": 4, "max_seq_len": 64},
    "gpt2": {"n_inner": 48},
    "bamba": {"mamba_n_heads": 4, "mamba_d_state": 8, "attn_layer_indices": [1]},
    "jamba": {"mamba_d_state": 4},
    "gemma4_text": {
        "layer_types": ["sliding_attention", "full_attention"] * 2,
        "num_kv_shared_layers": 2,
        "global_head_dim": 24,
        "attention_k_eq_v": True,
        "num_global_key_value_heads": 1,
        "hidden_size_per_layer_input": 8,
        "vocab_size_per_layer_input": 96,
        "use_double_wide_mlp": True,
        "enable_moe_block": True,
        "top_k_experts": 2,
    },
    "nemotron_h": {
        "layers_block_type": ["linear_attention", "moe", "full_attention", "mlp", "moe"],
        "moe_latent_size": 20,
        "moe_shared_expert_intermediate_size": 40,
        "mamba_num_heads": 4,
        "mamba_head_dim": 8,
        "n_groups": 2,
        "ssm_state_size": 8,
    },
    "helium": {"head_dim": 8},
}
TEXT_PARTS = ("gemma3", "gemma4", "llama4", "mllama", "qwen3_5", "qwen3_5_moe")
"""Types whose config holds a text part of a type of its own, which is in the table."""
COMPUTED_TWICE = {"llama4_text": "transformers multiplies every token with every expert"}
_CACHED = ("keys", "values", "indexer_keys")
TYPES = tuple(t for t in READERS if t in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES and t not in TEXT_PARTS)


@dataclass(frozen=True, slots=True)
class Row:
    """One type. `flop_ratio` and `kv_ratio`: counted over theory; None where the engine does not run the type."""

    kind: str
    shape: DecoderShape
    built: int
    flop_ratio: float | None
    kv_ratio: float | None


@cache
def model(kind: str) -> ModelRef:
    """A small model of this type, by the config that transformers itself writes."""
    stock = transformers.AutoConfig.for_model(kind)
    extra = EXTRA.get(kind, {})
    known = set(stock.to_dict()) | set(getattr(stock, "attribute_map", {})) | set(extra)
    asked = {name: value for name, value in (SMALL | extra).items() if name in known and value is not None}
    config = transformers.AutoConfig.for_model(kind, **asked).to_dict() | {"model_type": kind}
    return ModelRef(name=kind, config=config, shape=shape_from_config(config), source="transformers")


def built(kind: str, device: str = "cpu") -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return build_model(model(kind), "eager", 0, torch.device(device)).eval()


@cache
def row(kind: str) -> Row:
    """Attention is written out, so that all products of the square are counted, masked ones too."""
    shape = model(kind).shape
    assert isinstance(shape, DecoderShape)
    count = sum(parameter.numel() for parameter in bare(kind).parameters())
    if shape.recurrent:
        return Row(kind, shape, count, None, None)
    runs, out, ids = built(kind), {}, torch.arange(TOKENS)[None]
    with torch.inference_mode():
        flop = counted_flop(lambda: out.update(last=runs(input_ids=ids, use_cache=True)))
    layers = out["last"].past_key_values.layers
    tensors = (getattr(layer, name, None) for layer in layers for name in _CACHED)  # a layer may keep none of its own
    held = sum(tensor.numel() for tensor in tensors if tensor is not None)
    cached = float(held_elements(shape, TOKENS))
    return Row(kind, shape, count, flop / float(forward_flop(shape, TOKENS, 0, "palm-full")), held / cached)


def bare(kind: str) -> Any:
    """Without memory; types that the engine refuses, too."""
    config = transformers.AutoConfig.for_model(**model(kind).config)
    with torch.device("meta"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return transformers.AutoModelForCausalLM.from_config(config, trust_remote_code=False)


def page() -> str:
    text_parts = ", ".join(f"`{each}`" for each in TEXT_PARTS)
    lines = [
        "# Model types that theory reads",
        "",
        "Each is held to a small model that transformers builds from a config of that type: parameters to the sum of",
        f"its tensors, FLOP of {TOKENS} tokens to torch's counter (attention written out: masked products count), KV",
        "cache to its tensors. `python tests/executors/family_table.py` writes this page, and the tests compare it.",
        f"A config with a text part ({text_parts}, and the `_vl` types) is read as that.",
        "",
        "| model_type | attention | MLP | parameters | FLOP counted / theory | KV / theory | torch executor |",
        "|---|---|---|---|---|---|---|",
    ]
    return "\n".join([*lines, *(_line(row(kind)) for kind in sorted(TYPES)), ""])


def _line(each: Row) -> str:
    exact = "exact" if each.built == parameters(each.shape).total else "WRONG"
    flop = "–" if each.flop_ratio is None else f"{each.flop_ratio:.3f}"
    if each.kind in COMPUTED_TWICE:
        flop += f" ({COMPUTED_TWICE[each.kind]})"
    kv = {None: "–", 1.0: "exact"}.get(each.kv_ratio, "WRONG")
    runs = "no: recurrent layers" if each.shape.recurrent else _attention_it_takes(each.kind)
    return f"| {each.kind} | {_attention(each.shape)} | {_mlp(each.shape)} | {exact} | {flop} | {kv} | {runs} |"


def _attention_it_takes(kind: str) -> str:
    cls = getattr(transformers, MODEL_FOR_CAUSAL_LM_MAPPING_NAMES[kind])
    return "yes" if cls._supports_sdpa else '`attention = "eager"`'


def _attention(shape: DecoderShape) -> str:
    kind = "latent" if shape.mla else "grouped"
    parts = [kind + (" with an indexer" if shape.mla and shape.mla.index_heads else "")]
    if shape.windowed_layers:
        parts.append(f"{shape.window_kind} in {shape.windowed_layers} of {shape.attention_layers}")
    parts += ["normed queries and keys"] if shape.qk_norm else []
    if shared := shape.shared_kv_full + shape.shared_kv_windowed:
        parts.append(f"shared keys and values in {shared}")
    parts += ["sinks"] if shape.sinks else []
    if shape.recurrent:
        parts.append(f"{shape.recurrent.kind} in {shape.recurrent.layers} of {shape.layers}")
    return ", ".join(parts)


def _mlp(shape: DecoderShape) -> str:
    gated = "gated" if shape.gated_mlp else "two matrices"
    if not shape.experts:
        return gated
    shared = ", shared" if shape.experts.shared else ""
    dense = f", dense in {shape.dense_layers}" if shape.dense_layers else ""
    return f"experts{shared}{dense}"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
