"""Readers of image towers: from the whole config of a model that sees to the shape of its encoder and projector."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from twinlens.errors import BadInput, nearest
from twinlens.spec.frozen import described
from twinlens.spec.model.layer import ImageTower, Projection
from twinlens.spec.model.shape import ResnetShape, VitShape

Config = Mapping[str, Any]


def tower_from_config(config: Config) -> ImageTower:
    """The image tower that a Hugging Face config describes (LLaVA, Gemma 3, Qwen2-VL, Qwen2.5-VL).

    Raises BadInput (TL202) for a model without one, of another type, or with a number missing or impossible.
    """
    kind, vision, text = config.get("model_type"), config.get("vision_config"), config.get("text_config")
    if kind not in _TOWERS or not isinstance(vision, Mapping):
        near = nearest(str(kind), _TOWERS)
        raise BadInput(f"no image tower of a model of type {kind!r} is known; {near}", code="TL202")
    width = (text if isinstance(text, Mapping) else config).get("hidden_size")
    with described(f"the vision_config of {kind}", "tower"):
        return _TOWERS[kind](config, vision, width)


def _encoder(vision: Config) -> dict[str, Any]:
    """Sizes that CLIP and SigLIP spell the same way."""
    return {
        "layers": vision["num_hidden_layers"], "hidden": vision["hidden_size"], "heads": vision["num_attention_heads"],
        "intermediate": vision["intermediate_size"], "patch_size": vision["patch_size"],
        "channels": vision.get("num_channels", 3), "image_size": vision["image_size"], "learned_positions": True,
    }  # fmt: skip


def _llava(config: Config, vision: Config, text: Any) -> ImageTower:
    """CLIP with a class token, which the projector leaves out, and two linear layers behind it."""
    bias, hidden = config.get("multimodal_projector_bias", True), vision["hidden_size"]
    steps = (Projection(inputs=hidden, outputs=text, bias=bias), Projection(inputs=text, outputs=text, bias=bias))
    return ImageTower(**_encoder(vision), class_token=True, outer_norms=2, projections=steps)


def _gemma3(config: Config, vision: Config, text: Any) -> ImageTower:
    """SigLIP without its head; squares of patches are averaged, normed and projected."""
    sizes = _encoder(vision)
    step = Projection(inputs=sizes["hidden"], outputs=text, bias=False)
    return ImageTower(**sizes, patch_bias=True, outer_norms=1, projections=(step,), projector_norm=sizes["hidden"])


def _qwen(vision: Config, hidden: int, out: Any) -> dict[str, Any]:
    merge = vision.get("spatial_merge_size", 2)
    wide = hidden * merge**2
    steps = (Projection(inputs=wide, outputs=wide), Projection(inputs=wide, outputs=out))
    return {
        "layers": vision["depth"], "hidden": hidden, "heads": vision["num_heads"], "patch_size": vision["patch_size"],
        "channels": vision.get("in_channels", 3), "frames": vision.get("temporal_patch_size", 2),
        "projections": steps,
    }  # fmt: skip


def _qwen2_vl(config: Config, vision: Config, text: Any) -> ImageTower:
    hidden = vision["embed_dim"]
    inner = int(hidden * vision.get("mlp_ratio", 4))
    return ImageTower(
        **_qwen(vision, hidden, vision["hidden_size"]), intermediate=inner, projector_norm=2 * hidden,
    )  # fmt: skip


def _qwen2_5_vl(config: Config, vision: Config, text: Any) -> ImageTower:
    hidden = vision["hidden_size"]
    return ImageTower(
        **_qwen(vision, hidden, vision["out_hidden_size"]), intermediate=vision["intermediate_size"],
        projector_norm=hidden, gated_mlp=True, norm_bias=False,
    )  # fmt: skip


_TOWERS: dict[str, Callable[[Config, Config, Any], ImageTower]] = {
    "llava": _llava,
    "gemma3": _gemma3,
    "qwen2_vl": _qwen2_vl,
    "qwen2_5_vl": _qwen2_5_vl,
}


# Readers of models of images.


def _labels(config: Config) -> int:
    """Hugging Face writes the class count as `id2label` or `num_labels`, and means 2 without either."""
    named = config.get("id2label")
    return len(named) if named else int(config.get("num_labels", 2))


def vit(config: Config) -> VitShape:
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


def resnet(config: Config) -> ResnetShape:
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


READERS: dict[str, Callable[[Config], VitShape | ResnetShape]] = {"vit": vit, "resnet": resnet}
