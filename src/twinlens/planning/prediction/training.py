"""Seconds of a training step: products, memory-bound work, exposed communication, bubble, optimizer."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from twinlens.planning.prediction.constant import Values
from twinlens.planning.prediction.place import Rates
from twinlens.planning.prediction.work import Work
from twinlens.theory.number import Number


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
    many = np.maximum(sequences / (layout.data * microbatch), 1.0)  # microbatches per copy
    tokens = microbatch * length / layout.context  # on a device, per microbatch
    share = layout.tensor * layout.pipeline
    passes = 3.0 - layout.frozen + layout.recompute
    dense = 2.0 * (work.dense_weights + work.head_weights) * tokens / share
    routed = 2.0 * work.expert_weights * work.chosen / work.experts * tokens / share
    small = tokens / layout.tensor
    rise = small / (small + fitted.half_tokens)
    expert_tokens = tokens * work.chosen / work.experts * layout.expert / np.maximum(layout.tensor, 1.0)
    rise_experts = expert_tokens / (expert_tokens + fitted.half_expert_tokens)
    products = passes * (
        dense / (rates.flop_per_s * fitted.eta_train * rise)
        + np.where(
            routed > 0,
            routed / (rates.expert_flop_per_s * fitted.eta_train_experts * np.maximum(rise_experts, 1e-9)),
            0.0,
        )
    )
    seen = np.minimum(length, work.window)
    pairs = (
        work.prefill_pair_full * length / 2.0
        + work.prefill_pair_window * (seen * seen / 2.0 + (length - seen) * seen) / length
    )
    attention = (
        (3.0 + layout.recompute)
        * tokens
        * (pairs + work.recurrent_flop)
        / share
        / (rates.wide_flop_per_s * fitted.eta_train_attention)
    )
    wide = work.hidden * work.layers + work.chosen * work.hidden * work.expert_layers
    elementwise = passes * tokens * wide / share * 2.0 * fitted.touches / rates.bytes_per_s
    moved = tokens * work.hidden * 2.0 * work.layers / layout.pipeline
    link = np.where(layout.tensor > rates.domain, rates.net_bytes_per_s, rates.link_bytes_per_s)
    tensor = np.where(
        layout.tensor > 1,
        (passes + 1.0) * 2.0 * (layout.tensor - 1.0) / layout.tensor * moved / link * fitted.exposed_tensor,
        0.0,
    )
    fabric = np.where(layout.expert * layout.tensor > rates.domain, rates.net_bytes_per_s, rates.link_bytes_per_s)
    sent = tokens * _copies(work, rates, layout) * work.hidden * 2.0
    sent = sent * work.expert_layers / layout.pipeline / layout.tensor
    expert = np.where(
        layout.expert > 1,
        (passes - 1.0) * 2.0 * (layout.expert - 1.0) / layout.expert * sent / fabric * fitted.exposed_expert,
        0.0,
    )
    overhead = passes * fitted.launch_s * (work.layers + 2.0 * work.expert_layers) / layout.pipeline
    inside = products + attention + elementwise + tensor + expert + overhead
    bubble = inside * (layout.pipeline - 1.0) / layout.virtual
    held = (work.dense_weights + 2.0 * work.head_weights) / share + work.expert_weights / (
        layout.pipeline * np.maximum(layout.expert, layout.tensor)
    )
    across = np.where(layout.devices > rates.domain, rates.net_bytes_per_s, rates.link_bytes_per_s)
    trained = held * (1.0 - layout.frozen)
    copies = layout.data * layout.context
    ring = (copies - 1.0) / np.maximum(copies, 1.0)
    once = np.where(copies > 1, 6.0 * trained * ring / across * fitted.exposed_data, 0.0)
    every = np.where(layout.gathered > 0, many * 6.0 * held * ring / across * fitted.exposed_gather, 0.0)
    optimizer = 28.0 * trained / np.maximum(copies, 1.0) / rates.bytes_per_s
    return TrainingParts(
        many * products,
        many * attention,
        many * elementwise,
        many * tensor,
        many * expert,
        many * overhead,
        bubble,
        once + every,
        optimizer + fitted.train_step_s,
    )


def _copies(work: Work, rates: Rates, layout: TrainingLayout) -> Number:
    """Copies of a token that its experts need: one per expert in a domain, else one per domain that holds any.

    Dispatchers send a token once to each node, and pass it on over the fast link there (DeepEP; arXiv 2412.19437, 3.2).
    """
    domains = np.maximum(layout.expert * layout.tensor / rates.domain, 1.0)
    reached = domains * (1.0 - (1.0 - 1.0 / domains) ** work.chosen)
    return np.where(domains > 1, reached, work.chosen)
