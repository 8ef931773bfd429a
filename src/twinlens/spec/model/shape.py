"""The shape of a model: the numbers that decide its parameters, FLOP and bytes, and nothing else."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, NonNegativeInt, model_validator

from twinlens.spec.frozen import Spec
from twinlens.spec.model.layer import Experts, GlobalAttention, LatentAttention, Layers, Recurrent, Width

__all__ = [
    "DecoderShape",
    "Experts",
    "GlobalAttention",
    "LatentAttention",
    "ModelShape",
    "Recurrent",
    "ResnetShape",
    "VisionShape",
    "VitShape",
]


class DecoderShape(Spec):
    """A decoder-only language model. `head_dim` is the query-key width of one head (MLA: nope + rope)."""

    family: Literal["decoder"] = "decoder"
    layers: Layers
    hidden: Width
    heads: Width
    kv_heads: Width
    head_dim: Width
    intermediate: Width
    vocab: Width
    tied_embeddings: bool
    max_context: Width
    attention_bias: Literal["none", "qkv", "all"] = "none"
    mlp_bias: bool = False
    gated_mlp: bool = True
    """Three matrices (gate, up, down) rather than two."""
    norm_bias: bool = False
    """LayerNorm with a bias rather than RMSNorm."""
    layer_norm: bool = False
    """LayerNorm, if without a bias (MPT): its mean is kept, and no copy in fp32."""
    norm_weights: bool = True
    """False: norms that scale nothing (OLMo)."""
    norm_in_fp32: bool = False
    """A norm multiplies by its weight in fp32, and narrows after that (Gemma)."""
    qk_norm: bool = False
    value_norm: bool = False
    """Values are normed, too, without a weight (Gemma 4)."""
    qk_norm_all_heads: bool = False
    """The norms of queries and keys have a weight for each head's own numbers (MiniMax-M2)."""
    learned_positions: bool = False
    sliding_window: Width | None = None
    """Tokens a windowed layer attends to, itself included; None when every layer sees all."""
    full_attention_layers: NonNegativeInt = 0
    """How many attention layers ignore `sliding_window`."""
    window_kind: Literal["sliding", "chunked"] = "sliding"
    """"chunked": a token sees its own chunk of `sliding_window` tokens up to itself (Llama 4)."""
    global_attention: GlobalAttention | None = None
    """Sizes of the full-attention layers where `head_dim` and `kv_heads` are those of the windowed ones."""
    shared_kv_full: NonNegativeInt = 0
    shared_kv_windowed: NonNegativeInt = 0
    """Layers of each kind that read the keys and values of an earlier one, and make none (Gemma 3n, Gemma 4)."""
    keys_are_values: bool = False
    """No projection of values: they are the keys before norm and rotation."""
    attending_layers: NonNegativeInt | None = None
    """Layers that attend, where a layer is one block alone: attention, a recurrence or an MLP (Nemotron-H)."""
    dense_mlp_layers: NonNegativeInt | None = None
    """Layers with a dense MLP where they are not just those without experts."""
    double_mlp_layers: NonNegativeInt = 0
    """Layers whose dense MLP is twice as wide (Gemma 4)."""
    per_layer_input: NonNegativeInt = 0
    """Width of an embedding of each token for each layer (Gemma 4); 0 without one."""
    per_layer_rows: NonNegativeInt = 0
    """Rows of the table of those embeddings."""
    experts: Experts | None = None
    mla: LatentAttention | None = None
    recurrent: Recurrent | None = None
    cross_attention_layers: NonNegativeInt = 0
    """Layers that attend to an image in place of the text (Llama 3.2 Vision); idle without an image."""
    layer_norms: Annotated[int, Field(gt=0, le=8)] = 2
    output_gate: bool = False
    """The query projection is twice as wide: half of it gates the output of attention (Qwen3-Next)."""
    head_bias: bool = False
    """The output projection has a bias (Phi-2)."""
    sinks: bool = False
    """One learned score per head that softmax can spend on nothing (GPT-OSS)."""
    table_rows: Width | None = None
    """Rows of the input table where they are more than `vocab`."""

    @model_validator(mode="after")
    def _heads_divide(self) -> Self:
        if self.heads % self.kv_heads:
            raise ValueError(f"{self.heads} heads cannot share {self.kv_heads} key-value heads evenly")
        special = (self.recurrent.layers if self.recurrent else 0) + self.cross_attention_layers
        if special > self.layers:
            raise ValueError(f"{special} recurrent and cross-attention layers in a model of {self.layers} layers")
        if self.global_attention and self.heads % self.global_attention.kv_heads:
            raise ValueError(f"{self.heads} heads cannot share {self.global_attention.kv_heads} key-value heads evenly")
        if self.shared_kv_full > self.full_layers or self.shared_kv_windowed > self.windowed_layers:
            raise ValueError("more layers share keys and values than attend")
        if max(self.attention_layers, self.dense_layers, self.double_mlp_layers) > self.layers:
            raise ValueError(f"more layers of one kind than the {self.layers} of the model")
        return self

    @property
    def attention_layers(self) -> int:
        """Layers that attend to the text, and so read keys and values of it."""
        if self.attending_layers is not None:
            return self.attending_layers
        return self.layers - self.cross_attention_layers - (self.recurrent.layers if self.recurrent else 0)

    @property
    def full_layers(self) -> int:
        """Attention layers that see every token."""
        every = self.attention_layers
        return every if self.sliding_window is None else min(self.full_attention_layers, every)

    @property
    def windowed_layers(self) -> int:
        """Attention layers that see no more than `sliding_window` tokens."""
        return self.attention_layers - self.full_layers

    @property
    def dense_layers(self) -> int:
        """Layers with a dense MLP."""
        return self.layers - self.expert_layers if self.dense_mlp_layers is None else self.dense_mlp_layers

    @property
    def full_view(self) -> DecoderShape:
        """The same model with the sizes of its full-attention layers in place of the windowed ones'."""
        if self.global_attention is None:
            return self
        return self.model_copy(update={**dict(self.global_attention), "global_attention": None})

    @property
    def fewest_kv_heads(self) -> int:
        """Key-value heads of the layers that have the fewest: what tensor parallelism can divide."""
        return min(self.kv_heads, self.full_view.kv_heads)

    @property
    def value_head_dim(self) -> int:
        """Width of one head's values."""
        return self.mla.v_head_dim if self.mla else self.head_dim

    @property
    def expert_layers(self) -> int:
        """Layers whose MLP is a mixture of experts."""
        if self.experts is None:
            return 0
        if self.experts.layers is not None:
            return min(self.experts.layers, self.layers)
        return max(0, self.layers - self.experts.dense_layers_first)


class VitShape(Spec):
    """A vision transformer with a class token and a linear classifier."""

    family: Literal["vit"] = "vit"
    layers: Layers
    hidden: Width
    heads: Width
    intermediate: Width
    image_size: Width
    patch_size: Width
    channels: Width
    labels: Width
    qkv_bias: bool = True


class ResnetShape(Spec):
    """A residual convolutional network, version 1.5 where `downsample_in_bottleneck` is false."""

    family: Literal["resnet"] = "resnet"
    layer_type: Literal["basic", "bottleneck"]
    embedding: Width
    hidden_sizes: tuple[Width, ...]
    depths: tuple[Layers, ...]
    channels: Width
    labels: Width
    image_size: Width
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
