"""Capacity of serving: what copies of a model do under a load, how much they could carry, and how many it takes."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, get_args

from twinlens.planning.capacity.target import (
    Headroom,
    Target,
    answer_at,
    is_rate,
    load_of,
    most_load,
    remarks_of,
    requests_figure,
    tail_figures,
    tpot_figure,
    ttft_figure,
    what_stops,
)
from twinlens.planning.prediction.answer import ServingAnswer
from twinlens.planning.prediction.band import LEVEL, Calibrated
from twinlens.planning.prediction.question import ServingQuestion
from twinlens.record.codec import encode
from twinlens.record.finding import Finding
from twinlens.theory.figure import End, Figure, Input, absent


@dataclass(frozen=True, slots=True)
class ServingPlan:
    """`question`: one copy with its share of the load, of which there are `copies`.

    `users`: of all copies, who may be fewer than the copies; None: as many as the question has, of each copy.
    """

    question: ServingQuestion
    copies: int
    target: Target
    headroom: Headroom
    known: Calibrated
    users: float | None = None

    @property
    def load(self) -> float:
        """Of all copies: users, or requests/s."""
        return self.copies * load_of(self.question) if self.users is None else self.users

    @property
    def unit(self) -> str:
        return "requests/s" if is_rate(self.question) else "users"

    def __json__(self) -> dict[str, Any]:
        asked = self.question
        return {
            "lens": "inference", "model": asked.model, "device": asked.device.name, "precision": asked.precision,
            "engine": asked.engine, "tensor": asked.tensor, "groups": asked.data, "copies": self.copies,
            "load": self.load, "load_unit": self.unit, "prompt": asked.prompt, "answer": asked.answer,
            "target": {"ttft_s": self.target.ttft_s, "tpot_s": self.target.tpot_s, "of": self.target.of},
            "headroom": {"peak": self.headroom.peak, "spare": self.headroom.spare},
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Point:
    """Latencies at one load of all copies; both absent where the queue has no end."""

    load: float
    answer: ServingAnswer | None


@dataclass(frozen=True, slots=True)
class ServingCapacity:
    """`most`: the load of all copies at the target, and `stops`: what stops a larger one. `missed`: at this load."""

    plan: ServingPlan
    figures: tuple[Figure, ...]
    most: Figure
    devices: Figure
    stops: str | None
    missed: str | None
    remarks: tuple[Finding, ...]
    tails: tuple[Figure, ...] = ()
    """p99 of TTFT and of TPOT; () where the queue has no end."""

    @property
    def is_met(self) -> bool:
        return self.missed is None

    def figure(self, name: str) -> Figure | None:
        """One of `figures` by its name: ttft, tpot, requests, tokens."""
        return next((each for each in self.figures if each.name == name), None)

    def curve(self, count: int = 14) -> tuple[Point, ...]:
        """Latencies from a light load to a tenth above the largest one at the target."""
        top = 1.1 * max(self.most.number, self.plan.load)
        loads = [top * (place + 1) / count for place in range(count)]
        question, copies = self.plan.question, self.plan.copies
        if not is_rate(question):
            loads = sorted({max(1.0, float(round(load))) for load in loads})
        least = 0.0 if is_rate(question) else 1.0  # a copy with a user has a whole one
        return tuple(Point(load, answer_at(question, max(load / copies, least), self.plan.known)) for load in loads)

    def __json__(self) -> dict[str, Any]:
        """The arithmetic, as plain data."""
        return {
            **encode(self.plan),
            "met": self.is_met,
            "missed": self.missed,
            "stops": self.stops,
            "figures": (*self.figures, *self.tails),
            "most": self.most,
            "devices": self.devices,
            "remarks": self.remarks,
        }


def serving_capacity(plan: ServingPlan) -> ServingCapacity:
    """The answer. Raises BadInput where one sequence has no room on a copy."""
    question, known = plan.question, plan.known
    own = load_of(question)
    answer = answer_at(question, own, known)
    most = _most(plan)
    carried = most.number / plan.copies
    after = carried * 1.01 if is_rate(question) else carried + 1
    return ServingCapacity(
        plan,
        _figures(plan, answer),
        most,
        _devices(plan, most),
        what_stops(question, max(after, 1e-3), plan.target, known, "value"),
        what_stops(question, own, plan.target, known, "value"),
        remarks_of(answer or answer_at(question, max(carried, 1e-3), known), question),
        () if answer is None else tail_figures(answer, _slower(question, own, answer, known)),
    )


def _slower(question: ServingQuestion, load: float, answer: ServingAnswer, known: Calibrated) -> ServingAnswer | None:
    """The answer where all times are longer by the band: users wait for it, requests that come at random pile up."""
    return answer_at(question, load * answer.tpot_s.high / answer.tpot_s.value, known) if is_rate(question) else answer


def _figures(plan: ServingPlan, answer: ServingAnswer | None) -> tuple[Figure, ...]:
    if answer is None:
        reason = Finding("plan-overload", "warns", plan.question.model, {"load": plan.load, "unit": plan.unit})
        return tuple(absent(name, unit, reason) for name, unit in (("ttft", "s"), ("tpot", "s")))
    ttft, tpot = ttft_figure(answer, plan.question), tpot_figure(answer)
    requests = requests_figure(plan.load, plan.unit, plan.question.answer, ttft, tpot)
    length = Input("answer", plan.question.answer, "tokens")
    value, low, high = (
        None if end is None else float(end) * plan.question.answer
        for end in (requests.value, requests.low, requests.high)
    )
    tokens = Figure("tokens", value, "tokens/s", "{0} × {1}", (requests, length), low, high, requests.level)
    return ttft, tpot, requests, tokens


def _most(plan: ServingPlan) -> Figure:
    """The load of all copies at the target; the band's far end tells the load that is kept nearly surely."""
    each = most_load(plan.question, plan.target, plan.known)
    most, low, high = (
        plan.copies * load
        for load in (each, *(most_load(plan.question, plan.target, plan.known, end, each) for end in ("high", "low")))
    )
    inputs = (Input("copies", plan.copies, "copies"), *plan.target.inputs())
    return Figure("at-target", most, plan.unit, "", inputs, min(low, most), max(high, most), LEVEL,
                  source=f"the largest load whose predicted {plan.target.of} latencies keep the target")  # fmt: skip


def _devices(plan: ServingPlan, most: Figure) -> Figure:
    """Devices for the peak of the load and the copies that may fail."""
    each = {name: most.end(name) / plan.copies for name in get_args(End)}
    if not each["value"]:
        reason = Finding("plan-unmet", "warns", plan.question.model, {"unit": plan.unit})
        return absent("devices", "devices", reason)
    peak, spare = plan.headroom.peak, plan.headroom.spare

    def copies(carried: float) -> int:
        return math.ceil(plan.load * peak / carried - 1e-9) + spare

    own = replace(most, name="at-target-each", value=each["value"], low=each["low"], high=each["high"])
    inputs = (Input("load", plan.load, plan.unit), Input("peak", peak, "1"), own,
              Input("spare", spare, "copies"), Input("devices-each", plan.question.devices, "devices"))  # fmt: skip
    return Figure(
        "devices", plan.question.devices * copies(each["value"]), "devices",
        "(ceil({0} × {1} / {2}) + {3}) × {4}", inputs,
        plan.question.devices * copies(each["high"]),
        plan.question.devices * copies(each["low"]) if each["low"] else None,
        LEVEL,
    )  # fmt: skip
