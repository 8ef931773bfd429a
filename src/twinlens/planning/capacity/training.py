"""Capacity of training: the time of a step by cause, tokens per second, and the time of the whole."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, get_args

from twinlens.errors import BadInput
from twinlens.planning.capacity.target import band_of, remarks_of
from twinlens.planning.fit.answer import Placement
from twinlens.planning.fit.training import Training
from twinlens.planning.fit.training_answer import Ways, check_ways, placed
from twinlens.planning.prediction.answer import TrainingAnswer, training_answer
from twinlens.planning.prediction.band import LEVEL, Calibrated
from twinlens.planning.prediction.question import TrainingQuestion
from twinlens.planning.subject import Subject
from twinlens.record.codec import encode
from twinlens.record.finding import Finding
from twinlens.theory.figure import End, Figure, Input, absent, total
from twinlens.theory.parameter import parameters

_CAUSES = {
    "products": "computing", "attention": "computing", "elementwise": "computing", "tensor": "communication",
    "expert": "communication", "data": "communication", "bubble": "bubble", "optimizer": "optimizer",
    "overhead": "overhead",
}  # fmt: skip
_MOST_DEVICES, NODE = 65_536, 8


@dataclass(frozen=True, slots=True)
class TrainingPlan:
    """`tokens`: of the whole training, `effective`: share of the time that is not lost to failures and restarts."""

    question: TrainingQuestion
    known: Calibrated
    tokens: float | None = None
    effective: float = 0.9
    within_s: float | None = None

    def __json__(self) -> dict[str, Any]:
        asked = self.question
        return {
            "lens": "training", "model": asked.model, "device": asked.device.name, "devices": asked.devices,
            "precision": asked.precision, "engine": asked.engine, "sequences": asked.sequences,
            "length": asked.length, "microbatch": asked.microbatch, "tensor": asked.tensor,
            "pipeline": asked.pipeline, "expert": asked.expert, "recompute": asked.recompute,
            "gathered": asked.gathered, "adapters": asked.adapters, "tokens": self.tokens, "within_s": self.within_s,
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class TrainingCapacity:
    """`step` by cause, and `whole`: seconds of all tokens. `devices`: the fewest within the time that was given."""

    plan: TrainingPlan
    step: Figure
    rate: Figure
    whole: Figure | None
    devices: Figure | None
    remarks: tuple[Finding, ...]
    memory: Placement | None = None
    """By the arithmetic of `plan fit`; None where it cannot divide the devices so."""

    @property
    def fits(self) -> bool | None:
        """Whether a step fits the memory of each device; None where that is not known."""
        return None if self.memory is None else self.memory.fits

    @property
    def is_met(self) -> bool | None:
        """Whether it fits and all tokens are trained within the time; None where no time was given."""
        if self.fits is False:
            return False
        if self.plan.within_s is None or self.whole is None:
            return None
        return self.whole.number <= self.plan.within_s

    @property
    def figures(self) -> tuple[Figure, ...]:
        return tuple(each for each in (self.step, self.rate, self.whole, self.devices) if each is not None)

    def __json__(self) -> dict[str, Any]:
        """The arithmetic, as plain data."""
        return {
            **encode(self.plan),
            "met": self.is_met,
            "fits": self.fits,
            "figures": self.figures,
            "remarks": self.remarks,
        }


def training_capacity(plan: TrainingPlan) -> TrainingCapacity:
    """The answer. Raises BadInput for a layout that does not divide."""
    answer = training_answer(plan.question, plan.known)
    step = step_figure(plan.question, answer, plan.known)
    whole = _whole(plan, step, plan.tokens) if plan.tokens else None
    memory = memory_of(plan.question)
    short = memory_remark(memory, plan.question)
    remarks = (*(() if short is None else (short,)), *remarks_of(answer, plan.question))
    return TrainingCapacity(plan, step, _rate(plan.question, step), whole, devices_within(plan), remarks, memory)


def step_figure(question: TrainingQuestion, answer: TrainingAnswer, known: Calibrated) -> Figure:
    """Seconds of a step as the sum of its causes; recompute is what the step takes longer than without it."""
    seconds: dict[str, float] = dict.fromkeys(("computing", "recompute", "communication", "bubble"), 0.0)
    plain = training_answer(replace(question, recompute=False), known) if question.recompute else answer
    for name, value in plain.parts_s.items():
        cause = _CAUSES[name.removesuffix("_s")]
        seconds[cause] = seconds.get(cause, 0.0) + value
    seconds["recompute"] = answer.step_s.value - plain.step_s.value
    parts = [Figure(f"part-{cause}", value, "s", source="calibrated roofline") for cause, value in seconds.items()]
    return total(
        "training-step", "s", [each for each in parts if each.value], source=answer.fitted_on, **band_of(answer.step_s)
    )


def _rate(question: TrainingQuestion, step: Figure) -> Figure:
    tokens = question.sequences * question.length
    inputs = (Input("sequences", question.sequences, "sequences"), Input("length", question.length, "tokens"), step)
    ends = [tokens / each for each in (step.number, step.end("high"), step.end("low"))]
    return Figure("tokens", ends[0], "tokens/s", "{0} × {1} / {2}", inputs, ends[1], ends[2], step.level)


def _whole(plan: TrainingPlan, step: Figure, tokens: float) -> Figure:
    """Seconds of all tokens: steps, and the share of the time that failures and restarts leave."""
    asked = plan.question
    factor = tokens / (asked.sequences * asked.length) / plan.effective
    inputs = (Input("all-tokens", tokens, "tokens"), Input("sequences", asked.sequences, "sequences"),
              Input("length", asked.length, "tokens"), step, Input("effective", plan.effective, "1"))  # fmt: skip
    ends = [each * factor for each in (step.number, step.end("low"), step.end("high"))]
    return Figure("time-to-train", ends[0], "s", "{0} / ({1} × {2}) × {3} / {4}", inputs, ends[1], ends[2], step.level)


def devices_within(plan: TrainingPlan) -> Figure | None:
    """The fewest devices, by data parallelism alone, that hold the step and train all tokens within the time.

    Tried are one, two, four … copies; between the last that is too slow and the first that is not, whole nodes.
    """
    if plan.within_s is None or plan.tokens is None:
        return None
    tried: dict[int, Placement | Figure | None] = {}
    found = {end: _fewest(plan, end, tried) for end in get_args(End)}
    last = tried[max(tried)]
    if not isinstance(last, Figure):  # not even the most devices hold it
        short = memory_remark(last, replace(plan.question, devices=max(tried)))
        assert short is not None
        return absent("devices", "devices", short)
    if found["value"] is None:
        numbers = {"within_s": plan.within_s, "sequences": plan.question.sequences}
        return absent("devices", "devices", Finding("plan-too-late", "warns", plan.question.model, numbers))
    inputs = (Input("within", plan.within_s, "s"), Input("all-tokens", plan.tokens, "tokens"))
    return Figure("devices", found["value"], "devices", "", inputs, found["low"], found["high"], LEVEL,
                  source="the fewest whose predicted time is within it")  # fmt: skip


def _fewest(plan: TrainingPlan, end: End, tried: dict[int, Placement | Figure | None]) -> int | None:
    """The smallest count at one end of the band; what was `tried` is looked up."""
    within, share = float(plan.within_s or 0), plan.question.tensor * plan.question.pipeline * plan.question.context

    def fits(count: int) -> bool:
        if count not in tried:
            tried[count] = _time_on(plan, count)
        time = tried[count]
        return isinstance(time, Figure) and time.end(end) <= within

    low = 0
    for count in _counts(plan.question):
        if fits(count):
            step = math.lcm(share * plan.question.expert, NODE) if count > NODE else count
            while count - low > step:
                middle = low + (count - low) // (2 * step) * step or step
                if middle in (low, count):
                    break
                low, count = (low, middle) if fits(middle) else (middle, count)
            return count
        low = count
    return None


def _time_on(plan: TrainingPlan, devices: int) -> Placement | Figure | None:
    """Seconds of all tokens on so many devices; the memory instead where a step does not fit."""
    asked = replace(plan.question, devices=devices)
    memory = memory_of(asked)
    if memory is not None and memory.fits is False:
        return memory
    return _whole(plan, _alone(asked, plan.known), float(plan.tokens or 0))


def _alone(question: TrainingQuestion, known: Calibrated) -> Figure:
    said = training_answer(question, known).step_s
    return Figure("training-step", said.value, "s", **band_of(said))


def _counts(question: TrainingQuestion) -> Iterator[int]:
    """Copies of the layout, doubling, while each has a sequence of the batch."""
    share = question.tensor * question.pipeline * question.context
    copies = 1
    while copies * share <= _MOST_DEVICES and copies <= question.sequences:
        if question.expert <= copies * share:
            yield copies * share
        copies *= 2


# Memory of a step of training on each device, by the arithmetic of `plan fit`, and what is said where it is short.


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
