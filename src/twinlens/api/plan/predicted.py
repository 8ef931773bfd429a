"""A predicted rate within an SLO, with its band, for plans of money that have a model and a device but no run."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from twinlens.api.plan.capacity import ServingCapacityAsked, served, share_of, with_room
from twinlens.api.plan.reading.amount import UNREADABLE, tokens_of
from twinlens.api.plan.reading.money import Paid
from twinlens.errors import BadInput
from twinlens.planning.capacity.serving import ServingCapacity, ServingPlan, serving_capacity
from twinlens.planning.capacity.target import answer_at, most_load
from twinlens.planning.prediction.answer import ServingAnswer
from twinlens.record.finding import Finding
from twinlens.theory.figure import Figure, assumed
from twinlens.units import SECONDS, show

OF_PREDICTION = ("model", "precision", "tensor", "engine", "ttft", "tpot", "of")
_LIGHT = 1e-3
"""Requests per second that leave a machine all but idle."""
_SAID = ("capacity-headroom", "capacity-tensor", "capacity-groups", "capacity-prompt", "capacity-answer",
         "capacity-precision", "device", "model")  # fmt: skip
"""Notes that `capacity-work` says all together, and those that are not of a plan of money."""


@dataclass(frozen=True, slots=True)
class Predicted:
    """`throughput`: requests/s of all devices at which the predicted latencies just keep the SLO, with its band."""

    throughput: Figure
    prompt: Figure
    answer: Figure
    devices: int
    notes: tuple[Finding, ...]


def predicted(asked: Paid) -> Predicted | None:
    """The prediction for the model on the device that were asked; None where no model was named.

    `input_tokens` and `output_tokens` are the prompt and the answer. Raises BadInput (TL231) where no load keeps the
    SLO, with what the lightest load takes, and for options of a prediction without a model.
    """
    given: dict[str, Any] = {name: word for name in OF_PREDICTION if (word := getattr(asked, name)) is not None}
    if "model" not in given:
        if given:
            raise BadInput(f"--{next(iter(given))} is of a predicted speed, and that is of a model: add --model 70B",
                           code=UNREADABLE)  # fmt: skip
        return None
    given |= {"device": asked.device, "devices": asked.devices, "catalogue": asked.catalogue, "rate": _LIGHT}
    for name, each in (("prompt", asked.input_tokens), ("answer", asked.output_tokens)):
        if each is not None:
            given[name] = tokens_of(name, f"{each.number:.15g}")
    found = served(ServingCapacityAsked.model_construct(**given))
    assert isinstance(found.answer, ServingCapacity)
    plan = found.answer.plan
    if asked.tensor is None and asked.devices is not None:
        plan = _best(plan)
    answer = found.answer if plan is found.answer.plan else serving_capacity(plan)
    if not answer.most.value:
        raise _impossible(plan)
    used = plan.question
    source = f"predicted for {used.model} in {used.precision}, by a calibrated roofline"
    told = tuple(each for each in found.notes if each.subject not in _SAID)
    sure = () if answer.most.low else (assumed("rate-open", plan.question.model),)
    ahead, after = (Figure(name, many, "tokens", source="assumed" if said is None else "asked")
                    for name, many, said in (("input-tokens", used.prompt, asked.input_tokens),
                                             ("output-tokens", used.answer, asked.output_tokens)))  # fmt: skip
    groups = f" × {used.data} groups" if used.data > 1 else ""
    ways = "" if used.devices * plan.copies == 1 else f" ({plan.copies} × tensor {used.tensor}{groups})"
    work = f"{used.model} in {used.precision}{ways}"
    taken = assumed("capacity-work", work, prompt=used.prompt, answer=used.answer)
    rate = replace(answer.most, name="throughput", source=source, assumptions=sure)
    return Predicted(rate, ahead, after, plan.copies * used.devices, (taken, *told))


def _best(plan: ServingPlan) -> ServingPlan:
    """The division of the devices into copies that serves most within the SLO."""
    many = plan.copies * plan.question.devices
    whole = replace(plan.question, tensor=1, data=1)
    plans = [
        replace(plan, question=share_of(whole, many, copy), copies=many // math.prod(copy))
        for copy in with_room(whole, many, plan.known)
        if many % math.prod(copy) == 0
    ]

    def most_served(each: ServingPlan) -> tuple[float, float]:
        alone = answer_at(each.question, _LIGHT, each.known)
        most = each.copies * most_load(each.question, each.target, each.known)
        return most, -_times(alone, each.target.of)[0] if alone else -float("inf")

    return max(plans, key=most_served, default=plan)


def _impossible(plan: ServingPlan) -> BadInput:
    """No load keeps the SLO: what a request that is alone takes is the nearest."""
    alone = answer_at(plan.question, _LIGHT, plan.known)
    of, name, limit = plan.target.of, "ttft", plan.target.ttft_s
    late = _times(alone, of)
    if late[1] > (plan.target.tpot_s or float("inf")):
        name, limit = "tpot", plan.target.tpot_s
    seconds = late[0] if name == "ttft" else late[1]
    many = plan.copies * plan.question.devices
    return BadInput(
        f"no load keeps {of} {name.upper()} within {show(float(limit or 0), SECONDS)} on {many} × "
        f"{plan.question.device.name}: a request alone takes {show(seconds, SECONDS)}; give more than that with "
        f"--{name}, more --devices, or a narrower --precision",
        code=UNREADABLE,
    )


def _times(answer: ServingAnswer | None, of: str) -> tuple[float, float]:
    """TTFT and TPOT that a target holds, in seconds; 0 where the queue has no end."""
    if answer is None:
        return 0.0, 0.0
    return (answer.tail.ttft_s, answer.tail.tpot_s) if of == "p99" else (answer.ttft_s.value, answer.tpot_s.value)
