"""The shape of a model: the numbers that decide its parameters, FLOP and bytes, and nothing else."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, NonNegativeInt, PositiveInt, model_validator

from twinlens.spec.frozen import Spec


class Experts(Spec):
    """Mixture of experts in place of the dense MLP, from layer `dense_layers_first` on."""

    count: PositiveInt
    per_token: PositiveInt
    intermediate: PositiveInt
    shared: NonNegativeInt = 0
    """Experts every token passes through; they form one MLP of width `shared * intermediate`."""
    dense_layers_first: NonNegativeInt = 0


class LatentAttention(Spec):
    """Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434): keys and values share one latent."""

    kv_lora_rank: PositiveInt
    q_lora_rank: PositiveInt | None
    """None when the query projection has full rank."""
    qk_rope_head_dim: PositiveInt
    qk_nope_head_dim: PositiveInt
    v_head_dim: PositiveInt


class DecoderShape(Spec):
    """A decoder-only language model. `head_dim` is the query-key width of one head (MLA: nope + rope)."""

    family: Literal["decoder"] = "decoder"
    layers: PositiveInt
    hidden: PositiveInt
    heads: PositiveInt
    kv_heads: PositiveInt
    head_dim: PositiveInt
    intermediate: PositiveInt
    vocab: PositiveInt
    tied_embeddings: bool
    max_context: PositiveInt
    attention_bias: Literal["none", "qkv", "all"] = "none"
    mlp_bias: bool = False
    gated_mlp: bool = True
    """Three matrices (gate, up, down) rather than two."""
    norm_bias: bool = False
    """LayerNorm with a bias rather than RMSNorm."""
    qk_norm: bool = False
    learned_positions: bool = False
    sliding_window: PositiveInt | None = None
    """Tokens a windowed layer attends to, itself included; None when every layer sees all."""
    full_attention_layers: NonNegativeInt = 0
    """How many layers ignore `sliding_window`."""
    experts: Experts | None = None
    mla: LatentAttention | None = None

    @model_validator(mode="after")
    def _heads_divide(self) -> Self:
        if self.heads % self.kv_heads:
            raise ValueError(f"{self.heads} heads cannot share {self.kv_heads} key-value heads evenly")
        return self

    @property
    def value_head_dim(self) -> int:
        """Width of one head's values."""
        return self.mla.v_head_dim if self.mla else self.head_dim

    @property
    def expert_layers(self) -> int:
        """Layers whose MLP is a mixture of experts."""
        return max(0, self.layers - self.experts.dense_layers_first) if self.experts else 0


class VitShape(Spec):
    """A vision transformer with a class token and a linear classifier."""

    family: Literal["vit"] = "vit"
    layers: PositiveInt
    hidden: PositiveInt
    heads: PositiveInt
    intermediate: PositiveInt
    image_size: PositiveInt
    patch_size: PositiveInt
    channels: PositiveInt
    labels: PositiveInt
    qkv_bias: bool = True


class ResnetShape(Spec):
    """A residual convolutional network, version 1.5 where `downsample_in_bottleneck` is false."""

    family: Literal["resnet"] = "resnet"
    layer_type: Literal["basic", "bottleneck"]
    embedding: PositiveInt
    hidden_sizes: tuple[PositiveInt, ...]
    depths: tuple[PositiveInt, ...]
    channels: PositiveInt
    labels: PositiveInt
    image_size: PositiveInt
    """A usual side in pixels; a convolution takes any."""
    downsample_in_first_stage: bool = False
    downsample_in_bottleneck: bool = False

    @model_validator(mode="after")
    def _stages_match(self) -> Self:
        if len(self.depths) != len(self.hidden_sizes):
            raise ValueError(f"{len(self.depths)} depths for {len(self.hidden_sizes)} hidden sizes")
        return self


ModelShape = Annotated[DecoderShape | VitShape | ResnetShape, Field(discriminator="family")]
VisionShape = VitShape | ResnetShape
