"""Memory of serving on each device, by component. All numbers may be arrays (theory/number.py)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from twinlens.spec.model.shape import DecoderShape
from twinlens.theory.memory import kv_bytes
from twinlens.theory.number import Number, amount, count, is_scalar, larger, rate, rounded_up

_FP32 = 4.0
RUNTIME_BYTES = 1.0e9
"""Driver context, libraries and captured graphs: 0.5 to 2 GB on CUDA. A default; measure it where it decides."""


@dataclass(frozen=True, slots=True)
class ServingMemory:
    """Bytes on each device while serving."""

    weights_bytes: Number
    kv_bytes: Number
    """Cache pages and states of recurrent layers."""
    activations_bytes: Number
    """Largest layer of one pass over a full chunk of prefill."""
    sampler_bytes: Number
    """Scores of one token per sequence: as computed, in fp32, and as probabilities."""
    runtime_bytes: Number

    @property
    def total_bytes(self) -> Number:
        return self.weights_bytes + self.kv_bytes + self.activations_bytes + self.sampler_bytes + self.runtime_bytes


def serving_memory(
    shape: DecoderShape,
    weights_bytes: Number,
    sequences: Number,
    context: Number,
    *,
    kv_bytes_per_element: Number = 2.0,
    block: Number = 16,
    chunk_tokens: Number = 2048,
    bytes_per_element: Number = 2.0,
    runtime_bytes: Number = RUNTIME_BYTES,
    tensor_parallel: Number = 1,
) -> ServingMemory:
    """Bytes on each of `tensor_parallel` devices for `sequences` of `context` tokens each.

    `weights_bytes`: of the whole model (`stored_bytes` in theory/weight_format.py). `block`: tokens per cache page.
    `chunk_tokens`: most tokens of one forward pass. KV heads are copied where there are more devices than heads, and a
    shared latent is on every device.
    """
    ranks = count("tensor_parallel", tensor_parallel)
    cache = kv_bytes(shape, context, kv_bytes_per_element, sequences=sequences, block=block)
    return ServingMemory(
        amount("weights_bytes", weights_bytes) / ranks,
        cache * kv_share(shape, ranks),
        prefill_activation_bytes(
            shape, larger(count("chunk_tokens", chunk_tokens), sequences), bytes_per_element, ranks
        ),
        amount("sequences", sequences) * shape.vocab * (bytes_per_element + 2 * _FP32),
        amount("runtime_bytes", runtime_bytes),
    )


def kv_share(shape: DecoderShape, tensor_parallel: Number) -> Number:
    """Part of the cache that one of `tensor_parallel` devices holds."""
    if shape.mla:
        return 1.0
    return rounded_up(shape.kv_heads, tensor_parallel) / tensor_parallel / shape.kv_heads


def prefill_activation_bytes(
    shape: DecoderShape, tokens: Number, bytes_per_element: Number = 2.0, tensor_parallel: Number = 1
) -> Number:
    """Most bytes alive in one pass over `tokens`: the residual, and the wider of attention and MLP with its input."""
    many, ranks = count("tokens", tokens), count("tensor_parallel", tensor_parallel)
    queries = shape.heads * (shape.head_dim + shape.value_head_dim)
    keys = shape.kv_heads * (shape.head_dim + shape.value_head_dim)
    inner = [shape.intermediate] if shape.layers > shape.expert_layers else []
    if shape.experts:
        inner.append(shape.experts.per_token * shape.experts.intermediate + shape.experts.shared_width)
    widest = max(queries + keys, (3 if shape.gated_mlp else 2) * max(inner))
    if shape.recurrent:
        wide = shape.recurrent.value_heads * shape.recurrent.value_dim
        widest = max(widest, 2 * shape.recurrent.convolved + 2 * wide)
    return many * (2 * shape.hidden + widest / ranks) * rate("bytes_per_element", bytes_per_element)


def most_sequences(
    shape: DecoderShape,
    free_bytes: Number,
    context: Number,
    kv_bytes_per_element: Number = 2.0,
    *,
    block: Number = 16,
    tensor_parallel: Number = 1,
) -> Number:
    """Whole sequences of `context` tokens of which the cache fits into `free_bytes` on each device; at least 0."""
    each = kv_bytes(shape, count("context", context), kv_bytes_per_element, block=block)
    whole = larger(free_bytes, 0) // (each * kv_share(shape, count("tensor_parallel", tensor_parallel)))
    return int(whole) if is_scalar(whole) else np.asarray(whole)
