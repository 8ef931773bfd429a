"""Bytes that must move between memory and compute units, each counted once: the least, not the measured."""

from __future__ import annotations

from dataclasses import dataclass

from twinlens.spec.model.shape import DecoderShape, ModelShape
from twinlens.theory.activation import activation_bytes, logits_bytes
from twinlens.theory.attention import state_bytes
from twinlens.theory.memory import Layout, kv_bytes, kv_bytes_per_token
from twinlens.theory.number import Number, count, rate
from twinlens.theory.parameter import cross_attention_weights, expert_weights, parameters


@dataclass(frozen=True, slots=True)
class DecodeTraffic:
    """Bytes of one decode step of a batch, by what moves."""

    weights_bytes: Number
    """Of weights and their scales, each once."""
    kv_bytes: Number
    """Keys and values read, and one token's written."""
    state_bytes: Number
    """States of recurrent layers, read and written."""
    activations_bytes: Number
    """Inputs and outputs of every product, where each is a kernel of its own; fusion and caches save most of it."""

    @property
    def compulsory_bytes(self) -> Number:
        """All but activations, which can stay on the chip."""
        return self.weights_bytes + self.kv_bytes + self.state_bytes


def experts_touched(shape: DecoderShape, tokens: Number) -> Number:
    """Experts of one layer that `tokens` reach if routing is uniform: E·(1 − (1 − k/E)^tokens)."""
    if shape.experts is None:
        return 0.0
    routed, chosen = shape.experts.count, shape.experts.per_token
    return routed * (1 - (1 - chosen / routed) ** (1.0 * tokens))


def weights_read_bytes(
    shape: DecoderShape, tokens: Number = 1, bits_per_weight: Number = 16.0, head_bits: Number | None = None
) -> Number:
    """Weight bytes one forward pass over `tokens` reads, whatever sequences those belong to.

    `head_bits`: of an output head that is left wider, as one tied to the embedding is; None is the same.

    An untied input table is not read but for one row per token; a tied one is read as the head. Of experts,
    `experts_touched` are read in each layer; a real router touches fewer.
    """
    many, bits = count("tokens", tokens), rate("bits_per_weight", bits_per_weight)
    counted = parameters(shape)
    dense: Number = counted.total - counted.embedding + (counted.head if shape.tied_embeddings else 0)
    dense = dense - cross_attention_weights(shape)
    rows = many * (shape.hidden * (2 if shape.learned_positions else 1) + shape.layers * shape.per_layer_input)
    if shape.experts:
        idle = shape.experts.count - experts_touched(shape, many)
        dense = dense - shape.expert_layers * expert_weights(shape) * idle
    head = counted.head if head_bits is not None else 0
    return ((dense + rows - head) * bits + head * (0.0 if head_bits is None else rate("head_bits", head_bits))) / 8


def decode_traffic(
    shape: DecoderShape,
    context: Number,
    batch: Number = 1,
    bits_per_weight: Number = 16.0,
    kv_bytes_per_element: Number = 2.0,
    head_bits: Number | None = None,
    activation_bytes_per_element: Number = 2.0,
) -> DecodeTraffic:
    """Bytes of one decode step of `batch` sequences of `context` cached tokens each."""
    many = count("batch", batch)
    states = many * state_bytes(shape, kv_bytes_per_element)
    cache = kv_bytes(shape, context, kv_bytes_per_element, sequences=many) - states
    written = many * kv_bytes_per_token(shape, kv_bytes_per_element)
    return DecodeTraffic(
        weights_read_bytes(shape, many, bits_per_weight, head_bits),
        cache + written,
        2 * states,
        many * activation_elements_moved(shape) * rate("activation_bytes_per_element", activation_bytes_per_element),
    )


def decode_step_bytes(
    shape: DecoderShape,
    context: Number,
    batch: Number = 1,
    bits_per_weight: Number = 16.0,
    kv_bytes_per_element: Number = 2.0,
    head_bits: Number | None = None,
) -> Number:
    """Compulsory bytes of one decode step of `batch` sequences of `context` cached tokens: see `DecodeTraffic`."""
    moved = decode_traffic(shape, context, batch, bits_per_weight, kv_bytes_per_element, head_bits)
    return moved.compulsory_bytes


def activation_elements_moved(shape: DecoderShape) -> int:
    """Elements per token that products read and write when each is a kernel of its own."""
    hidden, inner = shape.hidden, shape.intermediate
    attention = shape.full_layers * _attention_moved(shape.full_view) + shape.windowed_layers * _attention_moved(shape)
    wide = (4 if shape.gated_mlp else 2) * inner
    mlp = shape.dense_layers * (2 * hidden + wide) + shape.double_mlp_layers * wide
    # Two norms (read, write) and two sums with the residual (two reads, a write): 10 times the width of the model.
    layers = attention + mlp + shape.layers * 10 * hidden
    if shape.experts:
        chosen = shape.experts.per_token * shape.experts.intermediate + shape.experts.shared_width
        layers += shape.expert_layers * (2 * hidden + 4 * chosen)
    if shape.recurrent:
        wide = shape.recurrent.value_heads * shape.recurrent.value_dim
        layers += shape.recurrent.layers * (2 * hidden + 3 * shape.recurrent.convolved + 3 * wide)
    return layers + hidden + shape.vocab


def _attention_moved(shape: DecoderShape) -> int:
    """Elements per token that the products of one layer's attention read and write."""
    hidden, heads, out = shape.hidden, shape.heads * shape.head_dim, shape.heads * shape.value_head_dim
    keys = shape.kv_heads * (shape.head_dim + shape.value_head_dim)
    return (hidden + heads + keys) + (heads + out) + (out + hidden)


def prefill_bytes(
    shape: DecoderShape,
    tokens: Number,
    batch: Number = 1,
    bits_per_weight: Number = 16.0,
    kv_bytes_per_element: Number = 2.0,
    head_bits: Number | None = None,
) -> Number:
    """Compulsory bytes to read `batch` prompts of `tokens` each: weights read once, KV cache and states written."""
    length, many = count("tokens", tokens), count("batch", batch)
    written = many * (
        length * kv_bytes_per_token(shape, kv_bytes_per_element) + state_bytes(shape, kv_bytes_per_element)
    )
    return weights_read_bytes(shape, length * many, bits_per_weight, head_bits) + written


def optimizer_step_bytes(shape: ModelShape, layout: Layout) -> float:
    """Bytes of one fused optimizer step: gradients read, states read and written, weights likewise.

    With a master copy that copy is read and written and the weights are written from it. AdamW comes to 28
    bytes per parameter both in fp32 (4 + 16 + 8) and in 16 bits with an fp32 master (2 + 16 + 8 + 2).
    """
    weights = 2 * layout.master + layout.weights if layout.master else 2 * layout.weights
    return parameters(shape).total * (layout.gradients + 2 * layout.optimizer + weights)


def training_step_bytes(
    shape: ModelShape,
    layout: Layout,
    microbatch: Number,
    seq_len: Number | None = None,
    accumulation: Number = 1,
) -> Number:
    """Compulsory bytes of one optimizer step of `accumulation` microbatches: all of `training_phase_bytes`."""
    return sum(training_phase_bytes(shape, layout, microbatch, seq_len, accumulation).values())


def training_phase_bytes(
    shape: ModelShape,
    layout: Layout,
    microbatch: Number,
    seq_len: Number | None = None,
    accumulation: Number = 1,
) -> dict[str, Number]:
    """Compulsory bytes of one step by phase: forward, backward and optimize.

    Per microbatch the weights are read forward and backward, gradients written (and read, from the second
    on), and kept activations and logits written forward and read backward; then the optimizer. Fusion can do no
    better than this but for activations that stay on chip.
    """
    count("microbatch", microbatch)
    count("accumulation", accumulation)
    total = parameters(shape).total
    kept = activation_bytes(shape, microbatch, seq_len, bytes_per_element=layout.activations)
    kept += logits_bytes(shape, microbatch, seq_len, layout.activations)
    each = accumulation * (total * (layout.cast or layout.weights) + kept)
    gradients = total * layout.gradients * (2 * accumulation - 1)
    return {"forward": each, "backward": each + gradients, "optimize": optimizer_step_bytes(shape, layout)}
