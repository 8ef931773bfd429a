"""Seconds of one decode step and of one prefill: roofs with fitted shares of the peak, overheads, collectives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice

import numpy as np

from twinlens.planning.prediction.constant import Values
from twinlens.planning.prediction.place import Layout, Rates
from twinlens.planning.prediction.work import Work
from twinlens.theory.number import Number

_SHARP = 4.0
"""Exponent of the smooth maximum of two roofs: what overlaps badly where the two are close."""
_MANY = 64
"""Rows from which on it pays to look whether all are 0."""


@dataclass(frozen=True, slots=True)
class Parts:
    """Seconds of one pass by cause; they add up to `total_s`."""

    weights_s: Number
    """Products with weights: the later of memory and matrix units."""
    experts_s: Number
    attention_s: Number
    collectives_s: Number
    overhead_s: Number

    @property
    def total_s(self) -> Number:
        return self.weights_s + self.experts_s + self.attention_s + self.collectives_s + self.overhead_s


def decode_step(work: Work, rates: Rates, layout: Layout, fitted: Values, batch: Number, context: Number) -> Parts:
    """One token for each of `batch` sequences with `context` tokens in the cache, over the whole layout.

    With a pipeline each stage works on its part of the batch in turn, so a token takes as long as the whole model on
    one stage's devices.
    """
    batch = np.maximum(batch, 1.0)
    tokens = np.maximum(batch / layout.pipeline, 1.0)
    each = np.maximum(tokens / layout.data, 1.0)
    dense, expert = _weight_reads(work, rates, layout, fitted, tokens)
    products, expert_products = _decode_products(work, rates, layout, fitted, tokens, each)
    weights, experts = _roof(dense, products), _roof(expert, expert_products)
    share = work.kv_share(layout.tensor)
    pairs = work.decode_pair_full * context + work.decode_pair_window * work.seen(context)
    attention = _roof(
        each * work.kv_sequence_bytes(context) * share / (rates.bytes_per_s * fitted.eta_cache),
        each * (pairs + work.recurrent_flop) / layout.tensor / (rates.wide_flop_per_s * fitted.eta_decode),
    )
    overhead = fitted.step_s + fitted.layer_s * (work.layers + work.expert_layers) + fitted.sequence_s * each
    return Parts(weights, experts, attention, _collectives(work, rates, layout, fitted, each), overhead)


def prefill(work: Work, rates: Rates, layout: Layout, fitted: Values, tokens: Number, length: Number) -> Parts:
    """A pass over `tokens` prompt tokens of prompts of `length`, by one attention group of the layout."""
    tokens = np.maximum(tokens, 1.0)
    prompts = tokens / length
    dense, expert = _weight_reads(work, rates, layout, fitted, tokens)
    products, expert_products = _prefill_products(work, rates, layout, fitted, tokens, prompts)
    weights, experts = _roof(dense, products), _roof(expert, expert_products)
    flop = work.prefill_pair_full * length * length / 2.0 + work.prefill_pair_window * work.window_pairs(length)
    flop = prompts * (flop + work.recurrent_flop * length)
    attention = flop / layout.tensor / (rates.wide_flop_per_s * fitted.eta_attention)
    overhead = fitted.step_s + fitted.layer_s * (work.layers + work.expert_layers) + fitted.token_s * tokens
    return Parts(weights, experts, attention, _collectives(work, rates, layout, fitted, tokens), overhead)


def sharing(work: Work, rates: Rates, layout: Layout, fitted: Values, prompt: Number) -> Callable[[Number], Number]:
    """Seconds that a step of so many sequences and the pass of one prompt save when they run as one step.

    The weights are read once for both, which saves nothing where the products take longer than that; and the step's
    own overhead is paid once. What is of the prompt alone is computed once.
    """
    reads = _weight_reads(work, rates, layout, fitted, prompt)
    products = _prefill_products(work, rates, layout, fitted, prompt, 1.0)
    passes = [_roof(own, product) for own, product in zip(reads, products, strict=True)]
    overhead = fitted.step_s + fitted.layer_s * (work.layers + work.expert_layers)
    kinds = 1 if _has_none(work) else 2

    def saved_s(batch: Number) -> Number:
        tokens = np.maximum(batch / layout.pipeline, 1.0)
        each = np.maximum(tokens / layout.data, 1.0)
        apart = zip(
            _weight_reads(work, rates, layout, fitted, tokens),
            _weight_reads(work, rates, layout, fitted, tokens + prompt),
            _decode_products(work, rates, layout, fitted, tokens, each),
            products,
            passes,
            strict=True,
        )
        saved = [_roof(step, a) + own - _roof(joint, a + b) for step, joint, a, b, own in islice(apart, kinds)]
        return np.maximum(sum(saved), 0.0) + overhead

    return saved_s


def _weight_reads(work: Work, rates: Rates, layout: Layout, fitted: Values, tokens: Number) -> tuple[Number, Number]:
    """Seconds to read the dense weights, and the experts that so many tokens touch."""
    dense = (work.dense_bytes + work.head_bytes) / layout.tensor / (rates.bytes_per_s * fitted.eta_weights)
    if _has_none(work):
        return dense, 0.0 * tokens
    experts = work.expert_bytes * work.touched(tokens) / (layout.tensor * layout.data) * _fullest(work, layout)
    return dense, experts / (rates.bytes_per_s * fitted.eta_experts)


def _decode_products(
    work: Work, rates: Rates, layout: Layout, fitted: Values, tokens: Number, each: Number
) -> tuple[Number, Number]:
    """Seconds of a decode step's products with dense weights (`each` tokens a group) and with experts (all tokens)."""
    own = work.dense_weights + work.head_weights
    dense = 2.0 * own * each / layout.tensor / (rates.flop_per_s * fitted.eta_decode)
    if _has_none(work):
        return dense, 0.0 * tokens
    chosen = work.expert_weights * work.chosen / work.experts
    experts = 2.0 * chosen * tokens / (layout.tensor * layout.data) * _fullest(work, layout)
    return dense, experts / (rates.expert_flop_per_s * fitted.eta_decode)


def _has_none(work: Work) -> bool:
    """Whether it is one model, and without experts: most questions, and half of the arithmetic."""
    return isinstance(work.expert_weights, int | float) and not work.expert_weights


def _fullest(work: Work, layout: Layout) -> Number:
    """Experts of the device that has most of them over the mean: all wait for it."""
    return np.ceil(work.experts / layout.expert) * layout.expert / work.experts


def _prefill_products(
    work: Work, rates: Rates, layout: Layout, fitted: Values, tokens: Number, prompts: Number
) -> tuple[Number, Number]:
    """Seconds of a prefill's products with dense weights and with experts, by one attention group of the layout."""
    own = work.dense_weights * tokens + work.head_weights * prompts
    dense = 2.0 * own / layout.tensor / (rates.flop_per_s * fitted.eta_prefill)
    chosen = work.expert_weights * work.chosen / work.experts
    experts = 2.0 * chosen * tokens / layout.tensor * _fullest(work, layout)
    return dense, experts / (rates.expert_flop_per_s * fitted.eta_prefill_experts)


def _collectives(work: Work, rates: Rates, layout: Layout, fitted: Values, tokens: Number) -> Number:
    """Two all-reduces per layer in a tensor group; with experts over groups, two all-to-alls per layer of experts."""
    if isinstance(layout.devices, int | float) and layout.devices == 1:
        return 0.0 * tokens
    ranks = layout.tensor
    link = np.where(ranks > rates.domain, rates.net_bytes_per_s, rates.link_bytes_per_s)
    moved = tokens * work.hidden * 2.0
    reduced = 2.0 * (ranks - 1.0) / ranks * moved / (link * fitted.eta_link) + fitted.hop_s * np.log2(ranks)
    reduces = np.where(ranks > 1, 2.0 * work.layers * reduced, 0.0)
    wide = layout.data
    fabric = np.where(layout.devices > rates.domain, rates.net_bytes_per_s, rates.link_bytes_per_s)
    sent = (wide - 1.0) / np.maximum(wide, 1.0) * moved * work.chosen / (fabric * fitted.eta_link)
    exchanged = np.where(
        wide > 1, 2.0 * work.expert_layers * (sent + fitted.hop_s * np.log2(np.maximum(wide, 1.0))), 0.0
    )
    stages = np.where(
        layout.pipeline > 1, (layout.pipeline - 1.0) * (fitted.hop_s + moved / (link * fitted.eta_link)), 0.0
    )
    return reduces + exchanged + stages


def _roof(one: Number, other: Number) -> Number:
    """The smooth maximum of two times."""
    if isinstance(one, float) and isinstance(other, float) and not (one or other):
        return one + other
    if isinstance(one, np.ndarray) and one.size > _MANY and not (one.any() or np.any(other)):
        return one + other  # no experts: most models, and powers take most of a choice's time
    high, low = np.maximum(one, other), np.minimum(one, other)
    top = np.maximum(high, 1e-15)
    return top * ((high >= 1e-15) + (low / top) ** _SHARP) ** (1.0 / _SHARP)
