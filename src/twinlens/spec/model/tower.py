"""The shape of an image tower: the encoder in front of a language model that sees, and the projector between them."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, NonNegativeInt

from twinlens.spec.frozen import Spec
from twinlens.spec.model.layer import Layers, Width


class Projection(Spec):
    """One linear layer of the projector."""

    inputs: Width
    outputs: Width
    bias: bool = True


class ImageTower(Spec):
    """A vision transformer over patches, and the projector that makes tokens of the language model of them."""

    layers: Layers
    hidden: Width
    heads: Width
    intermediate: Width
    patch_size: Width
    channels: Width = 3
    frames: Width = 1
    """Frames that one patch spans; an image is repeated to fill them (Qwen2-VL)."""
    image_size: Width | None = None
    """The only side in pixels that it takes; None where it takes any."""
    class_token: bool = False
    learned_positions: bool = False
    patch_bias: bool = False
    gated_mlp: bool = False
    quick_gelu: bool = False
    """x·sigmoid(1.702·x), whose sigmoid is kept for the backward pass, too (CLIP)."""
    norm_bias: bool = True
    """LayerNorm with a bias rather than RMSNorm."""
    outer_norms: NonNegativeInt = 0
    """Norms before and after the layers, the projector's aside."""
    window_patches: Width | None = None
    """Patches in the square that a windowed layer attends to (Qwen2.5-VL); None where every layer sees all."""
    full_attention_layers: NonNegativeInt = 0
    merge: Annotated[int, Field(gt=0, le=64)] = 1
    """Side of the square of patches that becomes one token."""
    projections: tuple[Projection, ...] = ()
    projector_norm: NonNegativeInt = 0
    """Elements of the projector's norm, its bias included."""
