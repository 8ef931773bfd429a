"""One way to meet a need: how far it does, the memory and device-hours that it takes, and its money."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from twinlens.planning.check.deadline import Mfu, device_hours
from twinlens.planning.cost.cent import CENT
from twinlens.planning.figure import End, Figure, Input, absent, total
from twinlens.planning.fit.placement import Placement
from twinlens.planning.fit.training import Training
from twinlens.planning.fit.training_answer import Ways, fewest, placed
from twinlens.planning.method.against import TRAINED, against
from twinlens.planning.method.need import PER_MONTH, Need, Part
from twinlens.planning.method.rule import CHINCHILLA, SHORTFALL, MethodRule, Step, ruling
from twinlens.planning.subject import Subject
from twinlens.record.finding import Finding
from twinlens.spec.device import Device
from twinlens.theory.flop import prefill_flop

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
        low=hours / asked.mfu.high, high=hours / asked.mfu.low,
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
