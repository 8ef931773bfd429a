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
from twinlens.spec.model.shape import DecoderShape, ModelShape, VisionShape, VitShape
from twinlens.theory.attention import (
    attention_flop,
    attention_pairs,
    recurrent_flop_per_token,
    seen_flop,
)
from twinlens.theory.number import Number, amount, choose, count
from twinlens.theory.parameter import ParameterCount, convolutions, cross_attention_weights, parameters, vit_tokens

__all__ = [
    "CONVENTIONS",
    "Convention",
    "ParameterCount",
    "attention_pairs",
    "decode_flop",
    "forward_flop",
    "forward_flop_per_image",
    "hardware_flop_per_token",
    "parameters",
    "prefill_flop",
    "training_flop_per_image",
    "training_flop_per_token",
]

Convention = Literal["causal", "palm-full", "6n", "hw-recompute"]
CONVENTIONS: tuple[Convention, ...] = get_args(Convention)
_BACKWARD = 3  # forward once, backward twice: gradients of inputs and of weights


def training_flop_per_token(shape: DecoderShape, seq_len: Number, convention: Convention = "causal") -> Number:
    """FLOP to train on one token of sequences of `seq_len`, forward and backward, by `convention`.

    A sliding window limits the attended tokens in every convention. Raises BadInput on an unknown convention.
    """
    _check(convention)
    length = count("seq_len", seq_len)
    if convention == "6n":
        return 2.0 * _BACKWARD * parameters(shape).active + 0.0 * length
    flop = _BACKWARD * (_linear_per_token(shape) + _attention_per_token(shape, length, convention))
    return flop * 4 / 3 if convention == "hw-recompute" else flop


def hardware_flop_per_token(
    shape: DecoderShape,
    seq_len: Number,
    checkpointing: Literal["none", "selective", "full"] = "none",
    convention: Convention = "causal",
) -> Number:
    """FLOP that run for one trained token when activations are recomputed (Korthikanti et al., arXiv 2205.05198).

    "full" runs the forward pass twice, "selective" only the products inside attention. `convention` counts attention.
    """
    if convention not in ("causal", "palm-full"):
        raise BadInput(f"recomputation is counted by causal or palm-full, not {convention!r}")
    linear, inside = _linear_per_token(shape), _attention_per_token(shape, count("seq_len", seq_len), convention)
    again = {"none": 0.0, "selective": inside, "full": linear + inside}
    if checkpointing not in again:
        raise BadInput(f"unknown checkpointing {checkpointing!r}; {nearest(checkpointing, again)}")
    return _BACKWARD * (linear + inside) + again[checkpointing]


def _linear_per_token(shape: DecoderShape) -> float:
    """Forward FLOP per token of weights and recurrent states, without an image."""
    return 2.0 * (parameters(shape).matmul - cross_attention_weights(shape)) + recurrent_flop_per_token(shape)


def _attention_per_token(shape: DecoderShape, seq_len: Number, convention: Convention) -> Number:
    """Forward FLOP per token inside attention: 4·H·d times the tokens seen in all layers."""
    return seen_flop(shape, seq_len, causal=convention == "causal")


def forward_flop(
    shape: DecoderShape,
    new_tokens: Number,
    context: Number = 0,
    convention: Convention = "causal",
    *,
    logits: Literal["all", "last"] = "all",
    image_tokens: Number = 0,
) -> Number:
    """FLOP of one forward pass over `new_tokens` of one sequence that has `context` tokens in its cache.

    `causal` counts attended pairs exactly; `palm-full` and `hw-recompute` (a forward pass recomputes
    nothing) let every new token attend to all; `6n` is 2·N_all per token. `logits` says for which tokens
    the output head runs. With latent attention, a pass over a cache uses the absorbed form, which works
    inside the latent. Layers of cross-attention run where there are `image_tokens`, whose keys and values are cached.
    """
    _check(convention)
    new, behind, seen = (
        count("new_tokens", new_tokens),
        amount("context", context),
        amount("image_tokens", image_tokens),
    )
    counted = parameters(shape)
    if convention == "6n":
        return 2.0 * counted.active * new
    idle = choose(seen > 0, 0, cross_attention_weights(shape))
    heads_run = new if logits == "all" else 1
    linear = 2.0 * ((counted.matmul - counted.head - idle) * new + counted.head * heads_run)
    linear = linear + recurrent_flop_per_token(shape) * new
    return linear + attention_flop(shape, new, behind, causal=convention == "causal", image_tokens=seen)


def prefill_flop(shape: DecoderShape, tokens: Number) -> Number:
    """FLOP to read a prompt of `tokens`: exact causal attention, logits for the last token only."""
    return forward_flop(shape, tokens, 0, "causal", logits="last")


def decode_flop(shape: DecoderShape, context: Number) -> Number:
    """FLOP of one decode step of one sequence with `context` tokens in its cache."""
    return forward_flop(shape, 1, context, "causal")


def forward_flop_per_image(shape: VisionShape, image_size: int | None = None) -> float:
    """FLOP of one image's forward pass, at `image_size` pixels a side or the shape's own."""
    side = shape.image_size if image_size is None else image_size
    count("image_size", side)
    if isinstance(shape, VitShape):
        return _vit_flop(shape, side)
    return 2.0 * (sum(layer.macs for layer in convolutions(shape, side)) + shape.hidden_sizes[-1] * shape.labels)


def training_flop_per_image(shape: VisionShape, image_size: int | None = None) -> float:
    """Three times the forward pass, less the first layer's input gradient: nobody needs one of the pixels."""
    side = shape.image_size if image_size is None else image_size
    return _BACKWARD * forward_flop_per_image(shape, side) - _first_layer_flop(shape, side)


def optimizer_flop(shape: ModelShape) -> float:
    """Elementwise FLOP of one AdamW step: 14 for each parameter.

    Weight decay 1, both moments 3 and 4, root, bias correction and epsilon 3, update 3 (Loshchilov and Hutter, 2019,
    arXiv 1711.05101, algorithm 2, with bias corrections that are scalars).
    """
    return 14.0 * parameters(shape).total


def _first_layer_flop(shape: VisionShape, side: int) -> float:
    if isinstance(shape, VitShape):
        return 2.0 * (vit_tokens(shape, side) - 1) * shape.channels * shape.patch_size**2 * shape.hidden
    return 2.0 * convolutions(shape, side)[0].macs


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
