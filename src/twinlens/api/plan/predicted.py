"""A predicted rate within an SLO, with its band, for plans of money that have a model and a device but no run."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from twinlens.api.plan.capacity import capacity, share_of, with_room
from twinlens.api.plan.reading.amount import UNREADABLE
from twinlens.errors import BadInput
from twinlens.planning.capacity.serving import ServingCapacity, ServingPlan, serving_capacity
from twinlens.planning.capacity.target import answer_at, most_load
from twinlens.planning.figure import Figure, assumed
from twinlens.planning.prediction.answer import ServingAnswer
from twinlens.record.finding import Finding
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


def predicted(
    device: str | None, devices: object, options: Mapping[str, object], catalogue: str | Path | None
) -> Predicted | None:
    """The prediction for `options["model"]` on the device; None where no model was named.

    `input_tokens` and `output_tokens` are the prompt and the answer. Raises BadInput (TL231) where no load keeps the
    SLO, with what the lightest load takes, and for options of a prediction without a model.
    """
    given = {name: options.get(name) for name in OF_PREDICTION if options.get(name) is not None}
    if "model" not in given:
        if given:
            raise BadInput(f"--{next(iter(given))} is of a predicted speed, and that is of a model: add --model 70B",
                           code=UNREADABLE)  # fmt: skip
        return None
    rest: dict[str, Any] = {name: given[name] for name in ("tensor", "ttft", "tpot", "of") if name in given}
    rest |= {"devices": devices, "prompt": options.get("input_tokens"), "answer": options.get("output_tokens")}
    found = capacity(
        str(given["model"]), device=device, catalogue=catalogue, rate=_LIGHT,
        precision=_word(given.get("precision")), engine=_word(given.get("engine")), **rest,
    )  # fmt: skip
    if not isinstance(found.answer, ServingCapacity):
        raise TypeError("a rate of requests is of serving")
    plan = found.answer.plan
    if "tensor" not in given and devices is not None:
        plan = _best(plan)
    answer = found.answer if plan is found.answer.plan else serving_capacity(plan)
    if not answer.most.value:
        raise _impossible(plan)
    asked = plan.question
    source = f"predicted for {asked.model} in {asked.precision}, by a calibrated roofline"
    told = tuple(each for each in found.notes if each.subject not in _SAID)
    sure = () if answer.most.low else (assumed("rate-open", plan.question.model),)
    lengths_said = [Figure(name, each, "tokens", source="asked" if options.get(key) is not None else "assumed")
                    for name, each, key in (("input-tokens", asked.prompt, "input_tokens"),
                                            ("output-tokens", asked.answer, "output_tokens"))]  # fmt: skip
    groups = f" × {asked.data} groups" if asked.data > 1 else ""
    ways = "" if asked.devices * plan.copies == 1 else f" ({plan.copies} × tensor {asked.tensor}{groups})"
    work = f"{asked.model} in {asked.precision}{ways}"
    taken = assumed("capacity-work", work, prompt=asked.prompt, answer=asked.answer)
    rate = replace(answer.most, name="throughput", source=source, assumptions=sure)
    return Predicted(rate, lengths_said[0], lengths_said[1], plan.copies * asked.devices, (taken, *told))


def _best(plan: ServingPlan) -> ServingPlan:
    """The division of the devices into copies that serves most within the SLO."""
    many = plan.copies * plan.question.devices
    whole = replace(plan.question, tensor=1, data=1)
    plans = [
        replace(plan, question=share_of(whole, many, copy), copies=many // math.prod(copy))
        for copy in with_room(whole, many, plan.known)
        if many % math.prod(copy) == 0
    ]

    def served(each: ServingPlan) -> tuple[float, float]:
        alone = answer_at(each.question, _LIGHT, each.known)
        most = each.copies * most_load(each.question, each.target, each.known)
        return most, -_times(alone, each.target.of)[0] if alone else -float("inf")

    return max(plans, key=served, default=plan)


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


def _word(value: object) -> str | None:
    return None if value is None else str(value)
