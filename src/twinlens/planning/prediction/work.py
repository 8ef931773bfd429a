"""Demands of a decoder as plain numbers that stack into arrays: weights, cache, FLOP per token."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import Any, Literal

from twinlens.errors import BadInput, nearest
from twinlens.planning.subject import Subject
from twinlens.spec.model.shape import DecoderShape
from twinlens.theory.attention import flop_per_pair, kept_elements, recurrent_flop_per_token, state_bytes
from twinlens.theory.number import Number
from twinlens.theory.parameter import expert_weights, parameters
from twinlens.theory.weight_format import weight_format


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
        import numpy as np

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
        import numpy as np

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
    import numpy as np

    first = parts[0]
    columns = {f.name: np.array([getattr(part, f.name) for part in parts], dtype=np.float64) for f in fields(first)}
    return type(first)(**columns)


# Storage and products of a model at a precision: bits of each tensor class, the cache, the format of products.

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
