"""Storage and products of a model at a precision: bits of each tensor class, the cache, the format of products."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from twinlens.errors import BadInput, nearest
from twinlens.planning.subject import Subject
from twinlens.spec.model.shape import DecoderShape
from twinlens.theory.weight_format import weight_format

Product = Literal["bf16", "fp16", "fp8", "fp4", "int8", "fp32"]


@dataclass(frozen=True, slots=True)
class Stored:
    """Bits per weight, scales included, and the format that products run in."""

    dense_bits: float
    head_bits: float
    expert_bits: float
    kv_bytes: float
    product: Product
    expert_product: Product


def _held(name: str, product: Product, kv_bytes: float = 2.0) -> Stored:
    kept = weight_format(name)
    experts = kept.matrices if kept.experts is None else kept.experts
    return Stored(kept.matrices, kept.head, experts, kv_bytes, product, product)


STORED: dict[str, Stored] = {
    "bf16": _held("bf16", "bf16"),
    "fp16": _held("fp16", "fp16"),
    "fp32": _held("fp32", "fp32", 4.0),
    "fp8": _held("fp8", "fp8", 1.0),
    "int8": _held("int8", "int8"),
    "nvfp4": _held("nvfp4", "fp4", 1.0),
    "mxfp8": _held("mxfp8", "fp8"),
    "mxfp4": _held("mxfp4", "fp4", 1.0),
    "mxfp4-experts": _held("mxfp4-experts", "bf16"),
    "int4": Stored(4.25, 16.0, 4.25, 2.0, "bf16", "bf16"),  # as the constants were fitted, over all groups of int4
}
"""By precision. Servers that run fp8 and fp4 checkpoints keep the cache in fp8 as a rule."""


_SPOKEN = {"awq-int4-g128": "int4", "gptq-int4-g128": "int4", "fp8-block-128": "fp8"}
_KEPT = {"int4": "awq-int4-g128"}


def spoken(weight_format: str) -> str:
    """A format of weights as predictions call it."""
    return _SPOKEN.get(weight_format, weight_format)


def held_format(word: str, subject: Subject | None = None) -> str:
    """The format of weights (theory/weight_format.py) that a word stands for; one of the subject's own, as its file or
    its maker stores them, where it is of that kind: "fp8" of DeepSeek-V3 is fp8 with a scale per block."""
    own = subject.own_format if subject else None
    if own and (spoken(own) == spoken(word) or own.startswith(f"{word}-")):
        return own
    return _KEPT.get(word, word)


def kept_cache(weight_format: str, engine: str = "vllm") -> tuple[str, float]:
    """The format of the cache and its bytes per element, as an engine keeps it beside such weights unless told else.

    TensorRT-LLM keeps it in fp8 beside fp8; vLLM (`--kv-cache-dtype auto`) and others do only where the checkpoint
    asks for it, as those in fp4 do.
    """
    known = STORED.get(spoken(weight_format))
    size = known.kv_bytes if known else 2.0
    if known and known.product == "fp8" and engine != "trtllm":
        size = 2.0
    return {1.0: "fp8", 2.0: "fp16", 4.0: "fp32"}[size], size


def stored(precision: str, shape: DecoderShape | None = None, kv_bytes: float | None = None) -> Stored:
    """How a precision is stored. Raises BadInput for one that is not known.

    Latent attention stays in 16 bits where the rest is fp4, as NVIDIA's DeepSeek checkpoints keep it.
    """
    name = precision.lower()
    if name.startswith("q") and name[1:2].isdigit():
        bits = weight_format(name)
        more = bits.matrices if bits.more is None else (bits.matrices + bits.more) / 2
        mean = bits.matrices + (more - bits.matrices) * 0.5  # value and down projections: half of all weights
        kept = Stored(mean, bits.head, mean, 2.0, "fp16", "fp16")
    elif name in STORED:
        kept = STORED[name]
    else:
        raise BadInput(f"unknown precision {precision!r}; {nearest(name, STORED)}")
    if shape is not None and shape.mla and kept.product == "fp4":
        kept = replace(kept, dense_bits=16.0, product="bf16")
    return kept if kv_bytes is None else replace(kept, kv_bytes=kv_bytes)
