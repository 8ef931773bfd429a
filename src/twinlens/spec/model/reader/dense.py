"""Readers of decoders whose layers are all of one kind, windows aside."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

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


def bias(config: Config) -> Literal["none", "all"]:
    """Biases of all four projections of attention, or none."""
    return "all" if config.get("attention_bias") else "none"


def full_layers(config: Config, period: int, name: str = "full_attention") -> int:
    """Layers that see every token: as `layer_types` lists them, or the last of every `period`."""
    listed = config.get("layer_types")
    if listed is None:
        return int(config["num_hidden_layers"]) // period
    if len(listed) != config["num_hidden_layers"]:
        raise ValueError(f"layer_types lists {len(listed)} of {config['num_hidden_layers']} layers")
    return sum(1 for kind in listed if kind == name)


def llama(config: Config) -> DecoderShape:
    return DecoderShape(**attention(config), attention_bias=bias(config), mlp_bias=config.get("mlp_bias", False))


def mistral(config: Config) -> DecoderShape:
    return DecoderShape(**attention(config), sliding_window=config.get("sliding_window"))


def phi3(config: Config) -> DecoderShape:
    return DecoderShape(**attention(config), sliding_window=config.get("sliding_window"))


def qwen_window(config: Config) -> dict[str, Any]:
    """Qwen keeps `sliding_window` in the config even where it is switched off."""
    if not config.get("use_sliding_window") or not config.get("sliding_window"):
        return {}
    return {
        "sliding_window": config["sliding_window"],
        "full_attention_layers": min(config.get("max_window_layers", 28), config["num_hidden_layers"]),
    }


def qwen2(config: Config) -> DecoderShape:
    return DecoderShape(**attention(config), **qwen_window(config), attention_bias="qkv")


def qwen3(config: Config) -> DecoderShape:
    sizes = attention({"head_dim": 128, **config})
    return DecoderShape(**sizes, **qwen_window(config), attention_bias=bias(config), qk_norm=True)


def gemma(config: Config) -> DecoderShape:
    known = {"head_dim": 256, "tie_word_embeddings": True, **config}
    return DecoderShape(**attention(known), attention_bias=bias(config), norm_in_fp32=True)


def gemma2(config: Config) -> DecoderShape:
    known = {"head_dim": 256, "tie_word_embeddings": True, "sliding_window": 4096, **config}
    return _windowed_gemma(known, 2)


def gemma3(config: Config) -> DecoderShape:
    """Published text parts leave out what equals the defaults of the class."""
    defaults = {
        "vocab_size": 262_208,
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "head_dim": 256,
        "tie_word_embeddings": True,
        "sliding_window": 4096,
        "max_position_embeddings": 131_072,
    }
    known = {**defaults, **config}
    return _windowed_gemma(known, known.get("sliding_window_pattern") or 6, qk_norm=True)


def _windowed_gemma(config: Config, period: int, qk_norm: bool = False) -> DecoderShape:
    return DecoderShape(
        **attention(config),
        attention_bias=bias(config),
        qk_norm=qk_norm,
        sliding_window=config["sliding_window"],
        full_attention_layers=full_layers(config, period),
        layer_norms=4,
        norm_in_fp32=True,
    )


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


def mllama(config: Config) -> DecoderShape:
    """The text part of Llama 3.2 Vision: eight more rows in the table, and layers that look at the image."""
    across = config["cross_attention_layers"]
    return DecoderShape(**attention(config), cross_attention_layers=len(across), table_rows=config["vocab_size"] + 8)
