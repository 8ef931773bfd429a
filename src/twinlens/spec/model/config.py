"""Read a Hugging Face config into a shape. Data only: no code from a model folder is ever run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

from pydantic import ValidationError

from twinlens.errors import BadInput, nearest
from twinlens.spec.model.shape import DecoderShape, Experts, LatentAttention, ModelShape, ResnetShape, VitShape

Config = Mapping[str, Any]


def shape_from_config(config: Config) -> ModelShape:
    """The shape that a Hugging Face config describes. `auto_map` is ignored: known types need no code.

    Raises BadInput (TL202) when the model type is unknown or a number it needs is missing or impossible.
    """
    kind = config.get("model_type")
    if not isinstance(kind, str) or kind not in READERS:
        remote = "; it asks for its own code, which is never run" if "auto_map" in config else ""
        raise BadInput(
            f"unknown model_type {kind!r}{remote}; {nearest(str(kind), READERS)}; the embedded engine and theory read "
            f'{", ".join(sorted(READERS))}; a launched server (executor.kind = "vllm") takes any folder with weights',
            code="TL202",
        )
    try:
        return READERS[kind](config)
    except KeyError as missing:
        raise BadInput(f"the {kind} config has no {missing}; add it", code="TL202") from None
    except ValidationError as wrong:
        first = wrong.errors()[0]
        where = ".".join(map(str, first["loc"])) or "its sizes"
        raise BadInput(f"the {kind} config describes no model: {where}: {first['msg']}", code="TL202") from None
    except (ValueError, TypeError, ZeroDivisionError) as wrong:
        raise BadInput(f"the {kind} config describes no model: {wrong}", code="TL202") from None


def _attention(config: Config) -> dict[str, Any]:
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


def _bias(config: Config) -> Literal["none", "all"]:
    return "all" if config.get("attention_bias") else "none"


def _llama(config: Config) -> DecoderShape:
    return DecoderShape(
        **_attention(config),
        attention_bias=_bias(config),
        mlp_bias=config.get("mlp_bias", False),
    )


def _mistral(config: Config) -> DecoderShape:
    return DecoderShape(**_attention(config), sliding_window=config.get("sliding_window"))


def _mixtral(config: Config) -> DecoderShape:
    experts = Experts(
        count=config["num_local_experts"],
        per_token=config["num_experts_per_tok"],
        intermediate=config["intermediate_size"],
    )
    return DecoderShape(**_attention(config), sliding_window=config.get("sliding_window"), experts=experts)


def _qwen_window(config: Config) -> dict[str, Any]:
    """Qwen keeps `sliding_window` in the config even where it is switched off."""
    if not config.get("use_sliding_window") or not config.get("sliding_window"):
        return {}
    return {
        "sliding_window": config["sliding_window"],
        "full_attention_layers": min(config.get("max_window_layers", 28), config["num_hidden_layers"]),
    }


def _qwen2(config: Config) -> DecoderShape:
    return DecoderShape(**_attention(config), **_qwen_window(config), attention_bias="qkv")


def _qwen3(config: Config) -> DecoderShape:
    sizes = _attention({"head_dim": 128, **config})
    return DecoderShape(**sizes, **_qwen_window(config), attention_bias=_bias(config), qk_norm=True)


def _deepseek(config: Config) -> DecoderShape:
    """Latent attention and experts. V2 and V3 differ in how they route, not in any size; the Lite one has no
    `q_lora_rank`."""
    if config.get("moe_layer_freq", 1) != 1:
        raise ValueError("experts in every layer of the mixture (moe_layer_freq 1) are all that is known here")
    latent = LatentAttention(
        kv_lora_rank=config["kv_lora_rank"],
        q_lora_rank=config.get("q_lora_rank"),
        qk_rope_head_dim=config["qk_rope_head_dim"],
        qk_nope_head_dim=config["qk_nope_head_dim"],
        v_head_dim=config["v_head_dim"],
    )
    experts = Experts(
        count=config["n_routed_experts"],
        per_token=config["num_experts_per_tok"],
        intermediate=config["moe_intermediate_size"],
        shared=config.get("n_shared_experts") or 0,
        dense_layers_first=config.get("first_k_dense_replace", 0),
    )
    head_dim = latent.qk_nope_head_dim + latent.qk_rope_head_dim
    sizes = _attention(config) | {"head_dim": head_dim}
    return DecoderShape(**sizes, attention_bias=_bias(config), experts=experts, mla=latent)


def _gpt2(config: Config) -> DecoderShape:
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


def _labels(config: Config) -> int:
    """Hugging Face writes the class count as `id2label` or `num_labels`, and means 2 without either."""
    named = config.get("id2label")
    return len(named) if named else int(config.get("num_labels", 2))


def _vit(config: Config) -> VitShape:
    return VitShape(
        layers=config["num_hidden_layers"],
        hidden=config["hidden_size"],
        heads=config["num_attention_heads"],
        intermediate=config["intermediate_size"],
        image_size=config.get("image_size", 224),
        patch_size=config.get("patch_size", 16),
        channels=config.get("num_channels", 3),
        labels=_labels(config),
        qkv_bias=config.get("qkv_bias", True),
    )


def _resnet(config: Config) -> ResnetShape:
    if not config["depths"] or len(config["depths"]) != len(config["hidden_sizes"]):
        raise ValueError("depths and hidden_sizes have an entry for each stage")
    return ResnetShape(
        layer_type=config.get("layer_type", "bottleneck"),
        embedding=config["embedding_size"],
        hidden_sizes=tuple(config["hidden_sizes"]),
        depths=tuple(config["depths"]),
        channels=config.get("num_channels", 3),
        labels=_labels(config),
        # Not a Hugging Face field: a convolution takes any size. Ours where present, ImageNet's otherwise.
        image_size=config.get("image_size", 224),
        downsample_in_first_stage=config.get("downsample_in_first_stage", False),
        downsample_in_bottleneck=config.get("downsample_in_bottleneck", False),
    )


READERS: dict[str, Callable[[Config], ModelShape]] = {
    "llama": _llama,
    "mistral": _mistral,
    "mixtral": _mixtral,
    "qwen2": _qwen2,
    "qwen3": _qwen3,
    "deepseek_v2": _deepseek,
    "deepseek_v3": _deepseek,
    "gpt2": _gpt2,
    "vit": _vit,
    "resnet": _resnet,
}
