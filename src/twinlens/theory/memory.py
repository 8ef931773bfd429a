"""Memory in bytes: what must be resident, counted before anything is allocated, with the arithmetic shown."""

from __future__ import annotations

from dataclasses import dataclass, replace

from twinlens.errors import BadInput, nearest
from twinlens.spec.model.shape import DecoderShape, ModelShape
from twinlens.spec.precision import BITS, Precision
from twinlens.theory.activation import (
    Attention,
    Checkpointing,
    activation_bytes,
    logits_bytes,
)
from twinlens.theory.attention import held_elements, kept_elements, kv_elements, state_bytes
from twinlens.theory.number import Number, amount, rate
from twinlens.theory.parameter import parameters
from twinlens.units import BYTES, digits, show


@dataclass(frozen=True, slots=True)
class TrainingMemory:
    """Bytes at the peak of a training step on one unsharded device; slack and workspaces excluded."""

    weights_bytes: float
    gradients_bytes: float
    master_bytes: float
    optimizer_bytes: float
    activations_bytes: float
    """The layers' activations together with the logits."""
    total_bytes: float
    arithmetic: str
    """The sum in one line, for people."""


@dataclass(frozen=True, slots=True)
class InferenceMemory:
    """Bytes resident while serving; activations of one step and workspaces excluded."""

    weights_bytes: float
    kv_bytes: float
    total_bytes: float
    arithmetic: str


def weights_bytes(shape: ModelShape, bits_per_weight: Number = 16.0, embedding_bits: Number | None = None) -> Number:
    """Bytes of all weights. `bits_per_weight` includes the quantisation scales.

    `embedding_bits` is for the token table and the output head where those are left wider; None means the
    same.
    """
    rate("bits_per_weight", bits_per_weight)
    count = parameters(shape)
    tied = isinstance(shape, DecoderShape) and shape.tied_embeddings
    wide = count.embedding + (0 if tied else count.head)
    wide_bits = bits_per_weight if embedding_bits is None else embedding_bits
    return ((count.total - wide) * bits_per_weight + wide * wide_bits) / 8


def kv_bytes_per_token(shape: DecoderShape, bytes_per_element: Number = 2.0, *, latent: bool = True) -> Number:
    """Cache bytes that one more token adds while no window is full; `latent=False` expands latent attention."""
    return sum(kept_elements(shape, latent)) * rate("bytes_per_element", bytes_per_element)


def kv_bytes(
    shape: DecoderShape,
    tokens_resident: Number,
    bytes_per_element: Number = 2.0,
    *,
    sequences: Number = 1,
    latent: bool = True,
    block: Number = 1,
    image_tokens: Number = 0,
) -> Number:
    """Cache bytes of `sequences` times `tokens_resident` tokens, and the states of recurrent layers.

    A window keeps no more than itself. `block`: tokens per page, of which each layer holds whole ones (arXiv
    2309.06180). `image_tokens` are held by layers of cross-attention.
    """
    many = amount("sequences", sequences)
    held = held_elements(shape, tokens_resident, block, latent)
    if shape.cross_attention_layers:
        seen = amount("image_tokens", image_tokens) * kv_elements(shape, latent)
        held = held + shape.cross_attention_layers * seen
    cached = held * rate("bytes_per_element", bytes_per_element)
    return many * (cached + state_bytes(shape, bytes_per_element))


def training_memory(
    shape: ModelShape,
    layout: Layout,
    microbatch: int,
    seq_len: int | None = None,
    checkpointing: Checkpointing = "none",
    attention: Attention = "fused",
) -> TrainingMemory:
    """Bytes to train `shape` on one device. See `activation_bytes` for the formula and what it leaves out."""
    count = parameters(shape).total
    layers = activation_bytes(shape, microbatch, seq_len, checkpointing, attention, layout.activations)
    logits = logits_bytes(shape, microbatch, seq_len, layout.activations)
    total = count * layout.total + layers + logits
    state = f"{_count(count)} × {layout.total:g} B = {show(count * layout.total, BYTES)}"
    kept = f"activations {show(layers, BYTES)} + logits {show(logits, BYTES)}"
    return TrainingMemory(
        weights_bytes=count * (layout.weights + layout.cast),
        gradients_bytes=count * layout.gradients,
        master_bytes=count * layout.master,
        optimizer_bytes=count * layout.optimizer,
        activations_bytes=layers + logits,
        total_bytes=total,
        arithmetic=f"{state} + {kept} = {show(total, BYTES)}",
    )


def inference_memory(
    shape: ModelShape,
    bits_per_weight: float = 16.0,
    kv_bytes_per_element: float = 2.0,
    batch: int = 1,
    context: int = 0,
) -> InferenceMemory:
    """Bytes to serve `batch` sequences of `context` tokens each; vision models hold weights only."""
    weights = weights_bytes(shape, bits_per_weight)
    text = f"{_count(parameters(shape).total)} × {bits_per_weight / 8:g} B = {show(weights, BYTES)}"
    if not isinstance(shape, DecoderShape):
        return InferenceMemory(weights, 0.0, weights, text)
    cache = kv_bytes(shape, context, kv_bytes_per_element, sequences=batch)
    text += f" + {batch} × {context:,} tokens of KV cache = {show(cache, BYTES)}"
    return InferenceMemory(weights, cache, weights + cache, f"{text}; total {show(weights + cache, BYTES)}")


def _count(number: int) -> str:
    for size, name in ((1e12, "T"), (1e9, "G"), (1e6, "M")):
        if number >= size:
            return f"{digits(number / size, 4)} {name} parameters"
    return f"{number:,} parameters"


# Bytes that training keeps per parameter: weights, gradients, master copy and optimizer state.


@dataclass(frozen=True, slots=True)
class Layout:
    """Bytes per parameter in training with Adam-like state, and per activation element.

    `cast` is the low-precision copy of fp32 weights that autocast keeps until backward has used it.
    """

    weights: float
    gradients: float
    master: float
    optimizer: float
    activations: float = 2.0
    cast: float = 0.0

    @property
    def total(self) -> float:
        """Bytes per parameter, activations aside."""
        return self.weights + self.cast + self.gradients + self.master + self.optimizer


OPTIMIZERS: dict[str, float] = {
    "adamw": 8.0,
    "adamw-bf16": 4.0,
    "adamw-8bit": 2 * (1 + 4 / 256),
    "lion": 4.0,
    "momentum": 4.0,
    "muon": 4.0,
    "sgd": 0.0,
}
"""Bytes of optimizer state per parameter, by name. Two moments, in fp32, bf16, or 8 bits with a scale per 256 (arXiv
2110.02861); one moment for Lion, momentum and Muon."""
LAYOUTS: dict[str, Layout] = {
    "fp32": Layout(4, 4, 0, 8, activations=4),
    "16-bit-autocast": Layout(4, 4, 0, 8, cast=2),
    "16-bit-no-master": Layout(2, 2, 0, 8),
    "16-bit-fp32-master": Layout(2, 2, 4, 8),
    "16-bit-fp32-master-and-gradients": Layout(2, 4, 4, 8),
    "16-bit-pure": Layout(2, 2, 0, 4),
    "16-bit-8-bit-optimizer": Layout(2, 2, 0, OPTIMIZERS["adamw-8bit"]),
}
"""Usual layouts with AdamW, by name: 16, 18, 12, 16, 18, 8 and 6.03 bytes per parameter."""


def layout_of(precision: Precision, optimizer_states: int = 2) -> Layout:
    """The layout of a training precision. `optimizer_states` is 2 for Adam, 1 for momentum, 0 for plain SGD.

    Where master and weights share a format they are one copy; narrower activations then mean a cast copy.
    """
    classes = precision.classes("training")
    size = {name: BITS[form] / 8 for name, form in classes.items()}
    shared = classes["master"] == classes["weights"]
    narrower = size["activations"] < size["weights"]
    # fp8 products keep their inputs for backward as autocast made them, in bf16, and quantise them again.
    kept = max(size["activations"], 2.0)
    return Layout(
        weights=size["weights"],
        gradients=size["gradients"],
        master=0.0 if shared else size["master"],
        optimizer=optimizer_states * size["optimizer"],
        activations=kept,
        cast=size["activations"] if narrower else 0.0,
    )


def with_optimizer(layout: Layout, optimizer: str) -> Layout:
    """The same layout with another optimizer's state. Raises BadInput for one that is not known."""
    if optimizer not in OPTIMIZERS:
        raise BadInput(f"unknown optimizer {optimizer!r}; {nearest(optimizer, OPTIMIZERS)}")
    return replace(layout, optimizer=OPTIMIZERS[optimizer])
