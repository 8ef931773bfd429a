"""Memory, FLOP, bytes and the least time of one decode step or one prefill, in one call. Numbers may be arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from twinlens.spec.model.shape import DecoderShape
from twinlens.theory.flop import forward_flop
from twinlens.theory.memory import kv_bytes, weights_bytes
from twinlens.theory.number import Number, amount, count, rate
from twinlens.theory.roofline import time_floor_s
from twinlens.theory.traffic import decode_step_bytes, prefill_bytes


@dataclass(frozen=True, slots=True)
class Place:
    """Where work runs: FLOP/s of the format that multiplies, bytes/s, and the widths of what is stored."""

    flop_per_s: Number
    bytes_per_s: Number
    bits_per_weight: Number = 16.0
    kv_bytes_per_element: Number = 2.0


@dataclass(frozen=True, slots=True)
class Work:
    """One unit of work on one device, by theory: nothing runs faster, and nothing fits into less."""

    memory_bytes: Number
    """Weights and cache; activations and the runtime come on top (theory/serving.py)."""
    flop: Number
    bytes_moved: Number
    time_s: Number
    binds: Any
    tokens_per_s: Number


def decode_step(
    shape: DecoderShape, place: Place, batch: Number = 1, context: Number = 1, checked_tokens: Number = 1
) -> Work:
    """One decode step of `batch` sequences with `context` tokens in the cache.

    `checked_tokens` above 1 is a pass that checks drafted tokens (theory/speculative.py): the weights are read for all
    of them at once. `tokens_per_s` counts every checked token.
    """
    many, new = count("batch", batch), count("checked_tokens", checked_tokens)
    flop = many * forward_flop(shape, new, context)
    moved = decode_step_bytes(shape, context, many, place.bits_per_weight, place.kv_bytes_per_element)
    return _work(shape, place, flop, moved, many, context, many * new)


def prefill(shape: DecoderShape, place: Place, tokens: Number, batch: Number = 1) -> Work:
    """One pass over `batch` prompts of `tokens` each; scores of the last token only."""
    many, length = count("batch", batch), count("tokens", tokens)
    flop = many * forward_flop(shape, length, 0, logits="last")
    moved = prefill_bytes(shape, length, many, place.bits_per_weight, place.kv_bytes_per_element)
    return _work(shape, place, flop, moved, many, length, many * length)


def _work(
    shape: DecoderShape, place: Place, flop: Number, moved: Number, batch: Number, held: Number, tokens: Number
) -> Work:
    floor = time_floor_s(flop, moved, rate("flop_per_s", place.flop_per_s), place.bytes_per_s)
    memory = weights_bytes(shape, place.bits_per_weight) + kv_bytes(
        shape, amount("context", held), place.kv_bytes_per_element, sequences=batch
    )
    return Work(memory, flop, moved, floor.time_s, floor.binds, tokens / floor.time_s)
