"""Readers of models of images."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from twinlens.spec.model.shape import ResnetShape, VitShape

Config = Mapping[str, Any]


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
