"""Memory of training on each device: ZeRO and FSDP, tensor, pipeline, context and expert parallelism.

ZeRO: Rajbhandari et al., arXiv 1910.02054. Tensor and sequence parallelism: Korthikanti et al., arXiv 2205.05198.
Pipeline (1F1B): Narayanan et al., arXiv 2104.04473. All numbers may be arrays (theory/number.py).
"""

from __future__ import annotations

from dataclasses import dataclass

from twinlens.errors import BadInput
from twinlens.spec.model.shape import DecoderShape
from twinlens.theory.activation import Attention, Checkpointing, activation_bytes, logits_bytes
from twinlens.theory.memory import Layout
from twinlens.theory.number import Number, choose, count, rounded_up, smaller
from twinlens.theory.parameter import expert_weights, parameters


@dataclass(frozen=True, slots=True)
class Split:
    """Ways in which training is divided. Devices: data · tensor · pipeline · context; experts divide data · context.

    `zero` 1 divides optimizer state and master weights over data · context, 2 gradients too, 3 (FSDP) weights too.
    """

    data: Number = 1
    tensor: Number = 1
    pipeline: Number = 1
    context: Number = 1
    expert: Number = 1
    zero: int = 0
    microbatches: Number = 1
    """Microbatches per step: a pipeline keeps no more in flight."""

    @property
    def devices(self) -> Number:
        return self.data * self.tensor * self.pipeline * self.context


@dataclass(frozen=True, slots=True)
class ShardedMemory:
    """Bytes on the fullest device at the peak of a step."""

    weights_bytes: Number
    gradients_bytes: Number
    master_bytes: Number
    optimizer_bytes: Number
    gathered_bytes: Number
    """Whole weights that stage 3 gathers: two layers, the one at work and the next, and the larger of table and head,
    which stays through the step. Whole gradients that stages 2 and 3 hold until they are reduced: of the layer at work
    and of that end."""
    activations_bytes: Number
    logits_bytes: Number

    @property
    def total_bytes(self) -> Number:
        state = self.weights_bytes + self.gradients_bytes + self.master_bytes + self.optimizer_bytes
        return state + self.gathered_bytes + self.activations_bytes + self.logits_bytes


def device_parameters(shape: DecoderShape, split: Split) -> tuple[Number, Number]:
    """Parameters on the fullest device before ZeRO: dense ones and those of routed experts.

    Of a pipeline's ends, which hold the table and the head, the larger counts.
    """
    counted = parameters(shape)
    experts = 0
    if shape.experts:
        experts = shape.expert_layers * shape.experts.count * expert_weights(shape)
    layers = counted.total - experts - counted.embedding - (0 if shape.tied_embeddings else counted.head)
    ends = _end_parameters(shape, split)
    stage = rounded_up(shape.layers, split.pipeline) / split.pipeline / shape.layers  # stages may differ by a layer
    dense = (layers * stage + ends) / split.tensor
    return dense, experts * stage / (split.tensor * split.expert)


def _end_parameters(shape: DecoderShape, split: Split) -> Number:
    """Table and head; of a pipeline's ends, the larger."""
    counted = parameters(shape)
    both = counted.embedding + (0 if shape.tied_embeddings else counted.head)
    return choose(split.pipeline > 1, max(counted.embedding, counted.head), both)


def sharded_memory(
    shape: DecoderShape,
    layout: Layout,
    split: Split,
    microbatch: Number,
    seq_len: Number,
    checkpointing: Checkpointing = "none",
    attention: Attention = "fused",
) -> ShardedMemory:
    """Bytes on the fullest device. Raises BadInput where a part would be empty.

    Tensor parallelism is taken with sequence parallelism, so that it divides all activations.
    """
    _check(shape, split)
    dense, experts = device_parameters(shape, split)
    ranks = split.data * split.context

    def divided(stage: int, bytes_each: float) -> Number:
        if split.zero < stage:
            return (dense + experts) * bytes_each
        return (dense / ranks + experts / (ranks / split.expert)) * bytes_each

    working = layout.cast or layout.weights
    layers = rounded_up(shape.layers, split.pipeline) / split.pipeline  # of the fullest stage
    counted = parameters(shape)
    layer = (dense + experts - _end_parameters(shape, split) / split.tensor) / layers  # of experts only its own
    end = max(counted.embedding, counted.head) / split.tensor
    reduced = choose(ranks > 1, layer + end, 0.0) if split.zero >= 2 and layout.gradients else 0.0
    # The first stage of a pipeline keeps as many microbatches as it has stages; the last keeps one, and the scores.
    kept = activation_bytes(shape, microbatch, seq_len, checkpointing, attention, layout.activations)
    kept = kept * layers / shape.layers / (split.tensor * split.context)
    in_flight = smaller(split.pipeline, split.microbatches)
    scores = logits_bytes(shape, microbatch, seq_len, layout.activations) / (split.tensor * split.context)
    ends_first = choose(split.pipeline > 1, (in_flight - 1) * kept >= scores, False)
    return ShardedMemory(
        weights_bytes=divided(3, layout.weights) + (0.0 if split.zero == 3 else (dense + experts) * layout.cast),
        gradients_bytes=divided(2, layout.gradients),
        master_bytes=divided(1, layout.master),
        optimizer_bytes=divided(1, layout.optimizer),
        gathered_bytes=working * ((2 * layer + end if split.zero == 3 else 0.0) + reduced),
        activations_bytes=choose(ends_first, in_flight * kept, kept),
        logits_bytes=choose(ends_first, 0.0, scores),
    )


def bubble_share(split: Split, parts: Number = 1) -> Number:
    """Idle share of a pipeline (GPipe, 1F1B; interleaved with `parts` of the model on each stage).

    (p − 1) / (v·m + p − 1) (arXiv 2104.04473).
    """
    stages, many = count("pipeline", split.pipeline), count("microbatches", split.microbatches)
    return (stages - 1) / (count("parts", parts) * many + stages - 1)


def _check(shape: DecoderShape, split: Split) -> None:
    for name in ("data", "tensor", "pipeline", "context", "expert", "microbatches"):
        count(name, getattr(split, name))
    if split.zero not in (0, 1, 2, 3):
        raise BadInput(f"zero is a stage from 0 to 3, not {split.zero}")
    limits = {"tensor": shape.heads, "pipeline": shape.layers}
    limits["expert"] = shape.experts.count if shape.experts else 1
    for name, limit in limits.items():
        if _any_above(getattr(split, name), limit):
            of = {"tensor": "heads", "pipeline": "layers", "expert": "experts"}[name]
            raise BadInput(f"{name} parallelism divides {limit} {of} at most, and is set to more")
    if _any_above(split.expert, split.data * split.context):
        raise BadInput("expert parallelism divides the data-parallel devices, and there are fewer of those")


def _any_above(value: Number, limit: Number) -> bool:
    above = value > limit
    return above if isinstance(above, bool) else bool(above.any())
