"""Readers of mixtures of experts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from twinlens.spec.model.layer import Experts, GlobalAttention, LatentAttention
from twinlens.spec.model.reader.dense import (
    NORM_BIAS,
    NORMED,
    NORMED_WHOLE,
    attention,
    attention_bias,
    biases,
    full_layers,
    qkv_bias,
    qwen_window,
    reader,
    sliding,
)
from twinlens.spec.model.shape import DecoderShape

Config = Mapping[str, Any]


def local_experts(config: Config, **more: Any) -> Experts:
    """Experts of the width of the MLP, in every layer."""
    name = "num_experts" if "num_experts" in config else "num_local_experts"
    return Experts(
        count=config.get("num_local_experts") or config[name],
        per_token=config["num_experts_per_tok"],
        intermediate=config["intermediate_size"],
        **more,
    )


def _routed(config: Config) -> dict[str, Any]:
    return {"experts": local_experts(config)}


def _minimax(config: Config) -> dict[str, Any]:
    normed = config.get("use_qk_norm", True)
    return {"qk_norm": normed, "qk_norm_all_heads": normed}


def _gpt_oss(config: Config) -> dict[str, Any]:
    experts = local_experts(config, bias=True)
    return sliding(config) | {"full_attention_layers": full_layers(config, 2), "experts": experts, "sinks": True}


def sparse_layers(config: Config) -> int:
    """Layers with experts by Qwen's rule: every `decoder_sparse_step`-th, but for `mlp_only_layers`."""
    step = config.get("decoder_sparse_step", 1)
    dense = set(config.get("mlp_only_layers") or ())
    return sum(1 for i in range(config["num_hidden_layers"]) if (i + 1) % step == 0 and i not in dense)


def qwen_experts(config: Config) -> Experts | None:
    """Experts of any Qwen; None where no layer has them."""
    count = config["num_local_experts"] if "num_experts" not in config else config["num_experts"]  # from 5.23 on
    layers = sparse_layers(config) if count else 0
    shared = config.get("shared_expert_intermediate_size")
    if not layers:
        return None
    return Experts(
        count=count,
        per_token=config["num_experts_per_tok"],
        intermediate=config["moe_intermediate_size"],
        layers=layers,
        shared=1 if shared else 0,
        shared_intermediate=shared,
        shared_gate=bool(shared),
    )


def _qwen2_moe(config: Config) -> dict[str, Any]:
    return {"attention_bias": "qkv" if config.get("qkv_bias", True) else "none", "experts": qwen_experts(config)}


def _qwen3_moe(config: Config) -> dict[str, Any]:
    alone = {name: value for name, value in config.items() if name != "shared_expert_intermediate_size"}
    return {"experts": qwen_experts(alone)}


def _deepseek_experts(config: Config) -> dict[str, Any]:
    """Experts but in the first layers, which `mlp_layer_types` lists from transformers 5.23 on."""
    listed = config.get("mlp_layer_types")
    experts = Experts(
        count=config["n_routed_experts"],
        per_token=config["num_experts_per_tok"],
        intermediate=config["moe_intermediate_size"],
        shared=config.get("n_shared_experts") or 0,
        router_in_fp32=True,
        dense_layers_first=listed.count("dense") if listed else config.get("first_k_dense_replace", 0),
    )
    return {"experts": experts}


def _latent(config: Config) -> dict[str, Any]:
    """Latent attention: of DeepSeek-V2 and -V3, and Kimi K2."""
    if config.get("moe_layer_freq", 1) != 1:
        raise ValueError("experts in every layer of the mixture (moe_layer_freq 1) are all that is known here")
    latent = LatentAttention(
        kv_lora_rank=config["kv_lora_rank"],
        q_lora_rank=config.get("q_lora_rank"),
        qk_rope_head_dim=config["qk_rope_head_dim"],
        qk_nope_head_dim=config["qk_nope_head_dim"],
        v_head_dim=config["v_head_dim"],
        index_heads=config.get("index_n_heads") or 0,
        index_dim=config.get("index_head_dim") or 0,
    )
    return {"head_dim": latent.qk_nope_head_dim + latent.qk_rope_head_dim, "mla": latent}


def _hunyuan(config: Config) -> dict[str, Any]:
    chosen = config["moe_topk"]
    if not isinstance(chosen, int):
        raise ValueError("moe_topk that differs by layer is not known here")
    return {"experts": local_experts({**config, "num_experts_per_tok": chosen}, shared=1)}


def _granite_shared(config: Config) -> dict[str, Any]:
    width = config.get("shared_intermediate_size") or None
    return {"experts": local_experts(config, shared=1 if width else 0, shared_intermediate=width)}


def _llama4(config: Config) -> dict[str, Any]:
    """Chunked attention but in every fourth layer; experts in every `interleave_moe_layer_step`-th."""
    layers, step = config["num_hidden_layers"], config.get("interleave_moe_layer_step", 1)
    listed, positions = config.get("moe_layers"), config.get("no_rope_layers")
    routed = len(listed) if listed else layers // step
    full = layers // config.get("no_rope_layer_interval", 4)
    if config.get("layer_types") or positions:
        full = full_layers(config, 4) if config.get("layer_types") else sum(1 for rope in positions or () if not rope)
    # "intermediate_size" is that of experts here, and each layer with experts has one shared expert of the same width.
    return attention_bias(config) | {
        "intermediate": config["intermediate_size_mlp"],
        "sliding_window": config.get("attention_chunk_size"),
        "window_kind": "chunked",
        "full_attention_layers": full,
        "experts": local_experts(config, shared=1, layers=routed),
    }


# Readers of decoders whose layers differ in their sizes (Gemma 4).

_GEMMA4 = {
    "vocab_size": 262_144, "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256,
    "tie_word_embeddings": True, "max_position_embeddings": 131_072, "sliding_window": 512,
    "hidden_size_per_layer_input": 256, "vocab_size_per_layer_input": 262_144,
}  # fmt: skip


def _gemma4(config: Config) -> DecoderShape:
    """Windowed and full layers of different sizes; the last layers may read earlier keys and values; an embedding of
    each token for each layer; experts, where they are, beside the dense MLP of every layer."""
    known = {**_GEMMA4, **{name: value for name, value in config.items() if value is not None}}
    if known.get("use_bidirectional_attention") == "all":
        raise ValueError("attention in both directions over the whole text is not counted here")
    layers = known["num_hidden_layers"]
    kinds = _kinds(known, layers)
    shared = known.get("num_kv_shared_layers", 0)
    borrowing = kinds[layers - shared :] if shared else []
    if not set(borrowing) <= set(kinds[: layers - shared]):
        raise ValueError("layers share keys and values of a kind that no earlier layer makes")
    experts = _experts(known) if known.get("enable_moe_block") else None
    small = known["hidden_size_per_layer_input"]
    return DecoderShape(
        **attention(known),
        **attention_bias(known),
        qk_norm=True,
        value_norm=True,
        norm_in_fp32=True,
        layer_norms=4 + (1 if small else 0) + (3 if experts else 0),
        sliding_window=known["sliding_window"],
        full_attention_layers=kinds.count("full_attention"),
        global_attention=_global(known, kinds),
        shared_kv_full=borrowing.count("full_attention"),
        shared_kv_windowed=borrowing.count("sliding_attention"),
        double_mlp_layers=shared if known.get("use_double_wide_mlp") else 0,
        per_layer_input=small,
        per_layer_rows=known["vocab_size_per_layer_input"] if small else 0,
        dense_mlp_layers=layers,
        experts=experts,
    )


def _kinds(config: Config, layers: int) -> list[str]:
    """Kind of each layer; the last one always sees all."""
    listed = config.get("layer_types") or [
        "full_attention" if i % 6 == 5 else "sliding_attention" for i in range(layers)
    ]
    if len(listed) != layers or not set(listed) <= {"full_attention", "sliding_attention"}:
        raise ValueError(f"layer_types lists {len(listed)} of {layers} layers, or kinds unknown here")
    return [*listed[:-1], "full_attention"]


def _global(config: Config, kinds: list[str]) -> GlobalAttention:
    """Sizes of full layers: as a published config names them, or one by one as transformers writes them."""
    sizes: dict[str, Any]
    each = config.get("per_layer_config")
    alike = bool(config.get("attention_k_eq_v"))
    if each is None:
        heads = config.get("num_global_key_value_heads") if alike else None
        sizes = {"head_dim": config.get("global_head_dim", 512)} | ({"num_key_value_heads": heads} if heads else {})
    else:
        full = {i for i, kind in enumerate(kinds) if kind == "full_attention"}
        found = [dict(each[i]) for i in each if int(i) in full]
        if {int(i) for i in each} - full or any(size != found[0] for size in found) or len(found) not in (0, len(full)):
            raise ValueError("per_layer_config gives layers of one kind different sizes")
        sizes = found[0] if found else {}
    if unknown := sizes.keys() - {"head_dim", "num_key_value_heads"}:
        raise ValueError(f"per_layer_config sets {', '.join(sorted(unknown))}, which is not counted here")
    return GlobalAttention(
        kv_heads=sizes.get("num_key_value_heads") or config["num_key_value_heads"],
        head_dim=sizes.get("head_dim") or config["head_dim"],
        keys_are_values=alike,
    )


def _experts(config: Config) -> Experts:
    return Experts(
        count=config["num_experts"],
        per_token=config["top_k_experts"],
        intermediate=config["moe_intermediate_size"],
        router_scales=True,
    )


_DEEPSEEK = reader(attention_bias, _deepseek_experts, _latent)
_LLAMA4 = reader(_llama4)
_QWEN3_MOE = reader(qwen_window, attention_bias, NORMED, _qwen3_moe)

READERS: dict[str, Callable[[Config], DecoderShape]] = {
    **dict.fromkeys(
        ("deepseek_v2", "deepseek_v3", "deepseek_v32", "glm4_moe_lite", "glm_moe_dsa", "kimi_k2"), _DEEPSEEK
    ),
    "dots1": reader(biases, NORMED, qwen_window, _deepseek_experts),
    "flex_olmo": reader(biases, NORMED_WHOLE, _routed),
    "gemma4": _gemma4,
    "gemma4_text": _gemma4,
    "glm4_moe": reader(qkv_bias, _deepseek_experts, lambda config: {"qk_norm": config.get("use_qk_norm", False)}),
    "gpt_oss": reader(attention_bias, _gpt_oss, attention_bias=True, sliding_window=128),
    "granitemoe": reader(biases, _routed),
    "granitemoeshared": reader(biases, _granite_shared),
    "hunyuan_v1_moe": reader(biases, NORMED, _hunyuan),
    "llama4": _LLAMA4,
    "llama4_text": _LLAMA4,
    "minimax_m2": reader(_minimax, _routed),
    "mixtral": reader(sliding, _routed),
    "olmoe": reader(biases, NORMED_WHOLE, _routed),
    "phimoe": reader(
        biases, sliding, NORM_BIAS, _routed, lambda config: {"head_bias": bool(config.get("lm_head_bias"))}
    ),
    "qwen2_moe": reader(qwen_window, _qwen2_moe),
    "qwen3_moe": _QWEN3_MOE,
    "qwen3_vl_moe_text": _QWEN3_MOE,
}
