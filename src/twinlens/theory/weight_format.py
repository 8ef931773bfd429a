"""Formats of stored weights: bits per weight with scales, and which tensors stay wider.

GGUF block sizes: ggml-common.h of llama.cpp; which tensors get more bits: its llama-quant.cpp. MX: OCP Microscaling
1.0. NVFP4: arXiv 2509.25149. AWQ: arXiv 2306.00978. NF4 and its double quantisation: arXiv 2305.14314.
"""

from __future__ import annotations

from dataclasses import dataclass

from twinlens.errors import BadInput, nearest
from twinlens.spec.model.shape import DecoderShape, ModelShape
from twinlens.spec.precision import BITS, Precision
from twinlens.theory.attention import kept_elements
from twinlens.theory.parameter import expert_weights, parameters

_Q4_K, _Q5_K, _Q6_K, _Q8_0 = 144 / 32, 176 / 32, 210 / 32, 34 / 4  # bytes per block of 256 (Q8_0: of 32), in bits


@dataclass(frozen=True, slots=True)
class WeightFormat:
    """Bits per weight, scales included. `more`: of half of the layers' value and down projections.

    `experts`: of routed experts where they differ from other matrices. `other`: norms, biases and routers.
    """

    matrices: float
    table: float = 16.0
    head: float = 16.0
    other: float = 16.0
    more: float | None = None
    experts: float | None = None


def _gguf(matrices: float, head: float, more: float | None = None) -> WeightFormat:
    return WeightFormat(matrices, table=matrices, head=head, other=32.0, more=more)


WEIGHT_FORMATS: dict[str, WeightFormat] = {
    "fp32": WeightFormat(32.0, 32.0, 32.0, 32.0),
    "bf16": WeightFormat(16.0),
    "fp16": WeightFormat(16.0),
    "fp8": WeightFormat(8.0),
    "fp8-block-128": WeightFormat(8.0 + 32 / 128**2),
    "int8": WeightFormat(8.0),
    "awq-int4-g128": WeightFormat(4.0 + 16 / 128 + 4 / 128),  # scale in fp16, zero in 4 bits
    "gptq-int4-g128": WeightFormat(4.0 + 16 / 128 + 4 / 128),
    "int4-g32": WeightFormat(4.0 + 32 / 32, head=4.0 + 32 / 32),  # as the embedded engine keeps them, head too
    "nvfp4": WeightFormat(4.0 + 8 / 16),
    "mxfp4": WeightFormat(4.0 + 8 / 32),
    "mxfp8": WeightFormat(8.0 + 8 / 32),
    "mxfp4-experts": WeightFormat(16.0, experts=4.0 + 8 / 32),  # as GPT-OSS is published
    "nf4": WeightFormat(4.0 + 32 / 64),
    "nf4-double": WeightFormat(4.0 + 8 / 64 + 32 / (64 * 256)),
    "q4_0": _gguf(18 / 4, _Q6_K),
    "q4_k_m": _gguf(_Q4_K, _Q6_K, more=_Q6_K),
    "q5_k_m": _gguf(_Q5_K, _Q6_K, more=_Q6_K),
    "q6_k": _gguf(_Q6_K, _Q6_K),
    "q8_0": _gguf(_Q8_0, _Q8_0),
}


def weight_format(name: str) -> WeightFormat:
    """The format called `name`, in any case. Raises BadInput with the nearest known name."""
    if name.lower() not in WEIGHT_FORMATS:
        raise BadInput(f"unknown weight format {name!r}; {nearest(name.lower(), WEIGHT_FORMATS)}")
    return WEIGHT_FORMATS[name.lower()]


def stored_bytes(shape: ModelShape, kept: WeightFormat) -> float:
    """Bytes of all weights in this format, each tensor class at its own bits. Holds for files and for memory."""
    count = parameters(shape)
    tied = isinstance(shape, DecoderShape) and shape.tied_embeddings
    # One tensor that is both table and head takes the head's bits.
    wide = count.embedding * (kept.head if tied else kept.table) + (0.0 if tied else count.head * kept.head)
    return (wide + _inner_bits(shape, kept)) / 8


def mean_bits(shape: ModelShape, kept: WeightFormat) -> float:
    """Bits per parameter of the whole model: what "bpw" means in llama.cpp."""
    return 8 * stored_bytes(shape, kept) / parameters(shape).total


def layer_bits(shape: ModelShape, kept: WeightFormat) -> float:
    """Mean bits per weight without table and head: `bits_per_weight` for theory/traffic.py, with `kept.head` beside."""
    count = parameters(shape)
    return _inner_bits(shape, kept) / (count.matmul - count.head + _idle(shape))


def _inner_bits(shape: ModelShape, kept: WeightFormat) -> float:
    count = parameters(shape)
    matrices = count.matmul - count.head
    tied = isinstance(shape, DecoderShape) and shape.tied_embeddings
    routers = _routers(shape)
    other = count.total - count.embedding - (0 if tied else count.head) - matrices - _idle(shape)
    experts = _experts(shape)
    bits = kept.other * (other + routers)
    bits += kept.matrices * (matrices + _idle(shape) - experts - routers)
    bits += (kept.matrices if kept.experts is None else kept.experts) * experts
    return bits + (0.0 if kept.more is None else (kept.more - kept.matrices) * _lifted(shape) / 2)


def _routers(shape: ModelShape) -> int:
    if not isinstance(shape, DecoderShape) or shape.experts is None:
        return 0
    return shape.expert_layers * shape.hidden * shape.experts.count


def _experts(shape: ModelShape) -> int:
    """Weights of all routed experts."""
    if not isinstance(shape, DecoderShape) or shape.experts is None:
        return 0
    return shape.expert_layers * shape.experts.count * expert_weights(shape)


def routed_bytes(shape: ModelShape, kept: WeightFormat) -> float:
    """Bytes of all routed experts, which groups of data-parallel attention share."""
    return _experts(shape) * (kept.matrices if kept.experts is None else kept.experts) / 8


def _idle(shape: ModelShape) -> int:
    """Weights of experts that a token does not pass, which `matmul` leaves out."""
    if not isinstance(shape, DecoderShape) or shape.experts is None:
        return 0
    return _experts(shape) * (shape.experts.count - shape.experts.per_token) // shape.experts.count


def _lifted(shape: ModelShape) -> int:
    """Weights of value and down projections, of which k-quants give half the layers more bits."""
    if not isinstance(shape, DecoderShape):
        return 0
    values = 0 if shape.mla else shape.hidden * sum(kept_elements(shape)) // 2
    down = (shape.dense_layers + shape.double_mlp_layers) * shape.hidden * shape.intermediate
    return values + down + _experts(shape) // (3 if shape.gated_mlp else 2)


# Widths of what a precision keeps in memory while a decoder runs: weights with their scales, its head, its cache.


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
