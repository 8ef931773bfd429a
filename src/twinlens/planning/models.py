"""The Pareto set of models that keep all constraints: less memory, less time per token, more tokens, more quality."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from twinlens.errors import BadInput
from twinlens.planning.fit.answer import Placement
from twinlens.planning.fit.serving import Serving
from twinlens.planning.fit.serving_answer import divided, placed
from twinlens.planning.prediction.answer import refuse_processor, serving_answer
from twinlens.planning.prediction.band import LEVEL, shipped
from twinlens.planning.prediction.place import is_rated
from twinlens.planning.prediction.question import ServingQuestion
from twinlens.record.finding import Finding
from twinlens.spec.device import Device
from twinlens.theory.figure import Figure, Input, absent

# One model on the box that was asked about: memory, predicted speed and cost, and what a user says of it.


@dataclass(frozen=True, slots=True)
class Told:
    """What a user's file says of a model. Scores are an axis of their own: nothing is predicted from them."""

    quality: float | None = None
    licence: str | None = None
    context: int | None = None


@dataclass(frozen=True, slots=True)
class Limits:
    """What a model must keep. `licences`: those that are allowed, None: any."""

    tpot_s: float | None = None
    quality: float | None = None
    cost: Decimal | None = None
    licences: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Candidate:
    """`tpot`, `throughput` (answer tokens/s of the box) and `cost` ($ per million answer tokens) as figures.

    `against`: constraints that it breaks, or what is not known where one asks; () where it passes.
    """

    plan: Serving
    memory: Placement
    tpot: Figure
    throughput: Figure
    cost: Figure
    told: Told
    against: tuple[Finding, ...] = ()

    @property
    def name(self) -> str:
        return self.plan.subject.name

    @property
    def bytes(self) -> float | None:
        """Of all devices together."""
        needed = self.memory.needed.value
        return None if needed is None else float(needed) * self.memory.devices

    def __json__(self) -> dict[str, Any]:
        return {
            "model": self.name,
            "possible": not self.against,
            "against": self.against,
            "memory": self.memory,
            "tpot": self.tpot,
            "throughput": self.throughput,
            "cost": self.cost,
            "quality": self.told.quality,
            "licence": self.told.licence,
            "context": self.told.context,
        }


def candidate_of(
    plan: Serving,
    device: Device,
    devices: int,
    answer: int,
    precision: str,
    price: Decimal | None,
    limits: Limits,
    told: Mapping[str, Told],
) -> Candidate:
    """A model with its figures, and the constraints that it breaks. `precision` is the word of predictions."""
    plan, tensor = divided(plan, devices, device)
    memory = placed(plan, device, tensor)
    tpot, throughput = _speed(plan, device, tensor, answer, precision)
    cost, said = _cost(throughput, price, devices), told.get(plan.subject.name, Told())
    against = tuple(_against(plan, memory, tpot, cost, limits, said))
    return Candidate(plan, memory, tpot, throughput, cost, said, against)


def _speed(plan: Serving, device: Device, tensor: int, answer: int, precision: str) -> tuple[Figure, Figure]:
    shape, name = plan.subject.shape, plan.subject.name
    if shape is None:
        return _unknown("tpot", "s", name, "layers"), _unknown("throughput", "tokens/s", name, "layers")
    try:
        refuse_processor(device, shipped()["serving"])
        found = serving_answer(ServingQuestion(
            name, shape, device, precision, plan.context - answer, answer, users=plan.users, tensor=tensor,
            data=plan.groups, engine="vllm", subject=plan.subject, kv_bytes=plan.kv_element_bytes,
        ))  # fmt: skip
    except BadInput:
        needs = "prediction" if is_rated(device) else "device-rate"
        return _unknown("tpot", "s", name, needs), _unknown("throughput", "tokens/s", name, needs)
    asked = (Input("users", plan.users, "users"), Input("prompt", plan.context - answer, "tokens"),
             Input("answer", answer, "tokens"), Input("devices", tensor * plan.groups, "devices"))  # fmt: skip
    said = found.tpot_s
    tpot = Figure("tpot", said.value, "s", "", asked, said.low, said.high, LEVEL, source="planning/prediction")
    rate = Figure("throughput", found.answer_tokens_per_s, "tokens/s", "", asked, source="planning/prediction")
    return tpot, rate


def _cost(throughput: Figure, price: Decimal | None, devices: int) -> Figure:
    if throughput.value is None or price is None:
        reason = throughput.reason or Finding(
            "plan-unknown", "warns", "cost", {"model": "a device-hour", "needs": "price"}
        )
        return absent("cost", "$", reason)
    value = (Decimal(devices) * price * 10**6 / (3600 * Decimal(str(throughput.value)))).quantize(Decimal("0.0001"))
    inputs = (Input("devices", devices, "devices"), Input("price", price, "$/h"), throughput)
    return Figure("cost", value, "$", "{0} × {1} × 10⁶ / (3600 s × {2})", inputs, law="price-per-token")


def _against(plan: Serving, memory: Placement, tpot: Figure, cost: Figure, limits: Limits, told: Told) -> list[Finding]:
    found = []
    if memory.fits is not True:
        found.append(_no("memory") if memory.fits is False else _no("not-known", what="memory"))
    if tpot.value is None and memory.fits:
        needs = tpot.reason.numbers["needs"] if tpot.reason else ""
        found.append(_no("not-known", what="device-rate" if needs == "device-rate" else "speed"))
    if limits.tpot_s is not None and tpot.value is not None and float(tpot.value) > limits.tpot_s:
        found.append(_no("tpot", ms=1000 * float(tpot.value), limit_ms=1000 * limits.tpot_s))
    if limits.cost is not None and (cost.value is None or Decimal(str(cost.value)) > limits.cost):
        found.append(_no("not-known", what="cost") if cost.value is None else _no("cost", cost=float(cost.value)))
    if limits.quality is not None and (told.quality is None or told.quality < limits.quality):
        found.append(_no("not-known", what="quality") if told.quality is None else _no("quality", score=told.quality))
    if limits.licences is not None and (told.licence is None or told.licence not in limits.licences):
        found.append(_no("not-known", what="licence") if told.licence is None else _no("licence", licence=told.licence))
    shape = plan.subject.shape
    room = told.context or (shape.max_context if shape else None)
    if room is not None and room < plan.context:
        found.append(_no("context", context=room))
    return found


def _no(why: str, **numbers: Any) -> Finding:
    return Finding("plan-model", "notes", why, numbers)


def _unknown(name: str, unit: str, model: str, needs: str) -> Figure:
    return absent(name, unit, Finding("plan-unknown", "warns", name, {"model": model, "needs": needs}))


@dataclass(frozen=True, slots=True)
class Choice:
    """`candidates` in the order asked for; `beaten`: a possible model and one that is as good on each axis."""

    device: Device
    devices: int
    candidates: tuple[Candidate, ...]
    beaten: tuple[tuple[str, str], ...]

    @property
    def best(self) -> tuple[str, ...]:
        """The Pareto set."""
        lost = {name for name, _ in self.beaten}
        return tuple(each.name for each in self.candidates if not each.against and each.name not in lost)

    def __json__(self) -> dict[str, Any]:
        """The arithmetic, as plain data."""
        return {
            "device": self.device.name,
            "devices": self.devices,
            "best": self.best,
            "beaten": dict(self.beaten),
            "models": self.candidates,
        }


def choice(candidates: Sequence[Candidate], device: Device, devices: int) -> Choice:
    """What is left after the constraints, and which of it is beaten by what."""
    possible = [each for each in candidates if not each.against]
    beaten = []
    for each in possible:
        by = next((other for other in possible if other is not each and beats(other, each)), None)
        if by is not None:
            beaten.append((each.name, by.name))
    return Choice(device, devices, tuple(candidates), tuple(beaten))


def beats(one: Candidate, other: Candidate) -> bool:
    """As good on every axis and better on one; one with a score and one without are not compared."""
    pairs = list(zip(_axes(one), _axes(other), strict=True))
    mine, its = one.told.quality, other.told.quality
    if (mine is None) != (its is None):
        return False
    if mine is not None and its is not None:
        pairs.append((-mine, -its))
    return all(a <= b for a, b in pairs) and any(a < b for a, b in pairs)


def _axes(one: Candidate) -> tuple[float, float, float]:
    """Smaller is better."""
    if one.bytes is None or one.tpot.value is None or one.throughput.value is None:
        raise ValueError(f"{one.name} has no figures to be compared by")
    return one.bytes, float(one.tpot.value), -float(one.throughput.value)
