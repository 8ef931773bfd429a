"""One way to meet a need: how far it does, the memory and device-hours that it takes, and its money."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

from twinlens.planning.check.deadline import Mfu, device_hours
from twinlens.planning.cost.algebra import CENT
from twinlens.planning.fit.answer import Placement
from twinlens.planning.fit.training import Training
from twinlens.planning.fit.training_answer import Ways, fewest, placed
from twinlens.planning.need import (
    CHINCHILLA,
    FEW_EXAMPLES,
    MANY_EXAMPLES,
    PER_MONTH,
    SHORTFALL,
    MethodRule,
    Need,
    Part,
    Step,
    ruling,
)
from twinlens.planning.subject import Subject
from twinlens.record.finding import Finding, each_once
from twinlens.spec.device import Device
from twinlens.theory.figure import End, Figure, Input, absent, total
from twinlens.theory.flop import prefill_flop
from twinlens.units import HOURS_A_MONTH

WAYS: dict[str, tuple[Step, ...]] = {
    "prompt": ("prompt",), "retrieval": ("retrieval",), "lora": ("lora",), "qlora": ("qlora",), "full": ("full",),
    "retrieval+lora": ("retrieval", "lora"), "retrieval+qlora": ("retrieval", "qlora"), "scratch": ("scratch",),
}  # fmt: skip
"""From the simplest on; of two that do as well for the same hours the earlier is taken."""


_SIDES: tuple[End, End] = ("low", "high")


@dataclass(frozen=True, slots=True)
class Asked:
    """A need, the model, and the devices that there are."""

    need: Need
    subject: Subject
    device: Device
    devices: int = 1
    mfu: Mfu = field(default_factory=Mfu)


@dataclass(frozen=True, slots=True)
class Way:
    """`meets`: for each part of the need the rule that decided. `once` and `monthly` are device-hours.

    `memory`: of training, None where nothing is trained. `against`: why it is out of the question; () where it is not.
    """

    name: str
    meets: tuple[tuple[Part, MethodRule], ...]
    memory: Placement | None
    once: Figure
    monthly: Figure
    hours: Figure
    cost: Figure
    against: tuple[Finding, ...]

    @property
    def shortfall(self) -> int:
        """0 where every part of the need is met; 1 for each that is met in part, 2 for each that is not."""
        return sum(SHORTFALL[rule.level] for _, rule in self.meets)

    def __json__(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "meets": {
                part: {"level": rule.level, "when": rule.when, "source": rule.source} for part, rule in self.meets
            },
            "possible": not self.against,
            "against": self.against,
            "memory": self.memory,
            "once": self.once,
            "monthly": self.monthly,
            "hours": self.hours,
            "cost": self.cost,
        }


def way_of(name: str, asked: Asked) -> Way:
    """One of `WAYS`, judged and computed."""
    need, steps, params = asked.need, WAYS[name], asked.subject.params
    meets = tuple(
        (part, min((ruling(step, part, need, params) for step in steps), key=lambda rule: SHORTFALL[rule.level]))
        for part in need.parts
    )
    trained = next((step for step in steps if step in TRAINED), None)
    once = _once(trained, "retrieval" in steps, asked)
    longer = _longer("retrieval" in steps, trained is not None, asked)
    monthly = total("monthly", "device-hours", (longer, _again(once, trained, "retrieval" in steps, need)))
    hours, memory = _over(once, monthly, need), _memory(trained, asked)
    cost = _cost(hours, need)
    why_not = against(need, asked.device.name, asked.devices, steps, once, memory, cost, meets)
    return Way(name, meets, memory, once, monthly, hours, cost, why_not)


def _training(step: str, asked: Asked) -> Training:
    method: Any = step if step in ("lora", "qlora") else "full"
    return Training(asked.subject, method, context=min(4096, asked.need.context))


def _once(step: str | None, retrieves: bool, asked: Asked) -> Figure:
    """Device-hours of training on examples and, without retrieval, the corpus; from scratch 20 tokens a parameter."""
    if step is None:
        return Figure("once", 0.0, "device-hours")
    need = asked.need
    corpus = 0.0 if retrieves else need.corpus
    tokens = (need.examples * need.example_tokens + corpus) * need.epochs
    if step == "scratch":
        tokens = max(float(CHINCHILLA * asked.subject.params), tokens)
    if tokens == 0:
        return Figure("once", 0.0, "device-hours")
    found = device_hours(_training(step, asked), asked.device, tokens, asked.mfu)
    if found.value is None and found.reason is not None:
        return absent("once", "device-hours", found.reason)
    return Figure("once", found.value, "device-hours", "{0}", (found,), low=found.low, high=found.high)


def _longer(retrieves: bool, is_trained: bool, asked: Asked) -> Figure:
    """Device-hours a month to read what stands in each prompt beside the request itself."""
    need, shape, peak = asked.need, asked.subject.shape, asked.device.rate("bf16") or asked.device.rate("fp16")
    extra = need.retrieved if retrieves else round(need.corpus) if need.corpus_in_prompt and not is_trained else 0
    extra += 0 if is_trained else need.shown
    if not extra:
        return Figure("longer-prompts", 0.0, "device-hours")
    if peak is None:
        unknown = Finding("plan-unknown", "warns", "device-hours", {"model": asked.device.name, "needs": "rate"})
        return absent("longer-prompts", "device-hours", unknown)
    if shape is None:
        flop = 2.0 * asked.subject.params * extra
    else:
        flop = float(prefill_flop(shape, need.prompt + extra)) - float(prefill_flop(shape, need.prompt))
    read = (Input("extra", extra, "tokens"), Input("prompt", need.prompt, "tokens"))
    each = Figure("prefill-extra", flop, "FLOP", "", read, source="theory/flop.py, causal")
    hours = need.requests * flop / peak / 3600
    return Figure(
        "longer-prompts", hours / asked.mfu.taken, "device-hours", "{0} × {1} / ({2} × {3}) / 3600 s",
        (Input("requests", need.requests, "requests"), each, Input("mfu", asked.mfu.taken, "share", asked.mfu.source),
         Input("peak", peak, "flop/s", asked.device.source)),
        low=hours / asked.mfu.high, high=hours / asked.mfu.low, law="device-time",
    )  # fmt: skip


def _again(once: Figure, step: str | None, retrieves: bool, need: Need) -> Figure:
    """Device-hours a month to train again as often as facts change, where weights hold them."""
    times = 0.0 if step is None or retrieves or not need.corpus else PER_MONTH[need.changes]
    if not times or once.value is None:
        return (
            Figure("again", 0.0, "device-hours")
            if once.value is not None
            else absent("again", "device-hours", _reason(once))
        )
    often = Input("changes", times, "1", f"facts change {need.changes}")
    return _scaled("again", once, times, "{0} × {1}", often)


def _over(once: Figure, monthly: Figure, need: Need) -> Figure:
    months = Input("months", need.months, "months")
    if once.value is None or monthly.value is None:
        return absent("hours", "device-hours", _reason(once if once.value is None else monthly))
    low, high = (once.end(side) + need.months * _monthly_end(monthly, side) for side in _SIDES)
    value = float(once.value) + need.months * float(monthly.value)
    return Figure("hours", value, "device-hours", "{0} + {1} × {2}", (once, monthly, months), low=low, high=high)


def _cost(hours: Figure, need: Need) -> Figure:
    if need.price is None or hours.value is None:
        lacks = Finding("plan-unknown", "warns", "cost", {"model": "a device-hour", "needs": "price"})
        return absent("cost", "$", lacks if hours.value is not None else _reason(hours))
    low, high = need.price
    middle = (low + high) / 2
    price = Input("price", middle, "$/h", need.price_source)
    value, least, most = (
        (Decimal(str(end)) * each).quantize(CENT)
        for end, each in ((hours.value, middle), (hours.end("low"), low), (hours.end("high"), high))
    )
    return Figure("cost", value, "$", "{0} × {1}", (hours, price), low=least, high=most)


def _memory(step: str | None, asked: Asked) -> Placement | None:
    """Training on the devices there are, else on the fewest that hold it."""
    if step is None:
        return None
    plan = _training(step, asked)
    here = placed(plan, asked.device, asked.devices, Ways())
    return here if here.fits is not False else fewest(plan, asked.device) or here


def _scaled(name: str, of: Figure, times: float, formula: str, often: Input) -> Figure:
    return Figure(name, times * of.number, of.unit, formula, (of, often), low=times * of.end("low"),
                  high=times * of.end("high"))  # fmt: skip


def _monthly_end(monthly: Figure, side: End) -> float:
    """A sum has no band of its own; that of its parts is."""
    return sum(each.end(side) for each in monthly.inputs if isinstance(each, Figure))


def _reason(figure: Figure) -> Finding:
    if figure.reason is None:
        raise ValueError(f"{figure.name} is absent and does not say why")
    return figure.reason


# Reasons that put a way to meet a need out of the question: weights, memory, time, and money.

TRAINED: tuple[Step, ...] = ("lora", "qlora", "full", "scratch")
"""Steps that train weights."""


def against(
    need: Need,
    device: str,
    devices: int,
    steps: tuple[Step, ...],
    once: Figure,
    memory: Placement | None,
    cost: Figure,
    meets: tuple[tuple[Part, MethodRule], ...],
) -> tuple[Finding, ...]:
    """Why a way is out of the question on so many devices; () where it is not.

    `once`: device-hours of training; `cost` in the currency of the budget. Each is judged by the far end of its band.
    """
    found = []
    if any(part == "own-weights" and rule.level == "no" for part, rule in meets):
        found.append(_no("own-weights"))
    if any(step in TRAINED for step in steps) and once.value == 0:
        found.append(_no("nothing-to-train-on"))
    if memory is not None and (memory.devices > devices or memory.fits is False):
        found.append(_no("memory", needs=memory.devices, has=devices, device=device))
    if need.deadline_s is not None and once.value and once.end("high") * 3600 / devices > need.deadline_s:
        found.append(_no("deadline", hours=once.end("high") / devices, limit_h=need.deadline_s / 3600))
    times = PER_MONTH[need.changes] if need.corpus and "retrieval" not in steps else 0.0
    if times and once.value and once.end("high") / devices > HOURS_A_MONTH / times:
        found.append(_no("changes", hours=once.end("high") / devices, limit_h=HOURS_A_MONTH / times))
    if need.budget is not None and cost.value is not None and Decimal(str(cost.end("high"))) > need.budget:
        found.append(_no("budget", cost=cost.end("high"), limit=float(need.budget), months=need.months))
    return tuple(found)


def _no(why: str, **numbers: Any) -> Finding:
    return Finding("plan-method", "notes", why, numbers)


# The method that meets most of a need for the fewest device-hours, and single changes that make it another.

_REQUESTS = (0.001, 0.01, 0.1, 10.0, 100.0, 1000.0)


@dataclass(frozen=True, slots=True)
class Method:
    """`ways` in the order of `WAYS`; `chosen` None where all are out of the question. `flips`: what changes it."""

    asked: Asked
    ways: tuple[Way, ...]
    chosen: Way | None
    flips: tuple[Finding, ...] = ()

    def assumptions(self) -> tuple[Finding, ...]:
        """All that was taken for granted, each once."""
        costs = (each for way in self.ways for each in way.cost.all_assumptions())
        return each_once((*self.asked.subject.assumed, *costs))

    def __json__(self) -> dict[str, Any]:
        """The arithmetic, as plain data."""
        need = self.asked.need
        return {
            "model": self.asked.subject.name,
            "device": self.asked.device.name,
            "devices": self.asked.devices,
            "needs": need.parts,
            "requests": need.requests,
            "months": need.months,
            "chosen": self.chosen.name if self.chosen else None,
            "ways": self.ways,
            "flips": self.flips,
            "assumptions": self.assumptions(),
        }


def method_answer(asked: Asked) -> Method:
    """All ways, the one that is chosen, and what would change that."""
    ways = tuple(way_of(name, asked) for name in WAYS)
    chosen = chosen_of(ways)
    return Method(asked, ways, chosen, tuple(_flips(asked, chosen)))


def chosen_of(ways: tuple[Way, ...]) -> Way | None:
    """Of those that are possible the one that lacks least; of these the one of the fewest hours, then the simplest."""
    possible = [each for each in ways if not each.against and each.hours.value is not None]
    return min(possible, key=lambda way: (way.shortfall, way.hours.number), default=None)


def _flips(asked: Asked, chosen: Way | None) -> Iterator[Finding]:
    """One input changed at a time, kept where another way is then chosen; of requests the nearest on each side."""
    name = chosen.name if chosen else None
    sides: set[bool] = set()
    for what, numbers, other in _others(asked):
        now = chosen_of(tuple(way_of(each, other) for each in WAYS))
        if now is None or now.name == name:
            continue
        more = what == "requests" and other.need.requests > asked.need.requests
        if what == "requests":
            if more in sides:
                continue
            sides.add(more)
        yield Finding("plan-method-flip", "notes", what, {**numbers, "way": now.name})


def _others(asked: Asked) -> Iterator[tuple[str, dict[str, Any], Asked]]:
    need = asked.need

    def changed(what: str, value: Any, **fields: Any) -> tuple[str, dict[str, Any], Asked]:
        return what, {"value": value}, replace(asked, need=replace(need, **fields))

    if need.corpus:
        yield changed("no-corpus", 0, corpus=0.0)
        yield from (changed("changes", each, changes=each) for each in ("never", "daily") if each != need.changes)
    else:
        yield changed("corpus", 10_000_000, corpus=1e7)
    yield changed("no-style" if need.style else "style", not need.style, style=not need.style)
    yield from (
        changed("examples", many, examples=many) for many in (0, FEW_EXAMPLES, MANY_EXAMPLES) if many != need.examples
    )
    for times in sorted(_REQUESTS, key=lambda each: max(each, 1 / each)):
        yield changed("requests", need.requests * times, requests=need.requests * times)
    if need.budget is not None:
        yield changed("no-budget", 0, budget=None)
    if need.deadline_s is not None:
        yield changed("no-deadline", 0, deadline_s=None)
    for many in (8, 64):
        if many > asked.devices:
            yield "devices", {"value": many, "device": asked.device.name}, replace(asked, devices=many)
    if not need.own_weights:
        yield changed("own-weights", 1, own_weights=True)
