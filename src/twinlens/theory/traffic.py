"""Bytes that must move between memory and compute units, each counted once: the least, not the measured."""

from __future__ import annotations

from twinlens.errors import BadInput
from twinlens.spec.model.shape import DecoderShape, ModelShape
from twinlens.theory.layout import Layout
from twinlens.theory.memory import activation_bytes, kv_bytes, kv_bytes_per_token, logits_bytes
from twinlens.theory.parameter import expert_weights, parameters


def weights_read_bytes(
    shape: DecoderShape, tokens: int = 1, bits_per_weight: float = 16.0, head_bits: float | None = None
) -> float:
    """Weight bytes one forward pass over `tokens` reads, whatever sequences those belong to.

    `head_bits`: of an output head that is left wider, as one tied to the embedding is; None is the same.

    An untied input table is not read but for one row per token; a tied one is read as the head. Of E
    experts with k per token, E·(1 − (1 − k/E)^tokens) are touched in each layer if routing is uniform; a
    real router touches fewer.
    """
    _positive(tokens=tokens)
    count = parameters(shape)
    dense: float = count.total - count.embedding + (count.head if shape.tied_embeddings else 0)
    rows = tokens * shape.hidden * (2 if shape.learned_positions else 1)
    if shape.experts:
        routed, chosen = shape.experts.count, shape.experts.per_token
        touched = routed * (1 - (1 - chosen / routed) ** tokens)
        dense -= shape.expert_layers * expert_weights(shape) * (routed - touched)
    head = count.head if head_bits is not None else 0
    return ((dense + rows - head) * bits_per_weight + head * (head_bits or 0.0)) / 8


def decode_step_bytes(
    shape: DecoderShape,
    context: int,
    batch: int = 1,
    bits_per_weight: float = 16.0,
    kv_bytes_per_element: float = 2.0,
    head_bits: float | None = None,
) -> float:
    """Bytes of one decode step of `batch` sequences of `context` cached tokens: weights, and KV both ways."""
    cache = kv_bytes(shape, context, kv_bytes_per_element, sequences=batch)
    written = batch * kv_bytes_per_token(shape, kv_bytes_per_element)
    return weights_read_bytes(shape, batch, bits_per_weight, head_bits) + cache + written


def prefill_bytes(
    shape: DecoderShape,
    tokens: int,
    batch: int = 1,
    bits_per_weight: float = 16.0,
    kv_bytes_per_element: float = 2.0,
    head_bits: float | None = None,
) -> float:
    """Compulsory bytes to read `batch` prompts of `tokens` each: weights read once, KV cache written."""
    _positive(tokens=tokens, batch=batch)
    written = batch * tokens * kv_bytes_per_token(shape, kv_bytes_per_element)
    return weights_read_bytes(shape, tokens * batch, bits_per_weight, head_bits) + written


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
    microbatch: int,
    seq_len: int | None = None,
    accumulation: int = 1,
) -> float:
    """Compulsory bytes of one optimizer step of `accumulation` microbatches.

    Per microbatch the weights are read forward and backward, gradients written (and read, from the second
    on), and kept activations and logits written once and read once; then the optimizer. Fusion can do no
    better than this but for activations that stay on chip.
    """
    _positive(microbatch=microbatch, accumulation=accumulation)
    total = parameters(shape).total
    kept = activation_bytes(shape, microbatch, seq_len, bytes_per_element=layout.activations)
    kept += logits_bytes(shape, microbatch, seq_len, layout.activations)
    weights = 2 * total * (layout.cast or layout.weights)
    gradients = total * layout.gradients * (2 * accumulation - 1)
    return accumulation * (weights + 2 * kept) + gradients + optimizer_step_bytes(shape, layout)


def _positive(**numbers: int) -> None:
    for name, number in numbers.items():
        if number < 1:
            raise BadInput(f"{name} must be at least 1, not {number}")
