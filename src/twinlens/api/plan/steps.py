"""Words of a training plan read into a step: its batch, its layout, and how many tokens there are in what time."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, ClassVar

from twinlens.api.plan.reading.amount import UNREADABLE, predicted_format, span_of
from twinlens.api.plan.reading.options import (
    COUNT,
    SHARE,
    TIME,
    TOKENS,
    TRAINED,
    Catalogue,
    Devices,
    Engine,
    Known,
    Model,
    Precision,
    Probe,
    Tensor,
    one,
)
from twinlens.api.plan.reading.options import (
    Device as DeviceName,
)
from twinlens.api.question import Kind, Question, option
from twinlens.errors import BadInput
from twinlens.planning.capacity.training import TrainingPlan, memory_of
from twinlens.planning.check.deadline import Mfu
from twinlens.planning.fit.training_answer import usual_zero
from twinlens.planning.prediction.answer import refuse_processor
from twinlens.planning.prediction.band import Calibrated, shipped
from twinlens.planning.prediction.question import TrainingQuestion
from twinlens.planning.subject import Subject
from twinlens.record.finding import Finding
from twinlens.spec.device import Device
from twinlens.theory.figure import assumed


def _mfu(name: str, word: object) -> Mfu:
    low, high = span_of(name, word, 1.0)
    return Mfu(low, (low + high) / 2, high, "asked")


MFU = Kind("SPAN", _mfu)
"""A share of the peak: 0.4, or 0.3..0.5."""


class Capacity(Question):
    model: Model | None = None
    device: DeviceName | None = None
    devices: Devices | None = None
    precision: Precision | None = None
    tensor: Tensor | None = None
    engine: Engine | None = None
    known: Known | None = None
    probe: Probe | None = None
    catalogue: Catalogue | None = None


class TrainingCapacityAsked(Capacity):
    """How long training takes."""

    lens: ClassVar = "training"
    instead: ClassVar = "leave --train out"
    train: Annotated[str, option("full or lora; else it is served.", one("METHOD", ("full", "lora")))]
    batch: Annotated[int, option("Training: sequences of a step.", COUNT)] | None = None
    microbatch: Annotated[int, option("Of them at a time on a copy.", COUNT)] = 1
    context: Annotated[int, option("Training: of a sequence.", TOKENS)] = 4096
    recompute: Annotated[str, option("Training: none or full.", one("HOW", ("none", "full")))] | None = None
    pipeline: Annotated[int, option("Training: stages.", COUNT)] = 1
    expert: Annotated[int, option("Training: expert parallel.", COUNT)] = 1
    tokens: Annotated[float, option("Training: of the whole, 300B, 15T.", TRAINED)] | None = None
    within: Annotated[float, option("Training: of the whole, 12h, 30days.", TIME)] | None = None
    effective: Annotated[float, option("Training: not lost to failures, 90%.", SHARE)] | None = None


_EFFECTIVE = 0.9


def steps_of(
    asked: TrainingCapacityAsked, subject: Subject, device: Device, known: Calibrated | None = None
) -> tuple[TrainingPlan, tuple[Finding, ...]]:
    """The plan, and what was taken for granted: the engine of one's own runs, where `known` is of some.

    Raises BadInput (TL231) for what cannot be.
    """
    shape, many, tensor = subject.shape, asked.devices or 1, asked.tensor or 1
    if shape is None:
        raise BadInput(f"the layers of {subject.name} are not known; name a model", code=UNREADABLE)
    copies = max(many // (tensor * asked.pipeline), 1)
    usual = max(copies * asked.microbatch * (8 if asked.pipeline == 1 else 4 * asked.pipeline), 1)
    notes = [] if asked.batch else [assumed("capacity-batch", usual)]
    gathered = many > 1 and usual_zero(tensor, asked.pipeline, asked.expert) == 3
    known = known or shipped()["training"]
    refuse_processor(device, known)
    own = sorted(known.own.get("engine", ()))
    plain = own[0] if len(own) == 1 else "fsdp" if tensor * asked.pipeline == 1 else "megatron"
    used = asked.engine.lower() if asked.engine else plain
    notes += [] if asked.engine else [assumed("capacity-engine", used)]
    notes += [] if asked.precision else [assumed("capacity-precision", "bf16")]
    question = TrainingQuestion(
        subject.name, shape, device, predicted_format(asked.precision or "bf16"), many, float(asked.batch or usual),
        float(asked.context), float(asked.microbatch), tensor, asked.pipeline, expert=asked.expert, gathered=gathered,
        recompute=asked.recompute == "full", adapters=asked.train == "lora", engine=used, subject=subject,
    )  # fmt: skip
    if asked.recompute is None:
        memory = memory_of(question)
        question = replace(question, recompute=memory is not None and memory.fits is False)
        notes.append(assumed("capacity-recompute", "full" if question.recompute else "none"))
    if asked.within is not None and asked.tokens is None:
        raise BadInput("--within is the time of all tokens; give --tokens 300B, too", code=UNREADABLE)
    if asked.tokens is not None and asked.effective is None:
        notes.append(assumed("capacity-effective", _EFFECTIVE))
    effective = _EFFECTIVE if asked.effective is None else asked.effective
    if not effective:
        raise BadInput("--effective is a share above 0: what never works trains nothing", code=UNREADABLE)
    return TrainingPlan(question, known, asked.tokens, effective, asked.within), tuple(notes)
