"""Kinds of layers that a decoder may have beside plain attention and a dense MLP."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, NonNegativeInt, model_validator

from twinlens.spec.frozen import Spec

MOST_LAYERS = 10_000
Layers = Annotated[int, Field(gt=0, le=MOST_LAYERS)]
Width = Annotated[int, Field(gt=0, le=2**31)]
"""Above these limits a number is a mistake in the config, and not a model."""


class Experts(Spec):
    """Mixture of experts in place of the dense MLP, from layer `dense_layers_first` on."""

    count: Width
    per_token: Width
    intermediate: Width
    shared: NonNegativeInt = 0
    """Experts every token passes through; they form one MLP of width `shared * intermediate`."""
    dense_layers_first: NonNegativeInt = 0
    layers: Layers | None = None
    """Layers with experts where they are not all from `dense_layers_first` on."""
    shared_intermediate: Width | None = None
    """Width of the shared MLP where it is not `shared * intermediate`."""
    shared_gate: bool = False
    """One score per token scales the shared MLP (Qwen2-MoE)."""
    bias: bool = False
    """Router and experts have biases (GPT-OSS)."""
    latent: Width | None = None
    """Width that routed experts read and write, where tokens are projected to it and back (Nemotron 3)."""
    router_in_fp32: bool = False
    """The router reads a copy of its input in fp32 (DeepSeek, GLM, Nemotron 3)."""
    router_scales: bool = False
    """The router scales its input, and each expert its output, by learned weights (Gemma 4)."""

    @model_validator(mode="after")
    def _chosen_exist(self) -> Self:
        if self.per_token > self.count:
            raise ValueError(f"{self.per_token} experts per token out of {self.count}")
        return self

    @property
    def shared_width(self) -> int:
        """Inner width of the MLP that every token passes through; 0 without one."""
        return self.shared * self.intermediate if self.shared_intermediate is None else self.shared_intermediate


class GlobalAttention(Spec):
    """Sizes of the layers that see every token, where they differ from those with a window (Gemma 4)."""

    kv_heads: Width
    head_dim: Width
    keys_are_values: bool = False
    """One projection makes both; they are normed and rotated apart, so that the cache holds both."""


class LatentAttention(Spec):
    """Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434): keys and values share one latent."""

    kv_lora_rank: Width
    q_lora_rank: Width | None
    """None when the query projection has full rank."""
    qk_rope_head_dim: Width
    qk_nope_head_dim: Width
    v_head_dim: Width
    index_heads: NonNegativeInt = 0
    """Heads of the indexer that chooses which tokens are attended to (DeepSeek-V3.2, GLM-5); 0 without one."""
    index_dim: NonNegativeInt = 0


class Recurrent(Spec):
    """Layers that keep a state of fixed size in place of keys and values.

    "gated-delta": Qwen3-Next (arXiv 2412.06464); "mamba": Jamba (2312.00752); "mamba2": Bamba (2405.21060).
    The state of a layer has `value_heads * value_dim * key_dim` elements per sequence.
    """

    kind: Literal["gated-delta", "mamba", "mamba2"]
    layers: Layers
    value_heads: Width
    """Heads of the state; for "mamba" its channels, each `value_dim` = 1 wide."""
    value_dim: Width
    key_heads: NonNegativeInt
    """Heads (or groups) that keys and queries are projected to; 0 for "mamba", which projects them from channels."""
    key_dim: Width
    """Width of a key: the size of the state space."""
    convolution: Width
    """Tokens that the causal convolution spans."""
    rank: NonNegativeInt = 0
    """Rank of the time-step projection of "mamba"."""
    convolution_bias: bool = False
    bias: bool = False

    @property
    def convolved(self) -> int:
        """Channels of the convolution."""
        return self.value_heads * self.value_dim + 2 * self.key_heads * self.key_dim

    @property
    def state_elements(self) -> int:
        """Elements of the recurrent state of one layer and sequence, the convolution's window aside."""
        return self.value_heads * self.value_dim * self.key_dim


# The shape of an image tower: the encoder in front of a language model that sees, and the projector between them.


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
    norm_bias: bool = True
    """LayerNorm with a bias rather than RMSNorm."""
    outer_norms: NonNegativeInt = 0
    """Norms before and after the layers, the projector's aside."""
    projections: tuple[Projection, ...] = ()
    projector_norm: NonNegativeInt = 0
    """Elements of the projector's norm, its bias included."""
