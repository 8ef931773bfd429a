"""Memory of serving on each device, by component: the one function that every plan calls.

All numbers may be arrays (theory/number.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from twinlens.spec.model.shape import DecoderShape
from twinlens.theory.memory import kv_bytes
from twinlens.theory.number import Number, amount, choose, count, is_scalar, larger, rate, rounded_up, smaller

SCORE_BYTES = 10.0
"""A score in 16 bits, in fp32, and as a probability."""
RUNTIME_BYTES = 1.0e9
"""Driver context, libraries and captured graphs: 0.5 to 2 GB on CUDA. A default; measure it where it decides."""


@dataclass(frozen=True, slots=True)
class ServingMemory:
    """Bytes on the fullest device while serving."""

    weights_bytes: Number
    kv_bytes: Number
    """Cache pages and states of recurrent layers."""
    activations_bytes: Number
    """Largest layer of one pass over a full chunk of prefill."""
    sampler_bytes: Number
    """Scores of one token per sequence, and what sampling makes of them."""
    runtime_bytes: Number

    @property
    def working_bytes(self) -> Number:
        """The larger of a pass of prefill and of a sampling of tokens: they are not alive together."""
        return larger(self.activations_bytes, self.sampler_bytes)

    @property
    def total_bytes(self) -> Number:
        return self.weights_bytes + self.kv_bytes + self.working_bytes + self.runtime_bytes


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
    score_bytes: Number = SCORE_BYTES,
    sampled: Number = 0,
    runtime_bytes: Number = RUNTIME_BYTES,
    tensor_parallel: Number = 1,
    pipeline: Number = 1,
    groups: Number = 1,
    routed_bytes: Number = 0.0,
) -> ServingMemory:
    """Bytes on the fullest of `tensor_parallel` · `pipeline` · `groups` devices for `sequences` of `context` tokens.

    `weights_bytes`: of the whole model (`stored_bytes` in theory/weight_format.py). `block`: tokens per cache page.
    `chunk_tokens`: most tokens of one forward pass. `sampled`: sequences for which the runtime makes room when it
    samples, if they are more; `score_bytes`: of one of them and one entry of the vocabulary. KV heads are copied where
    there are more devices than heads, and a shared latent is on every device of a stage.

    `groups` of devices with attention, cache and users of their own share the experts (`routed_bytes` of the weights),
    each of which is whole on one of all their devices: data-parallel attention with expert parallelism.
    """
    ranks, stages = count("tensor_parallel", tensor_parallel), count("pipeline", pipeline)
    apart, own = count("groups", groups), amount("sequences", sequences)
    own = choose(apart > 1, -(-own // apart), own)  # of the fullest group
    cache = kv_bytes(shape, context, kv_bytes_per_element, sequences=own, block=block)
    routed = amount("routed_bytes", routed_bytes)
    weights = (amount("weights_bytes", weights_bytes) - routed) / ranks + routed * expert_share(shape, ranks, apart)
    return ServingMemory(
        weights / stages,
        cache * kv_share(shape, ranks) * stage_share(shape, stages),
        prefill_activation_bytes(
            shape, larger(count("chunk_tokens", chunk_tokens), own), bytes_per_element, ranks, apart
        ),
        larger(sampled, own) * shape.vocab * rate("score_bytes", score_bytes),
        amount("runtime_bytes", runtime_bytes),
    )


def expert_share(shape: DecoderShape, tensor_parallel: Number, groups: Number) -> Number:
    """Part of the routed experts on the fullest device: a share of each expert's width, or whole experts of groups."""
    if shape.experts is None:
        return 1.0 / tensor_parallel
    devices = tensor_parallel * groups
    whole = rounded_up(shape.experts.count, devices) / devices / shape.experts.count
    return choose(groups > 1, whole, 1.0 / tensor_parallel)


def stage_share(shape: DecoderShape, pipeline: Number) -> Number:
    """Part of the layers that the fullest of so many stages holds: stages may differ by one layer."""
    return rounded_up(shape.layers, pipeline) / pipeline / shape.layers


def kv_share(shape: DecoderShape, tensor_parallel: Number) -> Number:
    """Part of the cache that one of `tensor_parallel` devices holds; of layers of two kinds, the larger part."""
    if shape.mla:
        return 1.0
    heads = shape.fewest_kv_heads
    return rounded_up(heads, tensor_parallel) / tensor_parallel / heads


def prefill_activation_bytes(
    shape: DecoderShape, tokens: Number, bytes_per_element: Number = 2.0, tensor_parallel: Number = 1,
    groups: Number = 1,
) -> Number:  # fmt: skip
    """Most bytes alive in one pass over `tokens`: the residual, and the wider of attention and MLP with its input.

    Groups that share experts each have as many tokens, and send one to every device with an expert that it chose.
    """
    many, ranks = count("tokens", tokens), count("tensor_parallel", tensor_parallel)
    kinds = (shape, shape.full_view)
    attending = max((each.heads + each.kv_heads) * (each.head_dim + each.value_head_dim) for each in kinds)
    inner = [shape.intermediate * (2 if shape.double_mlp_layers else 1)] if shape.dense_layers else []
    if shape.experts:
        inner.append(shape.experts.per_token * shape.experts.intermediate + shape.experts.shared_width)
    widest = max(attending, (3 if shape.gated_mlp else 2) * max(inner, default=0))
    if shape.recurrent:
        wide = shape.recurrent.value_heads * shape.recurrent.value_dim
        widest = max(widest, 2 * shape.recurrent.convolved + 2 * wide)
    received = 0 * groups
    if shape.experts:
        received = smaller(ranks * groups, shape.experts.per_token) * (groups > 1) * shape.hidden / ranks
    return many * (2 * shape.hidden + widest / ranks + received) * rate("bytes_per_element", bytes_per_element)


def most_sequences(
    shape: DecoderShape, room_bytes: Number, weights_bytes: Number, context: Number, **options: Any
) -> Number:
    """The largest number of whole sequences whose `serving_memory` is at most `room_bytes` on each device; 0 for none.

    `options`: those of `serving_memory`. With n sequences it takes weights + runtime + n·kv + max(fixed, n·each), so
    the smaller of (free − fixed) / kv and free / (kv + each) fits, and no more.
    """
    one = serving_memory(shape, weights_bytes, 1, count("context", context), **options)
    each = serving_memory(
        shape, 0, 1, context, **{**options, "sampled": 0, "chunk_tokens": 1, "routed_bytes": 0}
    ).working_bytes
    free = room_bytes - one.weights_bytes - one.runtime_bytes
    whole = smaller((free - one.working_bytes) // one.kv_bytes, free // (one.kv_bytes + each))
    whole = larger(whole, 0) * options.get("groups", 1)
    return int(whole) if is_scalar(whole) else whole
