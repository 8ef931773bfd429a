"""Image towers of models that see: parameters, FLOP, tokens and activations of an image, beside those of the text part.

Encoders as in Dosovitskiy et al. (arXiv 2010.11929) and Qwen2.5-VL (arXiv 2502.13923); one multiply-accumulate is two
FLOP, and norms, activations and positions do not count.
"""

from __future__ import annotations

from twinlens.errors import BadInput
from twinlens.spec.model.tower import ImageTower
from twinlens.theory.number import Number, count, rate, smaller

_FP32 = 4.0


def tower_parameters(tower: ImageTower) -> int:
    """Parameters of the encoder and its projector, exactly; a head that scores classes is no part of either."""
    hidden, norm = tower.hidden, tower.hidden * (2 if tower.norm_bias else 1)
    layer = _layer_weights(tower) + 2 * norm + 4 * hidden + (2 if tower.gated_mlp else 1) * tower.intermediate + hidden
    patch = _patch_weights(tower) + (hidden if tower.patch_bias else 0)
    positions = 0
    if tower.learned_positions and tower.image_size is not None:
        positions = (side_patches(tower, tower.image_size) ** 2 + tower.class_token) * hidden
    projector = sum(step.inputs * step.outputs + step.bias * step.outputs for step in tower.projections)
    outer = tower.outer_norms * norm + tower.projector_norm + tower.class_token * hidden
    return tower.layers * layer + patch + positions + outer + projector


def side_patches(tower: ImageTower, image_size: int) -> int:
    """Patches along one side of a square image. Raises BadInput for a size that it does not take."""
    count("image_size", image_size)
    if tower.image_size is not None and image_size != tower.image_size:
        raise BadInput(f"this tower takes images of {tower.image_size} pixels a side, not {image_size}")
    square = tower.patch_size * (tower.merge if tower.image_size is None else 1)
    if image_size < square or (tower.image_size is None and image_size % square):
        raise BadInput(f"an image of {image_size} pixels does not divide into squares of {square}")
    return image_size // tower.patch_size


def image_tokens(tower: ImageTower, image_size: int) -> int:
    """Tokens of the language model that one square image takes."""
    return (side_patches(tower, image_size) // tower.merge) ** 2


def tower_flop(tower: ImageTower, image_size: int) -> float:
    """FLOP of one square image through encoder and projector, forward; training is three times that."""
    patches = side_patches(tower, image_size) ** 2
    rows = patches + tower.class_token
    linear = patches * _patch_weights(tower) + rows * tower.layers * _layer_weights(tower)
    projected = image_tokens(tower, image_size) * sum(step.inputs * step.outputs for step in tower.projections)
    return 2.0 * (linear + projected) + 4.0 * tower.hidden * rows * _seen(tower, rows)


def tower_activation_bytes(
    tower: ImageTower, images: Number, image_size: int, bytes_per_element: Number = 2.0
) -> Number:
    """Bytes that autograd keeps for the layers of a trained encoder with fused attention; a frozen one keeps none.

    A LayerNorm keeps its input and what it feeds, an RMSNorm its input in fp32 and two copies; attention its
    queries, keys, values and output; an MLP two of its inner width, three with quick GELU, a gated one
    four. Embedding and projector are small beside them and left out.
    """
    e = rate("bytes_per_element", bytes_per_element)
    rows = side_patches(tower, image_size) ** 2 + tower.class_token
    norm = tower.hidden * (2 * e if tower.norm_bias else _FP32 + 2 * e)
    mlp = (4 if tower.gated_mlp else 3 if tower.quick_gelu else 2) * tower.intermediate * e
    return count("images", images) * rows * tower.layers * (2 * norm + 4 * tower.hidden * e + mlp)


def _seen(tower: ImageTower, rows: int) -> float:
    """Rows that one row attends to, summed over layers; an encoder looks both ways."""
    if tower.window_patches is None:
        return float(tower.layers * rows)
    full = min(tower.full_attention_layers, tower.layers)
    return float(full * rows + (tower.layers - full) * smaller(tower.window_patches, rows))


def _layer_weights(tower: ImageTower) -> int:
    """Weights of one layer that a row is multiplied with."""
    return 4 * tower.hidden**2 + (3 if tower.gated_mlp else 2) * tower.hidden * tower.intermediate


def _patch_weights(tower: ImageTower) -> int:
    return tower.channels * tower.frames * tower.patch_size**2 * tower.hidden
