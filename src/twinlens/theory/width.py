"""Widths of what a precision keeps in memory while a decoder runs: weights with their scales, its head, its cache."""

from __future__ import annotations

from dataclasses import dataclass

from twinlens.spec.model.shape import DecoderShape
from twinlens.spec.precision import BITS, Precision


@dataclass(frozen=True, slots=True)
class Widths:
    """`weight_bits`: of a matrix weight, scales included. `head_bits`: of an output head left wider; None: the same."""

    weight_bits: float
    head_bits: float | None
    kv_bytes: float


def widths(shape: DecoderShape, regime: Precision, head: str | None = None) -> Widths:
    """The widths of one precision in inference. Raises BadInput (TL203) for a precision of training only.

    A head tied to the embedding stays in 16 bits (executors/torch/model/quantize.py); torch's dynamic int8 makes a copy
    of it. `head`: the format in which a quantised folder keeps its own, where that is known.
    """
    bits = regime.weight_bits("inference", shape.hidden)
    wide = shape.tied_embeddings and regime.quantised and regime.name != "int8-dynamic"
    head_bits = float(BITS[head]) if head in BITS and regime.quantised else 16.0 if wide else None
    return Widths(bits, head_bits, BITS[regime.classes("inference")["kv"]] / 8)
