"""Parameters of a shape, exactly: what Hugging Face's own modules come to (buffers are not parameters)."""

from __future__ import annotations

from dataclasses import dataclass

from twinlens.spec.model.shape import DecoderShape, ModelShape, VitShape
from twinlens.theory.convolution import convolutions


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


def parameters(shape: ModelShape) -> ParameterCount:
    """The parameters of any shape."""
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
    return _mlp_matrices(shape) * shape.hidden * shape.experts.intermediate if shape.experts else 0


def _mlp_matrices(shape: DecoderShape) -> int:
    return 3 if shape.gated_mlp else 2


def _attention_weights(shape: DecoderShape) -> int:
    """Weights of one layer's projections, biases excluded."""
    hidden, heads = shape.hidden, shape.heads
    out = heads * shape.value_head_dim * hidden
    if shape.mla is None:
        return hidden * shape.head_dim * (heads + 2 * shape.kv_heads) + out
    mla = shape.mla
    query = heads * shape.head_dim * (mla.q_lora_rank or hidden) + hidden * (mla.q_lora_rank or 0)
    down = hidden * (mla.kv_lora_rank + mla.qk_rope_head_dim)
    up = mla.kv_lora_rank * heads * (mla.qk_nope_head_dim + mla.v_head_dim)
    return query + down + up + out


def _attention_other(shape: DecoderShape) -> int:
    """Biases and norms inside one layer's attention."""
    if shape.mla is not None:
        mla = shape.mla
        norms = mla.kv_lora_rank + (mla.q_lora_rank or 0)
        low_rank = (mla.q_lora_rank or 0) + mla.kv_lora_rank + mla.qk_rope_head_dim + shape.hidden
        return norms + (low_rank if shape.attention_bias != "none" else 0)
    qkv = shape.head_dim * (shape.heads + 2 * shape.kv_heads)
    bias = {"none": 0, "qkv": qkv, "all": qkv + shape.hidden}[shape.attention_bias]
    return bias + (2 * shape.head_dim if shape.qk_norm else 0)


def _decoder(shape: DecoderShape) -> ParameterCount:
    hidden, matrices = shape.hidden, _mlp_matrices(shape)
    dense_layers = shape.layers - shape.expert_layers
    inner = shape.intermediate
    mlp = dense_layers * matrices * hidden * inner
    idle = 0
    if shape.experts:
        experts = shape.experts
        per_expert = expert_weights(shape)
        router = hidden * experts.count
        mlp += shape.expert_layers * (router + per_expert * (experts.per_token + experts.shared))
        idle = shape.expert_layers * per_expert * (experts.count - experts.per_token)
    table = shape.vocab * hidden
    norm = hidden * (2 if shape.norm_bias else 1)
    mlp_bias = dense_layers * ((matrices - 1) * inner + hidden) if shape.mlp_bias else 0
    other = shape.layers * (_attention_other(shape) + 2 * norm) + norm + mlp_bias
    matmul = shape.layers * _attention_weights(shape) + mlp + table
    embedding = table + (shape.max_context * hidden if shape.learned_positions else 0)
    active = matmul + embedding + other - (table if shape.tied_embeddings else 0)
    return ParameterCount(active + idle, active, embedding, table, matmul)


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
