"""Memory of training on each device, as figures that show their arithmetic: full, LoRA and QLoRA."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from twinlens.planning.fit.runtime import Measured, corrected
from twinlens.planning.subject import Subject
from twinlens.record.finding import Finding
from twinlens.spec.model.shape import DecoderShape
from twinlens.theory.activation import Checkpointing
from twinlens.theory.adapter import adapter_parameters
from twinlens.theory.figure import Figure, Input, absent, assumed, by_law
from twinlens.theory.memory import LAYOUTS, Layout, with_optimizer
from twinlens.theory.number import Number
from twinlens.theory.sharding import Split, device_parameters, sharded_memory

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

    `layout` names bytes per parameter (theory/memory.py), `optimizer` its state. Adapters have `rank`.
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

    def __json__(self) -> dict[str, Any]:
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
            "like": self.like,
        }


def training_bytes(plan: Training, split: Split) -> dict[str, Number]:
    """Bytes on the fullest device, by part; degrees and batch may be arrays. Raises BadInput where a part is empty.

    Every plan of training sums these.
    """
    shape = plan.subject.shape
    if shape is None:
        raise ValueError("without layers nothing is known of activations")
    frozen = None if plan.method == "full" else Layout(plan.subject.weight_bits(FROZEN[plan.method]) / 8, 0, 0, 0)
    layout = frozen or plan.bytes_per_parameter
    found = sharded_memory(shape, layout, split, plan.batch, plan.context, plan.recompute)
    state: dict[str, Number] = {"weights": found.weights_bytes, "tower": plan.subject.tower * _tower_each(plan, split)}
    if frozen is None:
        state |= {"gradients": found.gradients_bytes, "master": found.master_bytes, "optimizer": found.optimizer_bytes}
    else:
        count = adapter_parameters(shape, plan.rank)
        state["adapters"] = count * plan.bytes_per_parameter.total / over(split)
        wide = shape.hidden * shape.intermediate if plan.method == "qlora" else 0
        state["unpacked"] = 2.0 * wide / split.tensor
    return state | {
        "gathered": found.gathered_bytes,
        "activations": found.activations_bytes,
        "scores": (FUSED_SHARE if plan.loss == "fused" else 1.0) * found.logits_bytes,
        "runtime": RUNTIME_BYTES + GROUP_BYTES * (split.devices > 1),
    }


def _tower_each(plan: Training, split: Split) -> Number:
    """Bytes of one parameter of an image tower on its device: trained with the rest in full training, else frozen in
    16 bits; data parallelism alone divides it."""
    layout = plan.bytes_per_parameter if plan.method == "full" else Layout(2.0, 0, 0, 0)
    ranks = split.data * split.context
    state = ((layout.weights, 3), (layout.gradients, 2), (layout.master + layout.optimizer, 1))
    return layout.cast + sum(each / (ranks if split.zero >= stage else 1) for each, stage in state)


def over(split: Split) -> Number:
    """Devices among which what is kept per parameter is divided, experts aside."""
    return split.tensor * split.pipeline * (split.data * split.context if split.zero == 3 else 1)


def training_parts(plan: Training, split: Split) -> tuple[Figure, ...]:
    """Bytes on the fullest device: weights, gradients, master copy, optimizer, gathered layers, activations, scores."""
    shape = plan.subject.shape
    if shape is None:
        own = RUNTIME_BYTES + (GROUP_BYTES if split.devices > 1 else 0.0)
        return (*_of_size(plan, split), Figure("runtime", own, "bytes", source=_RUNTIME))
    found = training_bytes(plan, split)
    shown = _full(plan, shape, split, found) if plan.method == "full" else _adapters(plan, shape, split, found)
    runtime = Figure("runtime", found["runtime"], "bytes", source=_RUNTIME)
    figures = (*shown, *_tower(plan, found), *_at_work(plan, shape, found), runtime)
    return corrected((each for each in figures if each.value), plan.like)


def _full(plan: Training, shape: DecoderShape, split: Split, found: Mapping[str, Number]) -> Iterator[Figure]:
    """How the state of full training comes about."""
    layout = plan.bytes_per_parameter
    dense, experts = device_parameters(shape, split)
    here = Input("params-here", dense + experts, "parameters", f"of {plan.subject.params:,} in all")
    states = (("weights", layout.weights + layout.cast, 3), ("gradients", layout.gradients, 2),
              ("master", layout.master, 1), ("optimizer", layout.optimizer, 1))  # fmt: skip
    for name, each, stage in states:
        ranks = split.data * split.context if split.zero >= stage else 1
        inputs = (here, Input("bytes-each", each, "bytes", plan.layout if name != "optimizer" else plan.optimizer),
                  *((Input("ranks", ranks, "devices", f"ZeRO {split.zero}"),) if ranks > 1 else ()))  # fmt: skip
        formula = "{0} × {1}" if ranks == 1 else "" if shape.experts else "{0} × {1} / {2}"
        if name == "weights" and layout.cast and split.zero == 3:
            inputs, formula = (), ""
        notes = plan.subject.assumed if name == "weights" else ()
        law = "training-memory" if formula else None
        inputs = inputs[:2] if shape.experts else inputs
        yield Figure(name, found[name], "bytes", formula, inputs, law=law, assumptions=notes)


def _tower(plan: Training, found: Mapping[str, Number]) -> tuple[Figure, ...]:
    """State of an image tower; a plan says no number of images, so that their activations are not counted."""
    if not plan.subject.tower:
        return ()
    count = Input("tower-params", plan.subject.tower, "parameters", "the model's config")
    unseen = assumed("tower-activations", plan.subject.name)
    return (Figure("tower", found["tower"], "bytes", "", (count,), assumptions=(unseen,)),)


def _at_work(plan: Training, shape: DecoderShape, found: Mapping[str, Number]) -> tuple[Figure, ...]:
    """Layers that are gathered, activations, and scores at the loss."""
    sizes = (Input("batch", plan.batch, "sequences"), Input("context", plan.context, "tokens"),
             Input("recompute", plan.recompute, "", "asked"))  # fmt: skip
    scores = (Input("vocab", shape.vocab, "entries", "the model's config"), Input("loss", plan.loss, "", "asked"))
    return (
        Figure(
            "gathered",
            found["gathered"],
            "bytes",
            source="two layers, and the larger of table and head, gathered by ZeRO 3; and "
            "the whole gradients of one layer and of that end before ZeRO 2 or 3 divides them",
        ),
        Figure("activations", found["activations"], "bytes", "", sizes, source="theory/activation.py"),
        Figure("scores", found["scores"], "bytes", "", (*sizes[:2], *scores), source="theory/activation.py"),
    )


def _adapters(plan: Training, shape: DecoderShape, split: Split, found: Mapping[str, Number]) -> Iterator[Figure]:
    """Frozen weights, adapters with gradients and optimizer, and one projection unpacked (QLoRA)."""
    name, layout, ranks = FROZEN[plan.method], plan.bytes_per_parameter, over(split)
    divided = (Input("ranks", ranks, "devices"),) if ranks > 1 else ()
    divide = " / {2}" if divided else ""
    frozen = (plan.subject.params_input(), Input("bits", plan.subject.weight_bits(name), "bits", name), *divided)
    whole = not shape.experts and split.pipeline == 1
    yield Figure("weights", found["weights"], "bytes", "{0} × {1} / 8" + divide if whole else "", frozen,
                 law="weights" if whole else None, assumptions=plan.subject.assumed)  # fmt: skip
    count = adapter_parameters(shape, plan.rank)
    inputs = (Input("adapters", count, "parameters", f"rank {plan.rank} on every projection"),
              Input("bytes-each", layout.total, "bytes", plan.layout), *divided)  # fmt: skip
    yield Figure("adapters", found["adapters"], "bytes", "{0} × {1}" + divide, inputs, law="training-memory")
    yield Figure("unpacked", found["unpacked"], "bytes", source="the widest projection in 16 bits, as it is multiplied")


def _of_size(plan: Training, split: Split) -> tuple[Figure, ...]:
    """Of a bare size only what is kept per parameter is known."""
    unknown = Finding("plan-unknown", "warns", "activations", {"model": plan.subject.name, "needs": "layers"})
    frozen = plan.subject.weight_bits(FROZEN[plan.method]) / 8 if plan.method != "full" else None
    each = plan.bytes_per_parameter.total if frozen is None else frozen
    ranks = over(split)
    inputs = (plan.subject.params_input(), Input("bytes-each", each, "bytes", plan.layout),
              Input("ranks", ranks, "devices"))  # fmt: skip
    name = "state" if frozen is None else "weights"
    given = dict(zip(("params", "bytes-per-parameter", "shards"), inputs, strict=True))
    return by_law("training-memory", given, name), absent("activations", "bytes", unknown)
