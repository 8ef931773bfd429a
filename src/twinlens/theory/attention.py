"""Tokens that attention sees and keeps, by kind of layer: full, window, chunk, cross-attention, recurrent state.

Numbers of tokens are scalars or arrays (theory/number.py). H heads, d head width.
"""

from __future__ import annotations

from twinlens.spec.model.shape import DecoderShape
from twinlens.theory.number import Number, amount, choose, count, larger, rounded_up, smaller


def attention_pairs(
    shape: DecoderShape, new_tokens: Number, context: Number, *, causal: bool = True, image_tokens: Number = 0
) -> Number:
    """Query-key pairs over all layers for one sequence: windows and chunks respected, recurrent layers without any."""
    new, behind = count("new_tokens", new_tokens), amount("context", context)
    pairs = shape.full_layers * _full(new, behind, causal)
    if shape.windowed_layers:
        pairs = pairs + shape.windowed_layers * _windowed(shape, new, behind, causal)
    if shape.cross_attention_layers:
        pairs = pairs + shape.cross_attention_layers * new * amount("image_tokens", image_tokens)
    return pairs


def _full(new: Number, context: Number, causal: bool) -> Number:
    return new * context + new * (new + 1) / 2 if causal else new * (context + new)


def _windowed(shape: DecoderShape, new: Number, context: Number, causal: bool) -> Number:
    window = shape.sliding_window or 1
    if not causal:
        return new * smaller(context + new, window)
    if shape.window_kind == "chunked":
        return _in_chunks(context + new, window) - _in_chunks(context, window)
    growing = smaller(larger(window - context, 0), new)  # tokens before the window is full
    return growing * context + growing * (growing + 1) / 2 + (new - growing) * window


def _in_chunks(tokens: Number, chunk: int) -> Number:
    """Pairs of the first `tokens` tokens when each sees its chunk up to itself."""
    whole, rest = tokens // chunk, tokens % chunk
    return whole * chunk * (chunk + 1) / 2 + rest * (rest + 1) / 2


def _mean_full(seq_len: Number, causal: bool) -> Number:
    """Tokens seen per token of a sequence in a full layer. The conventions say S/2, not (S + 1)/2."""
    length = count("seq_len", seq_len)
    return length / 2 if causal else 1.0 * length


def _mean_windowed(shape: DecoderShape, seq_len: Number, causal: bool) -> Number:
    length = count("seq_len", seq_len)
    width = smaller(shape.sliding_window, length)
    if not causal:
        return width
    if shape.window_kind == "chunked":
        whole, rest = length // width, length % width
        return (whole * width * width + rest * rest) / (2 * length)
    return width - width * width / (2 * length)


def flop_per_pair(shape: DecoderShape, *, absorbed: bool) -> float:
    """FLOP of one query-key pair in one layer: the score and the weighted value of every head, 4·H·d.

    `absorbed`: latent attention that works inside the latent (arXiv 2405.04434, section 2.1.2). An indexer scores every
    pair, too; pairs that it does not choose are counted, too: an upper bound for long contexts.
    """
    index = 2.0 * shape.mla.index_heads * shape.mla.index_dim if shape.mla else 0.0
    if shape.mla and absorbed:
        return index + 2.0 * shape.heads * (2 * shape.mla.kv_lora_rank + shape.mla.qk_rope_head_dim)
    return index + 2.0 * shape.heads * (shape.head_dim + shape.value_head_dim)


def seen_flop(shape: DecoderShape, seq_len: Number, *, causal: bool) -> Number:
    """Forward FLOP per token of a sequence inside attention, over all layers, latent attention expanded."""
    full = flop_per_pair(shape.full_view, absorbed=False) * shape.full_layers * _mean_full(seq_len, causal)
    if not shape.windowed_layers:
        return full
    return full + flop_per_pair(shape, absorbed=False) * shape.windowed_layers * _mean_windowed(shape, seq_len, causal)


def attention_flop(
    shape: DecoderShape, new_tokens: Number, context: Number, *, causal: bool = True, image_tokens: Number = 0
) -> Number:
    """FLOP inside attention for one sequence. Latent attention over a cache takes the absorbed form."""
    pairs = attention_pairs(shape, new_tokens, context, causal=causal, image_tokens=image_tokens)
    flop = choose(context > 0, flop_per_pair(shape, absorbed=True), flop_per_pair(shape, absorbed=False)) * pairs
    if shape.global_attention is None:
        return flop
    wider = flop_per_pair(shape.full_view, absorbed=False) - flop_per_pair(shape, absorbed=False)
    return flop + wider * shape.full_layers * _full(new_tokens, context, causal)


def recurrent_flop_per_token(shape: DecoderShape) -> float:
    """FLOP per token of all recurrent states, in the recurrent form; projections and convolutions are weights.

    Mamba writes the state and reads it: 4 FLOP per element (arXiv 2405.21060). A gated delta net first reads what the
    key already holds: 6 (arXiv 2412.06464). The chunked form that prefill uses does more, by its chunk.
    """
    if shape.recurrent is None:
        return 0.0
    per_element = 6.0 if shape.recurrent.kind == "gated-delta" else 4.0
    return per_element * shape.recurrent.layers * shape.recurrent.state_elements


def kv_elements(shape: DecoderShape, latent: bool = True) -> int:
    """Cached elements per token and attention layer: keys and values of all KV heads, or the shared latent; with an
    indexer, its keys beside them."""
    if shape.mla and latent:
        return shape.mla.kv_lora_rank + shape.mla.qk_rope_head_dim + shape.mla.index_dim
    return shape.kv_heads * (shape.head_dim + shape.value_head_dim)


def kept_elements(shape: DecoderShape, latent: bool = True) -> tuple[int, int]:
    """Cached elements of one token in all full and in all windowed layers; shared keys and values count once."""
    full, windowed = shape.full_layers - shape.shared_kv_full, shape.windowed_layers - shape.shared_kv_windowed
    return full * kv_elements(shape.full_view, latent), windowed * kv_elements(shape, latent)


def held_elements(shape: DecoderShape, tokens: Number, block: Number = 1, latent: bool = True) -> Number:
    """Elements in the cache of one sequence; each layer rounds its tokens up to blocks of `block`."""
    resident, block = amount("resident tokens", tokens), count("block", block)
    full, windowed = kept_elements(shape, latent)
    held = full * rounded_up(resident, block)
    if shape.windowed_layers:
        held = held + windowed * rounded_up(smaller(resident, shape.sliding_window), block)
    return held


def state_bytes(shape: DecoderShape, bytes_per_element: Number = 2.0, state_bytes_per_element: Number = 4.0) -> Number:
    """Bytes per sequence of recurrent layers: the state, kept in fp32 as a rule, and the window of the convolution."""
    mixer = shape.recurrent
    if mixer is None:
        return 0.0
    window = mixer.convolved * (mixer.convolution - 1)
    return mixer.layers * (mixer.state_elements * state_bytes_per_element + window * bytes_per_element)
