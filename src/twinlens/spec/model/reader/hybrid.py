"""Readers of hybrids: some layers attend, the others keep a state of fixed size."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from twinlens.spec.model.layer import Experts, Recurrent
from twinlens.spec.model.reader.dense import attention, bias, full_layers, qwen_window
from twinlens.spec.model.reader.experts import deepseek_experts, qwen_experts
from twinlens.spec.model.shape import DecoderShape

Config = Mapping[str, Any]


def qwen3_next(config: Config) -> DecoderShape:
    """Three gated delta nets to one gated attention."""
    full = full_layers(config, config.get("full_attention_interval") or 4)
    mixer = Recurrent(
        kind="gated-delta",
        layers=config["num_hidden_layers"] - full,
        value_heads=config["linear_num_value_heads"],
        value_dim=config["linear_value_head_dim"],
        key_heads=config["linear_num_key_heads"],
        key_dim=config["linear_key_head_dim"],
        convolution=config["linear_conv_kernel_dim"],
    )
    known = {"head_dim": 256, "intermediate_size": 1, **config}  # unused where every layer has experts
    return DecoderShape(
        **attention(known),
        attention_bias=bias(config),
        qk_norm=True,
        output_gate=True,
        experts=qwen_experts(config) if config.get("num_experts") else None,
        recurrent=mixer,
    )


def jamba(config: Config) -> DecoderShape:
    layers, hidden = config["num_hidden_layers"], config["hidden_size"]
    rank = config.get("mamba_dt_rank", "auto")
    mixer = Recurrent(
        kind="mamba",
        layers=layers - _every(layers, config["attn_layer_period"], config["attn_layer_offset"]),
        value_heads=config["mamba_expand"] * hidden,
        value_dim=1,
        key_heads=0,
        key_dim=config["mamba_d_state"],
        convolution=config["mamba_d_conv"],
        rank=-(-hidden // 16) if rank == "auto" else rank,
        convolution_bias=config.get("mamba_conv_bias", True),
        bias=config.get("mamba_proj_bias", False),
    )
    routed = _every(layers, config["expert_layer_period"], config["expert_layer_offset"])
    experts = Experts(
        count=config["num_experts"],
        per_token=config["num_experts_per_tok"],
        intermediate=config["intermediate_size"],
        layers=routed,
    )
    return DecoderShape(
        **attention({"max_position_embeddings": 262_144, **config}),
        experts=experts if config["num_experts"] > 1 and routed else None,
        recurrent=mixer,
    )


def bamba(config: Config) -> DecoderShape:
    wide, heads = config["mamba_expand"] * config["hidden_size"], config["mamba_n_heads"]
    attending = config.get("attn_layer_indices") or ()
    mixer = Recurrent(
        kind="mamba2",
        layers=config["num_hidden_layers"] - len(attending),
        value_heads=heads,
        value_dim=wide // heads,
        key_heads=config["mamba_n_groups"],
        key_dim=config["mamba_d_state"],
        convolution=config["mamba_d_conv"],
        convolution_bias=config.get("mamba_conv_bias", True),
        bias=config.get("mamba_proj_bias", False),
    )
    return DecoderShape(
        **attention(config), attention_bias=bias(config), mlp_bias=config.get("mlp_bias", False), recurrent=mixer
    )


_BLOCKS = {"M": "linear_attention", "E": "moe", "*": "full_attention", "-": "mlp",
           "mamba": "linear_attention", "attention": "full_attention"}  # fmt: skip


def nemotron_h(config: Config) -> DecoderShape:
    """Layers of one block each: Mamba-2, attention, an MLP or experts, none of them gated."""
    listed = config.get("layers_block_type") or config.get("layer_types") or config["hybrid_override_pattern"]
    blocks = [_BLOCKS.get(block, block) for block in listed]
    if unknown := set(blocks) - set(_BLOCKS.values()):
        raise ValueError(f"layers of kind {', '.join(sorted(unknown))} are unknown here")
    recurrent, routed = blocks.count("linear_attention"), blocks.count("moe")
    if routed and config.get("mlp_bias"):
        raise ValueError("biases of experts are not counted here")
    mixer = Recurrent(
        kind="mamba2",
        layers=recurrent,
        value_heads=config["mamba_num_heads"],
        value_dim=config["mamba_head_dim"],
        key_heads=config["n_groups"],
        key_dim=config["ssm_state_size"],
        convolution=config["conv_kernel"],
        convolution_bias=config.get("use_conv_bias", True),
        bias=config.get("use_bias", False),
    ) if recurrent else None  # fmt: skip
    return DecoderShape(
        **attention({**config, "num_hidden_layers": len(blocks)}),
        gated_mlp=False,
        mlp_bias=config.get("mlp_bias", False),
        layer_norms=1,
        norm_in_fp32=True,
        attending_layers=blocks.count("full_attention"),
        dense_mlp_layers=blocks.count("mlp"),
        experts=_nemotron_experts(config, routed) if routed else None,
        recurrent=mixer,
    )


def _nemotron_experts(config: Config, layers: int) -> Experts:
    return Experts(
        count=config["n_routed_experts"],
        per_token=config["num_experts_per_tok"],
        intermediate=config["moe_intermediate_size"],
        layers=layers,
        shared=1,
        shared_intermediate=config["moe_shared_expert_intermediate_size"],
        latent=config.get("moe_latent_size"),
        router_in_fp32=True,
    )


def _every(layers: int, period: int, offset: int) -> int:
    """Layers of which the index leaves `offset` when divided by `period`."""
    return sum(1 for index in range(layers) if index % period == offset)


# Readers of Llama's relatives: the same sizes under the same names, and what each does otherwise.


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
