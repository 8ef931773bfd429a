"""Readers of Llama's relatives: the same sizes under the same names, and what each does otherwise."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from twinlens.spec.model.layer import Experts
from twinlens.spec.model.reader.dense import attention, bias, full_layers, qwen_window
from twinlens.spec.model.reader.experts import deepseek_experts
from twinlens.spec.model.shape import DecoderShape

Config = Mapping[str, Any]


def _qkv(config: Config) -> dict[str, Any]:
    """Biases of queries, keys and values, and none of the output."""
    return {"attention_bias": "qkv" if config.get("attention_bias") else "none"}


def _used(config: Config) -> dict[str, Any]:
    """One switch for every bias, that of the norms aside."""
    return {"attention_bias": "all" if config.get("use_bias") else "none", "mlp_bias": bool(config.get("use_bias"))}


def _window(config: Config, period: int = 4) -> dict[str, Any]:
    """A sliding window but in every `period`-th layer, unless `layer_types` lists them."""
    if not (width := config.get("sliding_window")):
        return {}
    return {"sliding_window": width, "full_attention_layers": full_layers(config, period)}


def local_experts(config: Config, **more: Any) -> Experts:
    """Experts of the width of the MLP, in every layer."""
    return Experts(
        count=config.get("num_local_experts") or config["num_experts"],
        per_token=config["num_experts_per_tok"],
        intermediate=config["intermediate_size"],
        **more,
    )


def relative(
    differs: Callable[[Config], dict[str, Any]] = lambda config: {}, **defaults: Any
) -> Callable[[Config], DecoderShape]:
    """A reader of a Llama-like config. `differs`: fields of the shape; `defaults`: of the config, as its class has."""

    def read(config: Config) -> DecoderShape:
        known = {**defaults, **config}
        own = {"attention_bias": bias(known), "mlp_bias": bool(known.get("mlp_bias"))}
        return DecoderShape(**attention(known), **(own | differs(known)))

    return read


def _stablelm(config: Config) -> dict[str, Any]:
    if config.get("qk_layernorm"):
        raise ValueError("qk_layernorm: norms of each head's own are not known here")
    return {
        "norm_bias": True,
        "layer_norms": 1 if config.get("use_parallel_residual") else 2,
        "attention_bias": "qkv" if config.get("use_qkv_bias") else "none",
    }


def _phi(config: Config) -> dict[str, Any]:
    """Phi-1 and Phi-2: attention and MLP side by side under one norm, and a bias on everything, the head too."""
    if config.get("qk_layernorm"):
        raise ValueError("qk_layernorm: norms of each head's own are not known here")
    alike = {"norm_bias": True, "mlp_bias": True, "gated_mlp": False, "attention_bias": "all"}
    return alike | {"layer_norms": 1, "head_bias": True}


def _neox(config: Config) -> dict[str, Any]:
    biased = "all" if config.get("attention_bias", True) else "none"
    return {"norm_bias": True, "mlp_bias": True, "gated_mlp": False, "attention_bias": biased}


def _cohere(config: Config) -> dict[str, Any]:
    """Attention and MLP side by side under one norm."""
    normed = bool(config.get("use_qk_norm"))
    return {"layer_norms": 1, "qk_norm": normed, "qk_norm_all_heads": normed}


def _normed_whole(config: Config) -> dict[str, Any]:
    """OLMo 2 and later: norms over all heads of queries and of keys."""
    return {"qk_norm": True, "qk_norm_all_heads": True}


def _seed(config: Config) -> dict[str, Any]:
    if config.get("attention_out_bias") != config.get("attention_bias") and config.get("attention_out_bias"):
        raise ValueError("attention_out_bias without attention_bias is not known here")
    return {"attention_bias": "all"} if config.get("attention_out_bias") else _qkv(config)


def _hunyuan_experts(config: Config) -> dict[str, Any]:
    chosen = config["moe_topk"]
    if not isinstance(chosen, int):
        raise ValueError("moe_topk that differs by layer is not known here")
    return {"qk_norm": True, "experts": local_experts({**config, "num_experts_per_tok": chosen}, shared=1)}


def _granite_shared(config: Config) -> dict[str, Any]:
    width = config.get("shared_intermediate_size") or None
    return {"experts": local_experts(config, shared=1 if width else 0, shared_intermediate=width)}


def _phi_experts(config: Config) -> dict[str, Any]:
    return {
        "norm_bias": True,
        "head_bias": bool(config.get("lm_head_bias")),
        "experts": local_experts(config),
    } | _only_sliding(config)


def _only_sliding(config: Config) -> dict[str, Any]:
    return {"sliding_window": config["sliding_window"]} if config.get("sliding_window") else {}


def _dots(config: Config) -> dict[str, Any]:
    return {"qk_norm": True, "experts": deepseek_experts(config)} | qwen_window(config)


RELATIVES: dict[str, Callable[[Config], DecoderShape]] = {
    "arcee": relative(lambda config: {"gated_mlp": False}),
    "cohere": relative(_cohere, tie_word_embeddings=True),
    "cohere2": relative(lambda config: {"layer_norms": 1} | _window(config), tie_word_embeddings=True),
    "dots1": relative(_dots),
    "ernie4_5": relative(_used, tie_word_embeddings=True, head_dim=128),
    "exaone4": relative(lambda config: {"qk_norm": True} | _window(config)),
    "flex_olmo": relative(lambda config: _normed_whole(config) | {"experts": local_experts(config)}),
    "glm": relative(_qkv, head_dim=128),
    "glm4": relative(lambda config: _qkv(config) | {"layer_norms": 4}, head_dim=128),
    "gpt_neox": relative(_neox),
    "granitemoe": relative(lambda config: {"experts": local_experts(config)}),
    "granitemoeshared": relative(_granite_shared),
    "helium": relative(),
    "hunyuan_v1_dense": relative(lambda config: {"qk_norm": True}),
    "hunyuan_v1_moe": relative(_hunyuan_experts),
    "ministral": relative(_only_sliding),
    "ministral3": relative(_only_sliding),
    "nemotron": relative(lambda config: {"gated_mlp": False, "norm_bias": True}),
    "olmo": relative(lambda config: {"norm_weights": False}),
    "olmo2": relative(_normed_whole),
    "olmo3": relative(lambda config: _normed_whole(config) | _window(config), sliding_window=4096),
    "olmoe": relative(lambda config: _normed_whole(config) | {"experts": local_experts(config)}),
    "phi": relative(_phi),
    "phimoe": relative(_phi_experts),
    "seed_oss": relative(_seed, head_dim=128),
    "smollm3": relative(qwen_window, tie_word_embeddings=True),
    "stablelm": relative(_stablelm),
    "starcoder2": relative(
        lambda config: (
            _used({"use_bias": True, **config}) | {"gated_mlp": False, "norm_bias": True} | _only_sliding(config)
        ),
        tie_word_embeddings=True,
    ),
}
