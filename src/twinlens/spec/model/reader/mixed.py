"""Readers of decoders whose layers differ in their sizes (Gemma 4)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from twinlens.spec.model.layer import Experts, GlobalAttention
from twinlens.spec.model.reader.dense import attention, bias
from twinlens.spec.model.shape import DecoderShape

Config = Mapping[str, Any]
_DEFAULTS = {
    "vocab_size": 262_144, "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256,
    "tie_word_embeddings": True, "max_position_embeddings": 131_072, "sliding_window": 512,
    "hidden_size_per_layer_input": 256, "vocab_size_per_layer_input": 262_144,
}  # fmt: skip


def gemma4(config: Config) -> DecoderShape:
    """Windowed and full layers of different sizes; the last layers may read earlier keys and values; an embedding of
    each token for each layer; experts, where they are, beside the dense MLP of every layer."""
    known = {**_DEFAULTS, **{name: value for name, value in config.items() if value is not None}}
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
        attention_bias=bias(known),
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
