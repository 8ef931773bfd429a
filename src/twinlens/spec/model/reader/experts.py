"""Readers of mixtures of experts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from twinlens.spec.model.layer import Experts, LatentAttention
from twinlens.spec.model.reader.dense import attention, bias, full_layers, qwen_window
from twinlens.spec.model.shape import DecoderShape

Config = Mapping[str, Any]


def mixtral(config: Config) -> DecoderShape:
    experts = Experts(
        count=config["num_local_experts"],
        per_token=config["num_experts_per_tok"],
        intermediate=config["intermediate_size"],
    )
    return DecoderShape(**attention(config), sliding_window=config.get("sliding_window"), experts=experts)


def minimax_m2(config: Config) -> DecoderShape:
    """Experts in every layer, without a shared one; norms span all heads of queries and of keys."""
    experts = Experts(
        count=config["num_local_experts"],
        per_token=config["num_experts_per_tok"],
        intermediate=config["intermediate_size"],
    )
    normed = config.get("use_qk_norm", True)
    return DecoderShape(**attention(config), qk_norm=normed, qk_norm_all_heads=normed, experts=experts)


def gpt_oss(config: Config) -> DecoderShape:
    experts = Experts(
        count=config["num_local_experts"],
        per_token=config["num_experts_per_tok"],
        intermediate=config["intermediate_size"],
        bias=True,
    )
    return DecoderShape(
        **attention(config),
        attention_bias=bias({"attention_bias": True, **config}),
        sliding_window=config.get("sliding_window", 128),
        full_attention_layers=full_layers(config, 2),
        experts=experts,
        sinks=True,
    )


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


def qwen2_moe(config: Config) -> DecoderShape:
    qkv = config.get("qkv_bias", True)
    return DecoderShape(
        **attention(config),
        **qwen_window(config),
        attention_bias="qkv" if qkv else "none",
        experts=qwen_experts(config),
    )


def qwen3_moe(config: Config) -> DecoderShape:
    alone = {name: value for name, value in config.items() if name != "shared_expert_intermediate_size"}
    return DecoderShape(
        **attention(config),
        **qwen_window(config),
        attention_bias=bias(config),
        qk_norm=True,
        experts=qwen_experts(alone),
    )


def deepseek_experts(config: Config) -> Experts:
    """Experts but in the first layers, which `mlp_layer_types` lists from transformers 5.23 on."""
    listed = config.get("mlp_layer_types")
    return Experts(
        count=config["n_routed_experts"],
        per_token=config["num_experts_per_tok"],
        intermediate=config["moe_intermediate_size"],
        shared=config.get("n_shared_experts") or 0,
        router_in_fp32=True,
        dense_layers_first=listed.count("dense") if listed else config.get("first_k_dense_replace", 0),
    )


def deepseek(config: Config) -> DecoderShape:
    """DeepSeek-V2 and -V3, and Kimi K2: latent attention, and experts after the first dense layers."""
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
    sizes = attention(config) | {"head_dim": latent.qk_nope_head_dim + latent.qk_rope_head_dim}
    return DecoderShape(**sizes, attention_bias=bias(config), experts=deepseek_experts(config), mla=latent)


def glm4_moe(config: Config) -> DecoderShape:
    return DecoderShape(
        **attention(config),
        attention_bias="qkv" if config.get("attention_bias") else "none",
        qk_norm=config.get("use_qk_norm", False),
        experts=deepseek_experts(config),
    )


def llama4(config: Config) -> DecoderShape:
    """Chunked attention but in every fourth layer; experts in every `interleave_moe_layer_step`-th."""
    layers, step = config["num_hidden_layers"], config.get("interleave_moe_layer_step", 1)
    listed, positions = config.get("moe_layers"), config.get("no_rope_layers")
    routed = len(listed) if listed else layers // step
    full = layers // config.get("no_rope_layer_interval", 4)
    if config.get("layer_types") or positions:
        full = full_layers(config, 4) if config.get("layer_types") else sum(1 for rope in positions or () if not rope)
    # "intermediate_size" is that of experts here, and each layer with experts has one shared expert of the same width.
    sizes = attention({**config, "intermediate_size": config["intermediate_size_mlp"]})
    return DecoderShape(
        **sizes,
        attention_bias=bias(config),
        sliding_window=config.get("attention_chunk_size"),
        window_kind="chunked",
        full_attention_layers=full,
        experts=Experts(
            count=config["num_local_experts"],
            per_token=config["num_experts_per_tok"],
            intermediate=config["intermediate_size"],
            shared=1,
            layers=routed,
        ),
    )
