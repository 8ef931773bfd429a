"""Memory of training on each device, as figures that show their arithmetic: full, LoRA and QLoRA."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from twinlens.planning.figure import Figure, Input, absent
from twinlens.planning.fit.measured import Measured, corrected
from twinlens.planning.subject import Subject
from twinlens.record.finding import Finding
from twinlens.spec.model.shape import DecoderShape
from twinlens.theory.activation import Checkpointing
from twinlens.theory.adapter import ALL_LINEAR, adapter_parameters
from twinlens.theory.layout import LAYOUTS, Layout, with_optimizer
from twinlens.theory.sharding import ShardedMemory, Split, device_parameters, sharded_memory

Method = Literal["full", "lora", "qlora"]
Loss = Literal["torch", "fused"]
FUSED_SHARE = 0.4
"""Of 10 bytes a score (16 bits, fp32 twice), the 4 that a fused cross-entropy keeps: 16 bits, and their gradient."""
FROZEN = {"lora": "bf16", "qlora": "nf4-double"}
"""Formats of weights that stay as they are."""
RUNTIME_BYTES, GROUP_BYTES = 1.0e9, 1.0e9
_RUNTIME = "1 GB of CUDA context, and 1 GB of collectives where there are several, taken; measure it where it decides"


@dataclass(frozen=True, slots=True)
class Training:
    """What is to be trained, and how: sequences of `context` tokens, `batch` of them on each device at a time.

    `layout` names bytes per parameter (theory/layout.py), `optimizer` its state. Adapters have `rank`.
    """

    subject: Subject
    method: Method = "full"
    layout: str = "16-bit-fp32-master"
    optimizer: str = "adamw"
    context: int = 4096
    batch: int = 1
    recompute: Checkpointing = "full"
    rank: int = 16
    loss: Loss = "torch"
    like: tuple[Measured, ...] = ()
    """Parts that a run measured; they go before the arithmetic."""

    @property
    def bytes_per_parameter(self) -> Layout:
        return with_optimizer(LAYOUTS[self.layout], self.optimizer)

    def to_json(self) -> dict[str, Any]:
        return {
            "lens": "training",
            "model": self.subject.name,
            "method": self.method,
            "layout": self.layout,
            "optimizer": self.optimizer,
            "bytes_per_parameter": self.bytes_per_parameter.total,
            "batch": self.batch,
            "context": self.context,
            "recompute": self.recompute,
            "loss": self.loss,
            "rank": None if self.method == "full" else self.rank,
            "like": [each.to_json() for each in self.like],
        }


def training_parts(plan: Training, split: Split) -> tuple[Figure, ...]:
    """Bytes on the fullest device: weights, gradients, master copy, optimizer, gathered layers, activations, scores."""
    own = RUNTIME_BYTES + (GROUP_BYTES if split.devices > 1 else 0.0)
    runtime = Figure("runtime", own, "bytes", source=_RUNTIME)
    shape = plan.subject.shape
    if shape is None:
        return (*_of_size(plan, split), runtime)
    parts = _full(plan, shape, split) if plan.method == "full" else _adapters(plan, shape, split)
    return corrected((*(each for each in parts if each.value), runtime), plan.like)


def _full(plan: Training, shape: DecoderShape, split: Split) -> tuple[Figure, ...]:
    layout = plan.bytes_per_parameter
    found = sharded_memory(shape, layout, split, plan.batch, plan.context, plan.recompute)
    dense, experts = device_parameters(shape, split)
    here = Input("params-here", dense + experts, "parameters", f"of {plan.subject.params:,} in all")

    def state(name: str, value: float, each: float, stage: int) -> Figure:
        ranks = split.data * split.context if split.zero >= stage else 1
        inputs = [here, Input("bytes-each", each, "bytes", plan.layout if name != "optimizer" else plan.optimizer)]
        if shape.experts or ranks == 1:
            return Figure(name, value, "bytes", "{0} × {1}" if ranks == 1 else "", tuple(inputs))
        inputs.append(Input("ranks", ranks, "devices", f"ZeRO {split.zero}"))
        return Figure(name, value, "bytes", "{0} × {1} / {2}", tuple(inputs))

    weights = state("weights", found.weights_bytes, layout.weights + layout.cast, 3)
    if layout.cast and split.zero == 3:
        weights = Figure("weights", found.weights_bytes, "bytes")
    notes = plan.subject.assumed
    return (
        Figure(weights.name, weights.value, "bytes", weights.formula, weights.inputs, assumptions=notes),
        state("gradients", found.gradients_bytes, layout.gradients, 2),
        state("master", found.master_bytes, layout.master, 1),
        state("optimizer", found.optimizer_bytes, layout.optimizer, 1),
        *_at_work(plan, shape, split, found),
    )


def _at_work(plan: Training, shape: DecoderShape, split: Split, found: ShardedMemory) -> tuple[Figure, ...]:
    """Layers that are gathered, activations, and scores at the loss."""
    sizes = (Input("batch", plan.batch, "sequences"), Input("context", plan.context, "tokens"),
             Input("recompute", plan.recompute, "", "asked"))  # fmt: skip
    scores = (Input("vocab", shape.vocab, "entries", "the model's config"), Input("loss", plan.loss, "", "asked"))
    kept = FUSED_SHARE if plan.loss == "fused" else 1.0
    return (
        Figure("gathered", found.gathered_bytes, "bytes", source="two layers, which ZeRO 3 gathers"),
        Figure("activations", found.activations_bytes, "bytes", "", sizes, source="theory/activation.py"),
        Figure("scores", kept * found.logits_bytes, "bytes", "", (*sizes[:2], *scores), source="theory/activation.py"),
    )


def _adapters(plan: Training, shape: DecoderShape, split: Split) -> tuple[Figure, ...]:
    """Frozen weights, adapters with gradients and optimizer, one projection unpacked (QLoRA), and the rest."""
    name = FROZEN[plan.method]
    bits = plan.subject.weight_bits(name)
    found = sharded_memory(shape, Layout(bits / 8, 0, 0, 0), split, plan.batch, plan.context, plan.recompute)
    layout = plan.bytes_per_parameter
    count = adapter_parameters(shape, plan.rank, ALL_LINEAR)
    over = split.tensor * split.pipeline * (split.data * split.context if split.zero == 3 else 1)
    wide = shape.hidden * max(shape.intermediate, shape.vocab if plan.method == "lora" else 0)
    ranks = (Input("ranks", over, "devices"),) if over > 1 else ()
    divide = " / {2}" if ranks else ""
    frozen = (plan.subject.params_input(), Input("bits", bits, "bits", name), *ranks)
    whole = not shape.experts and split.pipeline == 1
    unpacked = 2.0 * wide / split.tensor if plan.method == "qlora" else 0.0
    inputs = (Input("adapters", count, "parameters", f"rank {plan.rank} on every projection"),
              Input("bytes-each", layout.total, "bytes", plan.layout), *ranks)  # fmt: skip
    return (
        Figure(
            "weights", found.weights_bytes, "bytes", "{0} × {1} / 8" + divide if whole else "", frozen,
            assumptions=plan.subject.assumed,
        ),
        Figure("adapters", count * layout.total / over, "bytes", "{0} × {1}" + divide, inputs),
        Figure("unpacked", unpacked, "bytes", source="the widest projection in 16 bits, as it is multiplied"),
        *_at_work(plan, shape, split, found),
    )  # fmt: skip


def _of_size(plan: Training, split: Split) -> tuple[Figure, ...]:
    """Of a bare size only what is kept per parameter is known."""
    unknown = Finding("plan-unknown", "warns", "activations", {"model": plan.subject.name, "needs": "layers"})
    frozen = plan.subject.weight_bits(FROZEN[plan.method]) / 8 if plan.method != "full" else None
    each = plan.bytes_per_parameter.total if frozen is None else frozen
    over = split.tensor * split.pipeline * (split.data * split.context if split.zero == 3 else 1)
    inputs = (plan.subject.params_input(), Input("bytes-each", each, "bytes", plan.layout),
              Input("ranks", over, "devices"))  # fmt: skip
    name = "state" if frozen is None else "weights"
    held = Figure(name, plan.subject.params * each / over, "bytes", "{0} × {1} / {2}", inputs)
    return held, absent("activations", "bytes", unknown)
