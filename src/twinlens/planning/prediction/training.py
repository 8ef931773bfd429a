"""Seconds of a training step: products, memory-bound work, exposed communication, bubble, optimizer."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from twinlens.planning.prediction.constant import Values
from twinlens.planning.prediction.place import Rates
from twinlens.planning.prediction.work import Work
from twinlens.theory.number import Number

_EXCHANGED = 6.0
"""Bytes a parameter that copies exchange in a step: gradients scattered in fp32, weights gathered in 16 bits."""
_GATHERED = 6.0
"""Bytes a parameter of FSDP and microbatch, in 16 bits: weights for forward, for backward, and gradients scattered."""
_UPDATED = 28.0
"""Bytes a parameter that Adam moves in fp32: reads gradient, master and two moments, writes the last three."""


@dataclass(frozen=True, slots=True)
class TrainingLayout:
    """How a step is divided. Devices: tensor · pipeline · context · data; experts divide devices of all but a stage."""

    devices: Number
    tensor: Number = 1
    pipeline: Number = 1
    virtual: Number = 1
    """Parts of the model on each stage of the pipeline."""
    context: Number = 1
    expert: Number = 1
    gathered: Number = 0
    """1: weights are divided too and gathered for every pass (FSDP, ZeRO 3)."""
    recompute: Number = 0
    """Share of the forward pass that is run again in backward."""
    frozen: Number = 0
    """1: weights stay as they are and adapters are trained (LoRA)."""

    @property
    def data(self) -> Number:
        """Copies of the model."""
        return np.maximum(self.devices / (self.tensor * self.pipeline * self.context), 1.0)


@dataclass(frozen=True, slots=True)
class TrainingParts:
    """Seconds of one step by cause; they add up to `total_s`."""

    products_s: Number
    attention_s: Number
    elementwise_s: Number
    tensor_s: Number
    expert_s: Number
    overhead_s: Number
    bubble_s: Number
    data_s: Number
    optimizer_s: Number

    @property
    def total_s(self) -> Number:
        inside = self.products_s + self.attention_s + self.elementwise_s + self.tensor_s + self.expert_s
        return inside + self.overhead_s + self.bubble_s + self.data_s + self.optimizer_s


@dataclass(frozen=True, slots=True)
class _Step:
    """One step as it is divided: arguments of `training_step`, and what follows from them."""

    work: Work
    rates: Rates
    layout: TrainingLayout
    fitted: Values
    sequences: Number
    microbatch: Number
    length: Number

    @property
    def many(self) -> Number:
        """Microbatches of a copy."""
        return np.maximum(self.sequences / (self.layout.data * self.microbatch), 1.0)

    @property
    def tokens(self) -> Number:
        """Tokens of a microbatch on a device."""
        return self.microbatch * self.length / self.layout.context

    @property
    def share(self) -> Number:
        """Devices among which a copy's layers and their products are divided."""
        return self.layout.tensor * self.layout.pipeline

    @property
    def passes(self) -> Number:
        """Work over that of a forward pass: backward is twice forward, once with frozen weights."""
        return 3.0 - self.layout.frozen + self.layout.recompute

    def between(self, devices: Number) -> Number:
        """Bytes/s of the link among so many devices: that of a domain, or the network where they are more."""
        return np.where(devices > self.rates.domain, self.rates.net_bytes_per_s, self.rates.link_bytes_per_s)


def training_step(
    work: Work,
    rates: Rates,
    layout: TrainingLayout,
    fitted: Values,
    sequences: Number,
    microbatch: Number,
    length: Number,
) -> TrainingParts:
    """One optimizer step over `sequences` of `length` tokens, `microbatch` of them at a time on each copy.

    Backward is twice forward (once with frozen weights), and recompute adds its share of forward. A pipeline of p
    stages with v parts each idles (p − 1) / (m · v) of the time of m microbatches (arXiv 2104.04473).
    """
    step = _Step(work, rates, layout, fitted, sequences, microbatch, length)
    products, attention, elementwise = _products_s(step), _attention_s(step), _elementwise_s(step)
    tensor, expert = _tensor_s(step), _expert_s(step)
    overhead = step.passes * fitted.launch_s * (work.layers + 2.0 * work.expert_layers) / layout.pipeline
    inside = products + attention + elementwise + tensor + expert + overhead
    bubble = inside * (layout.pipeline - 1.0) / layout.virtual
    data, optimizer = _once_s(step)
    many = step.many
    return TrainingParts(
        many * products, many * attention, many * elementwise, many * tensor, many * expert, many * overhead,
        bubble, data, optimizer,
    )  # fmt: skip


def _products_s(step: _Step) -> Number:
    """Products with weights of one microbatch, dense ones and those of routed experts; short ones run slower."""
    work, layout, fitted = step.work, step.layout, step.fitted
    dense = 2.0 * (work.dense_weights + work.head_weights) * step.tokens / step.share
    routed = 2.0 * work.expert_weights * work.chosen / work.experts * step.tokens / step.share
    small = step.tokens / layout.tensor
    rise = small / (small + fitted.half_tokens)
    each = step.tokens * work.chosen / work.experts * layout.expert / np.maximum(layout.tensor, 1.0)
    rise_experts = each / (each + fitted.half_expert_tokens)
    of_experts = routed / (step.rates.expert_flop_per_s * fitted.eta_train_experts * np.maximum(rise_experts, 1e-9))
    of_dense = dense / (step.rates.flop_per_s * fitted.eta_train * rise)
    return step.passes * (of_dense + np.where(routed > 0, of_experts, 0.0))


def _attention_s(step: _Step) -> Number:
    """Scores and values of one microbatch in 16 bits; backward is twice forward even where weights are frozen."""
    pairs = step.work.prefill_pair_full * step.length / 2.0
    pairs = pairs + step.work.prefill_pair_window * step.work.window_pairs(step.length) / step.length
    flop = (3.0 + step.layout.recompute) * step.tokens * (pairs + step.work.recurrent_flop) / step.share
    return flop / (step.rates.wide_flop_per_s * step.fitted.eta_train_attention)


def _elementwise_s(step: _Step) -> Number:
    """Norms, activations and residuals of one microbatch: bytes moved, `touches` times the width of the model."""
    work = step.work
    wide = work.hidden * work.layers + work.chosen * work.hidden * work.expert_layers
    return step.passes * step.tokens * wide / step.share * 2.0 * step.fitted.touches / step.rates.bytes_per_s


def _tensor_s(step: _Step) -> Number:
    """Exposed all-reduces of a tensor group for one microbatch, a ring: 2 (t − 1) / t of the bytes."""
    tensor = step.layout.tensor
    moved = step.tokens * step.work.hidden * 2.0 * step.work.layers / step.layout.pipeline
    each = (step.passes + 1.0) * 2.0 * (tensor - 1.0) / tensor * moved / step.between(tensor)
    return np.where(tensor > 1, each * step.fitted.exposed_tensor, 0.0)


def _expert_s(step: _Step) -> Number:
    """Exposed all-to-alls of one microbatch: tokens sent to their experts and back."""
    work, layout = step.work, step.layout
    sent = step.tokens * _copies(work, step.rates, layout) * work.hidden * 2.0
    sent = sent * work.expert_layers / layout.pipeline / layout.tensor
    each = (step.passes - 1.0) * 2.0 * (layout.expert - 1.0) / layout.expert * sent
    each = each / step.between(layout.expert * layout.tensor)
    return np.where(layout.expert > 1, each * step.fitted.exposed_expert, 0.0)


def _once_s(step: _Step) -> tuple[Number, Number]:
    """Exposed exchange of gradients (and of gathered weights for every microbatch), and the optimizer, of a step."""
    work, layout, fitted = step.work, step.layout, step.fitted
    held = (work.dense_weights + 2.0 * work.head_weights) / step.share + work.expert_weights / (
        layout.pipeline * np.maximum(layout.expert, layout.tensor)
    )
    across, trained = step.between(layout.devices), held * (1.0 - layout.frozen)
    copies = layout.data * layout.context
    ring = (copies - 1.0) / np.maximum(copies, 1.0)
    once = np.where(copies > 1, _EXCHANGED * trained * ring / across * fitted.exposed_data, 0.0)
    every = np.where(layout.gathered > 0, step.many * _GATHERED * held * ring / across * fitted.exposed_gather, 0.0)
    optimizer = _UPDATED * trained / np.maximum(copies, 1.0) / step.rates.bytes_per_s
    return once + every, optimizer + fitted.train_step_s


def _copies(work: Work, rates: Rates, layout: TrainingLayout) -> Number:
    """Copies of a token that its experts need: one per expert in a domain, else one per domain that holds any.

    Dispatchers send a token once to each node, and pass it on over the fast link there (DeepEP; arXiv 2412.19437, 3.2).
    """
    domains = np.maximum(layout.expert * layout.tensor / rates.domain, 1.0)
    reached = domains * (1.0 - (1.0 - 1.0 / domains) ** work.chosen)
    return np.where(domains > 1, reached, work.chosen)
