"""Demands of a decoder as plain numbers that stack into arrays: weights, cache, FLOP per token."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any

import numpy as np

from twinlens.planning.prediction.stored import Stored
from twinlens.spec.model.shape import DecoderShape
from twinlens.theory.attention import flop_per_pair, kept_elements, recurrent_flop_per_token, state_bytes
from twinlens.theory.number import Number
from twinlens.theory.parameter import expert_weights, parameters


@dataclass(frozen=True, slots=True)
class Work:
    """Numbers of one model at one precision, or arrays of many. Bytes are those of the whole model."""

    layers: Number
    expert_layers: Number
    hidden: Number
    heads: Number
    vocab: Number
    dense_weights: Number
    """Weights that every token is multiplied with, in layers: attention, dense and shared MLPs, routers."""
    head_weights: Number
    expert_weights: Number
    """Of all routed experts of all layers; 0 without any."""
    experts: Number
    chosen: Number
    dense_bytes: Number
    head_bytes: Number
    expert_bytes: Number
    kv_full: Number
    """Cached elements per token in layers that see every token."""
    kv_window: Number
    window: Number
    kv_heads: Number
    latent: Number
    """1 with latent attention, whose cache is on every device of a tensor group."""
    kv_bytes: Number
    """Bytes per cached element."""
    state_bytes: Number
    decode_pair_full: Number
    """FLOP of one query-key pair, times the layers that see every token."""
    decode_pair_window: Number
    prefill_pair_full: Number
    prefill_pair_window: Number
    recurrent_flop: Number
    total_weights: Number

    def touched(self, tokens: Number) -> Number:
        """Share of the routed experts that `tokens` reach if routing is uniform."""
        return 1.0 - (1.0 - self.chosen / self.experts) ** tokens

    def seen(self, tokens: Number) -> Number:
        """Tokens in the cache of a windowed layer."""
        return np.minimum(tokens, self.window)

    def window_pairs(self, length: Number) -> Number:
        """Query-key pairs of a windowed layer over a causal sequence."""
        seen = self.seen(length)
        return seen * seen / 2.0 + (length - seen) * seen

    def kv_sequence_bytes(self, tokens: Number) -> Number:
        """Bytes of cache and states of one sequence of `tokens`."""
        held = self.kv_full * tokens + self.kv_window * self.seen(tokens)
        return held * self.kv_bytes + self.state_bytes

    def kv_share(self, tensor: Number) -> Number:
        """Part of the cache that one of `tensor` devices holds: whole KV heads, and all of a latent."""
        return np.where(self.latent > 0, 1.0, np.ceil(self.kv_heads / tensor) / self.kv_heads)

    @property
    def weight_bytes(self) -> Number:
        """Bytes of all weights; the input table counts as the head does."""
        return self.dense_bytes + self.expert_bytes + 2.0 * self.head_bytes


@lru_cache(maxsize=4096)
def work_of(shape: DecoderShape, stored: Stored) -> Work:
    """The numbers of `shape` with weights and cache `stored` so."""
    count = parameters(shape)
    routed = shape.expert_layers * shape.experts.count * expert_weights(shape) if shape.experts else 0
    working = shape.expert_layers * shape.experts.per_token * expert_weights(shape) if shape.experts else 0
    dense = count.matmul - count.head - working
    decode, prefill = flop_per_pair(shape, absorbed=True), flop_per_pair(shape, absorbed=False)
    kv_full, kv_window = kept_elements(shape)
    more = flop_per_pair(shape.full_view, absorbed=False) - prefill  # of layers without a window
    return Work(
        layers=shape.layers,
        expert_layers=shape.expert_layers,
        hidden=shape.hidden,
        heads=shape.heads,
        vocab=shape.vocab,
        dense_weights=dense,
        head_weights=count.head,
        expert_weights=routed,
        experts=shape.experts.count if shape.experts else 1,
        chosen=shape.experts.per_token if shape.experts else 1,
        dense_bytes=dense * stored.dense_bits / 8,
        head_bytes=count.head * stored.head_bits / 8,
        expert_bytes=routed * stored.expert_bits / 8,
        kv_full=kv_full,
        kv_window=kv_window,
        window=shape.sliding_window or 1,
        kv_heads=shape.fewest_kv_heads,
        latent=1.0 if shape.mla else 0.0,
        kv_bytes=stored.kv_bytes,
        state_bytes=float(state_bytes(shape)),
        decode_pair_full=(decode + more) * shape.full_layers,
        decode_pair_window=decode * shape.windowed_layers,
        prefill_pair_full=(prefill + more) * shape.full_layers,
        prefill_pair_window=prefill * shape.windowed_layers,
        recurrent_flop=recurrent_flop_per_token(shape),
        total_weights=count.total,
    )


def stacked(parts: list[Any]) -> Any:
    """One value of the same class whose fields are arrays of float64."""
    first = parts[0]
    columns = {f.name: np.array([getattr(part, f.name) for part in parts], dtype=np.float64) for f in fields(first)}
    return type(first)(**columns)
