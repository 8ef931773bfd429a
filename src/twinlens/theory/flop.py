"""FLOP of training and inference, by a named convention: one run has four MFUs, so a figure names its own.

One multiply-accumulate is two FLOP. Products with weights and inside attention count; norms, activations,
softmax and look-ups do not. N is `parameters(shape).matmul`, L layers, H heads, d head width, S tokens per
sequence.

- `causal`       6·N + 6·L·H·d·S: attention only over tokens that are seen (Megatron, MaxText)
- `palm-full`    6·N + 12·L·H·d·S: attention over the whole square (PaLM, arXiv 2204.02311, appendix B)
- `6n`           6·N_all: active parameters with the embedding, no attention (Kaplan et al., arXiv 2001.08361)
- `hw-recompute` 4/3 of `palm-full`: what runs when the whole forward pass is recomputed in backward
"""

from __future__ import annotations

from typing import Literal, get_args

from twinlens.errors import BadInput, nearest
from twinlens.spec.model.shape import DecoderShape, VisionShape, VitShape
from twinlens.theory.convolution import convolutions
from twinlens.theory.parameter import ParameterCount, parameters, vit_tokens

__all__ = [
    "CONVENTIONS",
    "Convention",
    "ParameterCount",
    "attention_pairs",
    "decode_flop",
    "forward_flop",
    "forward_flop_per_image",
    "parameters",
    "prefill_flop",
    "training_flop_per_image",
    "training_flop_per_token",
]

Convention = Literal["causal", "palm-full", "6n", "hw-recompute"]
CONVENTIONS: tuple[Convention, ...] = get_args(Convention)
_BACKWARD = 3  # forward once, backward twice: gradients of inputs and of weights


def training_flop_per_token(shape: DecoderShape, seq_len: int, convention: Convention = "causal") -> float:
    """FLOP to train on one token of sequences of `seq_len`, forward and backward, by `convention`.

    A sliding window limits the attended tokens in every convention. Raises BadInput on an unknown convention.
    """
    _check(convention)
    _positive(seq_len=seq_len)
    count = parameters(shape)
    if convention == "6n":
        return 2.0 * _BACKWARD * count.active
    attended = _mean_seen(shape, seq_len, causal=convention == "causal")
    flop = _BACKWARD * (2.0 * count.matmul + _flop_per_pair(shape, absorbed=False) * attended)
    return flop * 4 / 3 if convention == "hw-recompute" else flop


def forward_flop(
    shape: DecoderShape,
    new_tokens: int,
    context: int = 0,
    convention: Convention = "causal",
    *,
    logits: Literal["all", "last"] = "all",
) -> float:
    """FLOP of one forward pass over `new_tokens` of one sequence that has `context` tokens in its cache.

    `causal` counts attended pairs exactly; `palm-full` and `hw-recompute` (a forward pass recomputes
    nothing) let every new token attend to all; `6n` is 2·N_all per token. `logits` says for which tokens
    the output head runs. With latent attention, a pass over a cache uses the absorbed form, which works
    inside the latent.
    """
    _check(convention)
    _positive(new_tokens=new_tokens)
    _not_negative(context=context)
    count = parameters(shape)
    if convention == "6n":
        return 2.0 * count.active * new_tokens
    heads_run = new_tokens if logits == "all" else 1
    linear = 2.0 * ((count.matmul - count.head) * new_tokens + count.head * heads_run)
    pairs = attention_pairs(shape, new_tokens, context, causal=convention == "causal")
    return linear + _flop_per_pair(shape, absorbed=context > 0) * pairs


def prefill_flop(shape: DecoderShape, tokens: int) -> float:
    """FLOP to read a prompt of `tokens`: exact causal attention, logits for the last token only."""
    return forward_flop(shape, tokens, 0, "causal", logits="last")


def decode_flop(shape: DecoderShape, context: int) -> float:
    """FLOP of one decode step of one sequence with `context` tokens in its cache."""
    return forward_flop(shape, 1, context, "causal")


def forward_flop_per_image(shape: VisionShape, image_size: int | None = None) -> float:
    """FLOP of one image's forward pass, at `image_size` pixels a side or the shape's own."""
    side = shape.image_size if image_size is None else image_size
    _positive(image_size=side)
    if isinstance(shape, VitShape):
        return _vit_flop(shape, side)
    return 2.0 * (sum(layer.macs for layer in convolutions(shape, side)) + shape.hidden_sizes[-1] * shape.labels)


def training_flop_per_image(shape: VisionShape, image_size: int | None = None) -> float:
    """Three times the forward pass, less the first layer's input gradient: nobody needs one of the pixels."""
    side = shape.image_size if image_size is None else image_size
    return _BACKWARD * forward_flop_per_image(shape, side) - _first_layer_flop(shape, side)


def _first_layer_flop(shape: VisionShape, side: int) -> float:
    if isinstance(shape, VitShape):
        return 2.0 * (vit_tokens(shape, side) - 1) * shape.channels * shape.patch_size**2 * shape.hidden
    return 2.0 * convolutions(shape, side)[0].macs


def attention_pairs(shape: DecoderShape, new_tokens: int, context: int, *, causal: bool = True) -> float:
    """Query-key pairs over all layers for one sequence, sliding windows respected."""
    full = shape.layers if shape.sliding_window is None else min(shape.full_attention_layers, shape.layers)
    pairs = full * _pairs(new_tokens, context, None, causal)
    return float(pairs + (shape.layers - full) * _pairs(new_tokens, context, shape.sliding_window, causal))


def _pairs(new: int, context: int, window: int | None, causal: bool) -> int:
    last = context + new
    if not causal:
        return new * (last if window is None else min(last, window))
    if window is None or last <= window:
        return new * context + new * (new + 1) // 2
    growing = max(0, window - context)  # tokens that still see fewer than a window
    return growing * context + growing * (growing + 1) // 2 + (new - growing) * window


def _mean_seen(shape: DecoderShape, seq_len: int, *, causal: bool) -> float:
    """Tokens seen per token, summed over layers. The conventions say S/2, not (S + 1)/2."""

    def one(window: int | None) -> float:
        width = seq_len if window is None else min(window, seq_len)
        return width - width * width / (2 * seq_len) if causal else float(width)

    full = shape.layers if shape.sliding_window is None else min(shape.full_attention_layers, shape.layers)
    return full * one(None) + (shape.layers - full) * one(shape.sliding_window)


def _flop_per_pair(shape: DecoderShape, *, absorbed: bool) -> float:
    """FLOP of one query-key pair in one layer: the score and the weighted value of every head."""
    if shape.mla and absorbed:
        return 2.0 * shape.heads * (2 * shape.mla.kv_lora_rank + shape.mla.qk_rope_head_dim)
    return 2.0 * shape.heads * (shape.head_dim + shape.value_head_dim)


def _vit_flop(shape: VitShape, image_size: int) -> float:
    if image_size % shape.patch_size:
        raise BadInput(f"an image of {image_size} pixels does not divide into patches of {shape.patch_size}")
    tokens, hidden = vit_tokens(shape, image_size), shape.hidden
    patches = (tokens - 1) * shape.channels * shape.patch_size**2 * hidden
    linear = tokens * (4 * hidden * hidden + 2 * hidden * shape.intermediate)
    return 2.0 * (patches + shape.layers * (linear + 2 * tokens * tokens * hidden) + hidden * shape.labels)


def _check(convention: str) -> None:
    if convention not in CONVENTIONS:
        raise BadInput(f"unknown FLOP convention {convention!r}; {nearest(convention, CONVENTIONS)}")


def _positive(**numbers: int) -> None:
    for name, number in numbers.items():
        if number < 1:
            raise BadInput(f"{name} must be at least 1, not {number}")


def _not_negative(**numbers: int) -> None:
    for name, number in numbers.items():
        if number < 0:
            raise BadInput(f"{name} cannot be negative, as {number} is")
