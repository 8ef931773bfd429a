"""Readers of hybrids: some layers attend, the others keep a state of fixed size."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from twinlens.spec.model.layer import Experts, Recurrent
from twinlens.spec.model.reader.dense import NORMED, attention, attention_bias, biases, full_layers, reader
from twinlens.spec.model.reader.experts import local_experts, qwen_experts
from twinlens.spec.model.shape import DecoderShape

Config = Mapping[str, Any]


def _qwen3_next(config: Config) -> dict[str, Any]:
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
    experts = qwen_experts(config) if config.get("num_experts") else None
    return {"output_gate": True, "experts": experts, "recurrent": mixer}


def _jamba(config: Config) -> dict[str, Any]:
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
    experts = local_experts(config, layers=routed) if config["num_experts"] > 1 and routed else None
    return {"experts": experts, "recurrent": mixer}


def _bamba(config: Config) -> dict[str, Any]:
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
    return {"recurrent": mixer}


_BLOCKS = {"M": "linear_attention", "E": "moe", "*": "full_attention", "-": "mlp",
           "mamba": "linear_attention", "attention": "full_attention"}  # fmt: skip


def _nemotron_h(config: Config) -> DecoderShape:
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


# The width of the MLP is unused where every layer has experts.
_QWEN3_NEXT = reader(attention_bias, NORMED, _qwen3_next, head_dim=256, intermediate_size=1)

READERS: dict[str, Callable[[Config], DecoderShape]] = {
    "bamba": reader(biases, _bamba),
    "jamba": reader(_jamba, max_position_embeddings=262_144),
    "nemotron_h": _nemotron_h,
    **dict.fromkeys(("qwen3_5_moe_text", "qwen3_5_text", "qwen3_next"), _QWEN3_NEXT),
}
