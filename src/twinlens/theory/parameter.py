"""Parameters of a shape, exactly: what Hugging Face's own modules come to (buffers are not parameters)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from twinlens.spec.model.layer import ImageTower
from twinlens.spec.model.shape import DecoderShape, ModelShape, Recurrent, ResnetShape, VitShape


@dataclass(frozen=True, slots=True)
class ParameterCount:
    """Counts of parameters.

    `total`: all, tied weights once. `active`: those that work on one token (all but the experts not chosen).
    `embedding`: looked up, not multiplied (token table, learned positions, class token).
    `head`: the output projection, also where it is tied to the table. `matmul`: weights that one token (or
    image) is multiplied with, head included, biases and norms not: the N of the FLOP conventions.
    """

    total: int
    active: int
    embedding: int
    head: int
    matmul: int


@lru_cache(maxsize=256)
def parameters(shape: ModelShape) -> ParameterCount:
    """The parameters of any shape; of a model with images and text, those of its text part."""
    if isinstance(shape, DecoderShape):
        return _decoder(shape)
    if isinstance(shape, VitShape):
        return _vit(shape)
    layers = convolutions(shape, shape.image_size)
    head = shape.hidden_sizes[-1] * shape.labels
    matmul = sum(layer.weights for layer in layers) + head
    total = matmul + sum(2 * layer.outputs for layer in layers) + shape.labels
    return ParameterCount(total, total, 0, head, matmul)


def expert_weights(shape: DecoderShape) -> int:
    """Weights of one routed expert."""
    if shape.experts is None:
        return 0
    return _mlp_matrices(shape) * (shape.experts.latent or shape.hidden) * shape.experts.intermediate


def cross_attention_weights(shape: DecoderShape) -> int:
    """Weights of the layers that stand idle while no image is there, their MLP included."""
    mlp = _mlp_matrices(shape) * shape.hidden * shape.intermediate
    return shape.cross_attention_layers * (attention_weights(shape) + mlp)


def _mlp_matrices(shape: DecoderShape) -> int:
    return 3 if shape.gated_mlp else 2


def attention_weights(shape: DecoderShape) -> int:
    """Weights of one layer's projections, biases excluded; of a layer that makes its own keys and values."""
    hidden, heads = shape.hidden, shape.heads
    out = heads * shape.value_head_dim * hidden
    if shape.mla is None:
        queries = heads * (2 if shape.output_gate else 1)
        return hidden * shape.head_dim * queries + hidden * _kv_width(shape) + out
    mla = shape.mla
    query = heads * shape.head_dim * (mla.q_lora_rank or hidden) + hidden * (mla.q_lora_rank or 0)
    down = hidden * (mla.kv_lora_rank + mla.qk_rope_head_dim)
    up = mla.kv_lora_rank * heads * (mla.qk_nope_head_dim + mla.v_head_dim)
    index = (mla.q_lora_rank or hidden) * mla.index_heads * mla.index_dim + hidden * (mla.index_heads + mla.index_dim)
    return query + down + up + out + (index if mla.index_heads else 0)


def _kv_width(shape: DecoderShape) -> int:
    """Outputs of one layer's projections of keys and values."""
    return shape.kv_heads * shape.head_dim * (1 if shape.keys_are_values else 2)


def _attention(shape: DecoderShape) -> tuple[int, int]:
    """Weights of all layers' attention to the text, and their biases and norms."""
    weights = other = 0
    full, windowed = shape.full_layers, shape.windowed_layers
    for view, layers, shared in ((shape.full_view, full, shape.shared_kv_full),
                                 (shape, windowed, shape.shared_kv_windowed)):  # fmt: skip
        weights += layers * attention_weights(view) - shared * shape.hidden * _kv_width(view)
        spared = (view.head_dim if shape.qk_norm else 0) + (_kv_width(view) if shape.attention_bias != "none" else 0)
        other += layers * _attention_other(view) - shared * spared
    return weights, other


def _attention_other(shape: DecoderShape) -> int:
    """Biases and norms inside one layer's attention."""
    if shape.mla is not None:
        mla = shape.mla
        norms = mla.kv_lora_rank + (mla.q_lora_rank or 0) + 2 * mla.index_dim
        low_rank = (mla.q_lora_rank or 0) + mla.kv_lora_rank + mla.qk_rope_head_dim + shape.hidden
        return norms + (low_rank if shape.attention_bias != "none" else 0)
    queries = shape.heads * (2 if shape.output_gate else 1)
    qkv = shape.head_dim * queries + _kv_width(shape)
    bias = {"none": 0, "qkv": qkv, "all": qkv + shape.hidden}[shape.attention_bias]
    normed = shape.heads + shape.kv_heads if shape.qk_norm_all_heads else 2
    return bias + (normed * shape.head_dim if shape.qk_norm else 0) + (shape.heads if shape.sinks else 0)


def recurrent_weights(mixer: Recurrent, hidden: int) -> int:
    """Weights of one recurrent layer that a token is multiplied with, its convolution's included."""
    wide, keys = mixer.value_heads * mixer.value_dim, mixer.key_heads * mixer.key_dim
    # Each projects values and their gate; then the heads' time steps (and, in a delta net, its write strengths).
    per_head = {"gated-delta": 2, "mamba2": 1, "mamba": 0}[mixer.kind]
    inputs = hidden * (2 * wide + 2 * keys + per_head * mixer.value_heads)
    selected = wide * (2 * mixer.rank + 2 * mixer.key_dim) if mixer.kind == "mamba" else 0
    return inputs + selected + mixer.convolved * mixer.convolution + wide * hidden


def _recurrent_other(mixer: Recurrent, hidden: int) -> int:
    """Biases, norms and decays of one recurrent layer."""
    wide, heads = mixer.value_heads * mixer.value_dim, mixer.value_heads
    bias = mixer.convolved if mixer.convolution_bias else 0
    if mixer.kind == "gated-delta":
        return bias + 2 * heads + mixer.value_dim
    if mixer.kind == "mamba2":
        outputs = 2 * wide + 2 * mixer.key_heads * mixer.key_dim + heads + hidden
        return bias + 3 * heads + wide + (outputs if mixer.bias else 0)
    decays = wide * (mixer.key_dim + 2)  # A, D and the bias of the time step
    return bias + decays + mixer.rank + 2 * mixer.key_dim + (2 * wide + hidden if mixer.bias else 0)


def _decoder(shape: DecoderShape) -> ParameterCount:
    hidden, matrices = shape.hidden, _mlp_matrices(shape)
    inner = (shape.dense_layers + shape.double_mlp_layers) * shape.intermediate
    mlp = matrices * hidden * inner
    across, mixer = shape.cross_attention_layers, shape.recurrent
    mixers, attention_other = _attention(shape)
    mixers += across * attention_weights(shape)
    norm = hidden * (2 if shape.norm_bias else 1) if shape.norm_weights else 0
    other = shape.layers * shape.layer_norms * norm + norm + attention_other
    other += shape.vocab if shape.head_bias else 0
    other += across * (2 * shape.head_dim + 2)  # norms of queries and keys, and two gates
    if shape.mlp_bias:
        other += (matrices - 1) * inner + shape.dense_layers * hidden
    if mixer:
        mixers += mixer.layers * recurrent_weights(mixer, hidden)
        other += mixer.layers * _recurrent_other(mixer, hidden)
    routed, routed_bias, idle = _experts(shape)
    head = shape.vocab * hidden
    # For each layer a share of one projection of the token, a gate, and a projection back.
    per_layer = shape.layers * shape.per_layer_input
    other += shape.per_layer_input
    matmul = mixers + mlp + routed + head + 3 * hidden * per_layer
    embedding = shape.per_layer_rows * per_layer
    embedding += (shape.table_rows or shape.vocab) * hidden + (
        shape.max_context * hidden if shape.learned_positions else 0
    )
    active = matmul + embedding + other + routed_bias - (head if shape.tied_embeddings else 0)
    return ParameterCount(active + idle, active, embedding, head, matmul)


def _experts(shape: DecoderShape) -> tuple[int, int, int]:
    """Over all layers: weights of router, chosen and shared experts; their biases; all of experts not chosen."""
    experts = shape.experts
    if experts is None:
        return 0, 0, 0
    hidden, matrices, per_expert = shape.hidden, _mlp_matrices(shape), expert_weights(shape)
    bias = (matrices - 1) * experts.intermediate + hidden if experts.bias else 0
    shared = matrices * hidden * experts.shared_width + (hidden if experts.shared_gate else 0)
    around = 2 * hidden * (experts.latent or 0)
    working = hidden * experts.count + per_expert * experts.per_token + shared + around
    biases = bias * experts.per_token + (experts.count if experts.bias else 0)
    biases += hidden + experts.count if experts.router_scales else 0
    unused = (experts.count - experts.per_token) * (per_expert + bias)
    layers = shape.expert_layers
    return layers * working, layers * biases, layers * unused


def _vit(shape: VitShape) -> ParameterCount:
    hidden, inner = shape.hidden, shape.intermediate
    patch = shape.channels * shape.patch_size**2 * hidden
    head = hidden * shape.labels
    matmul = patch + shape.layers * (4 * hidden * hidden + 2 * hidden * inner) + head
    attention_bias = (4 if shape.qkv_bias else 1) * hidden
    per_layer = attention_bias + inner + hidden + 4 * hidden
    embedding = hidden * (1 + vit_tokens(shape, shape.image_size))
    total = matmul + embedding + hidden + shape.layers * per_layer + 2 * hidden + shape.labels
    return ParameterCount(total, total, embedding, head, matmul)


def vit_tokens(shape: VitShape, image_size: int) -> int:
    """Patches of an image of this side, and the class token."""
    side: int = image_size // shape.patch_size
    return side * side + 1


# Image towers: encoders as in Dosovitskiy et al. (arXiv 2010.11929) and Qwen2.5-VL (arXiv 2502.13923).


def tower_parameters(tower: ImageTower) -> int:
    """Parameters of an image encoder and its projector, exactly; a head that scores classes is no part of either."""
    hidden, norm = tower.hidden, tower.hidden * (2 if tower.norm_bias else 1)
    weights = 4 * hidden**2 + (3 if tower.gated_mlp else 2) * hidden * tower.intermediate
    layer = weights + 2 * norm + 4 * hidden + (2 if tower.gated_mlp else 1) * tower.intermediate + hidden
    patch = tower.channels * tower.frames * tower.patch_size**2 * hidden + (hidden if tower.patch_bias else 0)
    positions = 0
    if tower.learned_positions and tower.image_size is not None:
        positions = ((tower.image_size // tower.patch_size) ** 2 + tower.class_token) * hidden
    projector = sum(step.inputs * step.outputs + step.bias * step.outputs for step in tower.projections)
    outer = tower.outer_norms * norm + tower.projector_norm + tower.class_token * hidden
    return tower.layers * layer + patch + positions + outer + projector


# The convolutions of a residual network, one by one (He et al. 2016, arXiv 1512.03385).

_REDUCTION = 4  # a bottleneck narrows its 3x3 convolution by this


@dataclass(frozen=True, slots=True)
class Convolution:
    """A square convolution with padding kernel // 2, no bias, and the batch norm that follows it.

    `side` is the height and width of its output. A `shortcut` has no activation of its own.
    """

    inputs: int
    outputs: int
    kernel: int
    side: int
    shortcut: bool = False

    @property
    def weights(self) -> int:
        return self.inputs * self.outputs * self.kernel**2

    @property
    def macs(self) -> int:
        """Multiply-accumulates for one image."""
        return self.weights * self.side**2

    @property
    def elements(self) -> int:
        """Elements of its output for one image."""
        return self.outputs * self.side**2


def convolutions(shape: ResnetShape, image_size: int) -> tuple[Convolution, ...]:
    """All convolutions in order, for square images of `image_size`."""
    return tuple(_walk(shape, image_size))


def _half(side: int) -> int:
    """Output side at stride 2 with padding kernel // 2, for every odd kernel."""
    return (side + 1) // 2


def _walk(shape: ResnetShape, image_size: int) -> Iterator[Convolution]:
    side = _half(image_size)
    yield Convolution(shape.channels, shape.embedding, 7, side)
    side, inputs = _half(side), shape.embedding  # max pool, stride 2
    for stage, (outputs, depth) in enumerate(zip(shape.hidden_sizes, shape.depths, strict=True)):
        for block in range(depth):
            strided = block == 0 and (stage > 0 or shape.downsample_in_first_stage)
            before, side = side, _half(side) if strided else side
            if inputs != outputs or strided:
                yield Convolution(inputs, outputs, 1, side, shortcut=True)
            yield from _block(shape, inputs, outputs, before, side)
            inputs = outputs


def _block(shape: ResnetShape, inputs: int, outputs: int, before: int, side: int) -> Iterator[Convolution]:
    if shape.layer_type == "basic":
        yield Convolution(inputs, outputs, 3, side)
        yield Convolution(outputs, outputs, 3, side)
        return
    narrow = outputs // _REDUCTION
    yield Convolution(inputs, narrow, 1, side if shape.downsample_in_bottleneck else before)
    yield Convolution(narrow, narrow, 3, side)
    yield Convolution(narrow, outputs, 1, side)
