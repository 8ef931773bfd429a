"""Memory of a step of training on each device, by the arithmetic of `plan fit`, and what is said where it is short."""

from __future__ import annotations

from twinlens.errors import BadInput
from twinlens.planning.fit.placement import Placement
from twinlens.planning.fit.training import Training
from twinlens.planning.fit.training_answer import Ways, check_ways, placed
from twinlens.planning.prediction.question import TrainingQuestion
from twinlens.planning.subject import Subject
from twinlens.record.finding import Finding
from twinlens.theory.parameter import parameters


def memory_of(question: TrainingQuestion) -> Placement | None:
    """The placement of a step; None where `plan fit` cannot divide the devices so (experts beyond data parallel).

    Whatever gathers its weights divides all of its state (ZeRO 3); other engines divide the optimizer's (ZeRO 1).
    Raises BadInput (TL231) for degrees that `plan fit` refuses.
    """
    asked, shape = question, question.shape
    plan = Training(
        asked.subject or Subject(asked.model, int(parameters(shape).total), shape),
        "lora" if asked.adapters else "full",
        context=int(asked.length),
        batch=max(1, int(asked.microbatch)),
        recompute="full" if asked.recompute else "none",
    )
    ways = Ways(asked.tensor, asked.pipeline, asked.expert, 3 if asked.gathered else 1)
    check_ways(plan, ways)
    try:
        return placed(plan, asked.device, asked.devices, ways)
    except BadInput:
        return None


def memory_remark(memory: Placement | None, question: TrainingQuestion) -> Finding | None:
    """What does not fit, or that it is close or not known; None where it surely fits."""
    if memory is None:
        return Finding("plan-memory", "warns", "unknown", {"expert": question.expert, "devices": question.devices})
    if memory.fits is not False and not memory.is_close:
        return None
    numbers = {"needed_bytes": memory.needed.value, "usable_bytes": memory.usable.value, "zero": memory.split["zero"]}
    if memory.fits is not False:
        return Finding("plan-memory", "notes", "close", {**numbers, "short": memory.short})
    return Finding("plan-memory", "warns", "short", numbers)
