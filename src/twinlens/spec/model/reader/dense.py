"""Readers of decoders whose layers are all of one kind, windows aside."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from twinlens.spec.model.shape import DecoderShape

Config = Mapping[str, Any]


def attention(config: Config) -> dict[str, Any]:
    """Sizes that every Llama-like config spells the same way."""
    heads = config["num_attention_heads"]
    head_dim = config.get("head_dim")
    return {
        "layers": config["num_hidden_layers"],
        "hidden": config["hidden_size"],
        "heads": heads,
        "kv_heads": config.get("num_key_value_heads") or heads,
        "head_dim": head_dim or config["hidden_size"] // heads,
        "intermediate": config["intermediate_size"],
        "vocab": config["vocab_size"],
        "tied_embeddings": config.get("tie_word_embeddings", False),
        "max_context": config["max_position_embeddings"],
    }


def full_layers(config: Config, period: int, name: str = "full_attention") -> int:
    """Layers that see every token: as `layer_types` lists them, or the last of every `period`."""
    listed = config.get("layer_types")
    if listed is None:
        return int(config["num_hidden_layers"]) // period
    if len(listed) != config["num_hidden_layers"]:
        raise ValueError(f"layer_types lists {len(listed)} of {config['num_hidden_layers']} layers")
    return sum(1 for kind in listed if kind == name)


Part = Mapping[str, Any] | Callable[[Config], Mapping[str, Any]]
"""Fields of the shape: always the same, or read from the config."""


def reader(*parts: Part, **defaults: Any) -> Callable[[Config], DecoderShape]:
    """A reader of a Llama-like config: the usual sizes, with `parts` over them. `defaults`: of the config's class."""

    def read(config: Config) -> DecoderShape:
        known = {**defaults, **config}
        fields = attention(known)
        for part in parts:
            fields |= part(known) if callable(part) else part
        return DecoderShape(**fields)

    return read


def attention_bias(config: Config) -> dict[str, Any]:
    """Biases of all four projections of attention, or none."""
    return {"attention_bias": "all" if config.get("attention_bias") else "none"}


def qkv_bias(config: Config) -> dict[str, Any]:
    """Biases of queries, keys and values, and none of the output."""
    return {"attention_bias": "qkv" if config.get("attention_bias") else "none"}


def biases(config: Config) -> dict[str, Any]:
    """Biases of attention and of the MLP, by a switch each."""
    return attention_bias(config) | {"mlp_bias": bool(config.get("mlp_bias"))}


def one_bias(config: Config) -> dict[str, Any]:
    """One switch for every bias, that of the norms aside."""
    return {"attention_bias": "all" if config.get("use_bias") else "none", "mlp_bias": bool(config.get("use_bias"))}


def sliding(config: Config) -> dict[str, Any]:
    """A sliding window in every layer, where there is one."""
    return {"sliding_window": config.get("sliding_window")}


def windowed(config: Config, period: int = 4) -> dict[str, Any]:
    """A sliding window but in every `period`-th layer, unless `layer_types` lists them."""
    if not (width := config.get("sliding_window")):
        return {}
    return {"sliding_window": width, "full_attention_layers": full_layers(config, period)}


def qwen_window(config: Config) -> dict[str, Any]:
    """Qwen keeps `sliding_window` in the config even where it is switched off."""
    if not config.get("use_sliding_window") or not config.get("sliding_window"):
        return {}
    full = min(config.get("max_window_layers", 28), config["num_hidden_layers"])
    return {"sliding_window": config["sliding_window"], "full_attention_layers": full}


NORMED: Part = {"qk_norm": True}
NORMED_WHOLE: Part = {"qk_norm": True, "qk_norm_all_heads": True}
"""Norms over all heads of queries and of keys (OLMo 2 and later)."""
UNGATED: Part = {"gated_mlp": False}
NORM_BIAS: Part = {"norm_bias": True}
ONE_NORM: Part = {"layer_norms": 1}
"""Attention and MLP side by side under one norm."""


def _gemma(config: Config) -> dict[str, Any]:
    """Windows but in every second layer (Gemma 2) or sixth (Gemma 3), norms before and after each block."""
    period = 2 if config["model_type"] == "gemma2" else config.get("sliding_window_pattern") or 6
    window = {"sliding_window": config["sliding_window"], "full_attention_layers": full_layers(config, period)}
    return window | {"layer_norms": 4, "norm_in_fp32": True}


def _no_head_norms(config: Config) -> dict[str, Any]:
    if config.get("qk_layernorm"):
        raise ValueError("qk_layernorm: norms of each head's own are not known here")
    return {}


def _stablelm(config: Config) -> dict[str, Any]:
    layer_norms = 1 if config.get("use_parallel_residual") else 2
    return {"layer_norms": layer_norms, "attention_bias": "qkv" if config.get("use_qkv_bias") else "none"}


def _cohere(config: Config) -> dict[str, Any]:
    normed = bool(config.get("use_qk_norm"))
    return {"qk_norm": normed, "qk_norm_all_heads": normed}


def _seed(config: Config) -> dict[str, Any]:
    if config.get("attention_out_bias") != config.get("attention_bias") and config.get("attention_out_bias"):
        raise ValueError("attention_out_bias without attention_bias is not known here")
    return {"attention_bias": "all"} if config.get("attention_out_bias") else qkv_bias(config)


def _mllama(config: Config) -> dict[str, Any]:
    """The text part of Llama 3.2 Vision: eight more rows in the table, and layers that look at the image."""
    return {"cross_attention_layers": len(config["cross_attention_layers"]), "table_rows": config["vocab_size"] + 8}


def gpt2(config: Config) -> DecoderShape:
    hidden, heads = config["n_embd"], config["n_head"]
    return DecoderShape(
        layers=config["n_layer"],
        hidden=hidden,
        heads=heads,
        kv_heads=heads,
        head_dim=hidden // heads,
        intermediate=config.get("n_inner") or 4 * hidden,
        vocab=config["vocab_size"],
        tied_embeddings=config.get("tie_word_embeddings", True),
        max_context=config["n_positions"],
        attention_bias="all",
        mlp_bias=True,
        gated_mlp=False,
        norm_bias=True,
        learned_positions=True,
    )


def mpt(config: Config) -> DecoderShape:
    """MosaicML's models: no biases; positions are learned unless the config asks for ALiBi or RoPE."""
    hidden, heads, inner = config["d_model"], config["n_heads"], config.get("attn_config") or {}
    return DecoderShape(
        layers=config["n_layers"],
        hidden=hidden,
        heads=heads,
        kv_heads=heads,
        head_dim=hidden // heads,
        intermediate=int(config.get("expansion_ratio", 4) * hidden),
        vocab=config["vocab_size"],
        tied_embeddings=config.get("tie_word_embeddings", True),
        max_context=config["max_seq_len"],
        gated_mlp=False,
        layer_norm=True,
        learned_positions=not (inner.get("alibi") or inner.get("rope")),
    )


_GEMMA3 = {
    "vocab_size": 262_208, "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256,
    "tie_word_embeddings": True, "sliding_window": 4096, "max_position_embeddings": 131_072,
}  # fmt: skip
"""Published text parts leave out what equals the defaults of the class."""
_QWEN2 = reader(qwen_window, {"attention_bias": "qkv"})
_QWEN3 = reader(qwen_window, attention_bias, NORMED, head_dim=128)
_MLLAMA = reader(_mllama)

READERS: dict[str, Callable[[Config], DecoderShape]] = {
    "arcee": reader(biases, UNGATED),
    "cohere": reader(biases, ONE_NORM, _cohere, tie_word_embeddings=True),
    "cohere2": reader(biases, ONE_NORM, windowed, tie_word_embeddings=True),
    "ernie4_5": reader(one_bias, tie_word_embeddings=True, head_dim=128),
    "exaone4": reader(biases, NORMED, windowed),
    "gemma": reader(attention_bias, {"norm_in_fp32": True}, head_dim=256, tie_word_embeddings=True),
    "gemma2": reader(attention_bias, _gemma, head_dim=256, tie_word_embeddings=True, sliding_window=4096),
    **dict.fromkeys(("gemma3", "gemma3_text"), reader(attention_bias, NORMED, _gemma, **_GEMMA3)),
    "glm": reader(biases, qkv_bias, head_dim=128),
    "glm4": reader(biases, qkv_bias, {"layer_norms": 4}, head_dim=128),
    "gpt2": gpt2,
    "gpt_neox": reader(attention_bias, UNGATED, NORM_BIAS, {"mlp_bias": True}, attention_bias=True),
    "granite": reader(biases),
    "helium": reader(biases),
    "hunyuan_v1_dense": reader(biases, NORMED),
    "llama": reader(biases),
    "ministral": reader(biases, sliding),
    "ministral3": reader(biases, sliding),
    "mistral": reader(sliding),
    "mllama": _MLLAMA,
    "mllama_text_model": _MLLAMA,
    "mpt": mpt,
    "nemotron": reader(biases, UNGATED, NORM_BIAS),
    "olmo": reader(biases, {"norm_weights": False}),
    "olmo2": reader(biases, NORMED_WHOLE),
    "olmo3": reader(biases, NORMED_WHOLE, windowed, sliding_window=4096),
    # Phi-1 and Phi-2: a bias on everything, the head too.
    "phi": reader(
        _no_head_norms, ONE_NORM, UNGATED, NORM_BIAS, {"attention_bias": "all", "mlp_bias": True, "head_bias": True}
    ),
    "phi3": reader(sliding),
    **dict.fromkeys(("qwen2", "qwen2_vl", "qwen2_vl_text", "qwen2_5_vl", "qwen2_5_vl_text"), _QWEN2),
    "qwen3": _QWEN3,
    "qwen3_vl_text": _QWEN3,
    "seed_oss": reader(biases, _seed, head_dim=128),
    "smollm3": reader(biases, qwen_window, tie_word_embeddings=True),
    "stablelm": reader(biases, _no_head_norms, NORM_BIAS, _stablelm),
    "starcoder2": reader(one_bias, sliding, UNGATED, NORM_BIAS, use_bias=True, tie_word_embeddings=True),
}
