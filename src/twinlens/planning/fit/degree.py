"""Parallel degrees that are legal: heads, key-value heads, layers and experts must divide."""

from __future__ import annotations

from twinlens.spec.device import Device
from twinlens.spec.model.shape import DecoderShape

MOST_DEVICES = 1024
_NODE = 8
COUNTS = (1, 2, 4, *range(_NODE, MOST_DEVICES + 1, _NODE))
"""Devices that are tried: up to a node of 8, then whole nodes."""


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


def may_group(device: Device) -> bool:
    """Whether groups that share experts are proposed on a device: where a fast link joins the devices of a machine.

    They send every token to other devices in every layer, and no measurement holds that over a bus.
    """
    return device.domain >= _NODE


def group_degrees(shape: DecoderShape, tensor: int = 1, most: int = MOST_DEVICES) -> tuple[int, ...]:
    """Groups of attention, each on `tensor` devices, that share the experts; 1 alone without any.

    Together they have as many devices as are tried, and at most as many as there are experts.
    """
    devices = min(most, shape.experts.count) if shape.experts else 1
    shared = (count // tensor for count in COUNTS if tensor < count <= devices and count % tensor == 0)
    return (1, *shared)


def copy_layouts(shape: DecoderShape, most: int, most_tensor: int = 8) -> tuple[tuple[int, int], ...]:
    """Tensor degree and groups of copies that share experts, the fewest devices first."""
    found = [(tensor, groups) for tensor in tensor_degrees(shape, most_tensor)
             for groups in group_degrees(shape, tensor, most)[1:]]  # fmt: skip
    return tuple(sorted(found, key=lambda each: (each[0] * each[1], each[0])))
