"""Parallel degrees that are legal: heads, key-value heads, layers and experts must divide."""

from __future__ import annotations

from twinlens.spec.model.shape import DecoderShape

MOST_DEVICES = 1024


def tensor_degrees(shape: DecoderShape, most: int = MOST_DEVICES) -> tuple[int, ...]:
    """Degrees that divide the heads and the inner width, and that the KV heads divide or that divide them.

    With more devices than KV heads each of those is copied, which needs a whole number of copies.
    """
    heads = shape.fewest_kv_heads
    inner = shape.experts.intermediate if shape.experts else shape.intermediate
    return tuple(
        degree
        for degree in range(1, min(most, shape.heads) + 1)
        if shape.heads % degree == 0
        and inner % degree == 0
        and (shape.mla is not None or heads % degree == 0 or degree % heads == 0)
    )


def pipeline_degrees(shape: DecoderShape, most: int = MOST_DEVICES) -> tuple[int, ...]:
    """Degrees that divide the layers."""
    return tuple(degree for degree in range(1, min(most, shape.layers) + 1) if shape.layers % degree == 0)


def expert_degrees(shape: DecoderShape, most: int = MOST_DEVICES) -> tuple[int, ...]:
    """Degrees that divide the routed experts; 1 alone without any."""
    experts = shape.experts.count if shape.experts else 1
    return tuple(degree for degree in range(1, min(most, experts) + 1) if experts % degree == 0)
