"""Laws as sentences say them: the row of a law (`theory/law.py`) with the kinds of number that may be its figure.

An input is read by its part (`PARTS`): as said, or from the model and the device.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

from twinlens.claims.reading.part import PARTS, USUAL_MFU, Part
from twinlens.claims.said import (
    Answer,
    Bound,
    Gap,
    Said,
    View,
    Word,
    assumed,
    by_name,
    lacking,
    part_of_whole,
    solved,
    values,
)
from twinlens.record.finding import Finding
from twinlens.theory.figure import Figure, Input, by_law
from twinlens.theory.law import LAWS, Law
from twinlens.units import HOUR_S, HOURS_A_MONTH, MONTH_S

_MOST_CASES = 4
_LEAST = {"power": 20.0, "price-per-hour": 0.1}
"""What no device in a data centre falls below, in W and $/h."""


@dataclass(frozen=True, slots=True)
class Reading:
    """One law as a sentence says it. `quantity` names the figure, `kinds` are the kinds of number that may be it.

    `topics`: words of which one must be there. `unless`: words that mean another law. `maybe`: inputs that count where
    they are said, and `either`: of these, inputs that the figure may already be of all of ("8 H100 at $20 per hour").
    `without`: an input that is left out, so that the law is a bound. `parts`: inputs that are read as another part.
    """

    quantity: str
    unit: str
    kinds: tuple[str, ...]
    law: Law
    topics: tuple[str, ...] = ()
    unless: tuple[str, ...] = ()
    maybe: tuple[str, ...] = ()
    either: tuple[str, ...] = ()
    bound: Bound = "same"
    missing: tuple[str, ...] = ()
    is_arithmetic: bool = True
    """Whether it is of numbers alone: the name of a model or a device beside them changes nothing."""
    without: str = ""
    parts: Mapping[str, str] = field(default_factory=dict)

    @property
    def inputs(self) -> dict[str, str]:
        """The part that each input of the law is read from."""
        return {name: self.parts.get(name, name) for name in self.law.inputs if name != self.without}

    def __call__(self, view: View) -> Answer | Gap | None:
        claimed = self._figure(view)
        if claimed is None or view.about(*self.unless) or any(each.value != self._times for each in view.all("factor")):
            return None
        if self.topics and not view.says(*self.topics):
            return None
        parts: dict[str, Part] = {}
        lacks: list[str] = []
        for name in self.inputs.values():
            part = PARTS[name](view)
            if part is not None:
                parts[name] = part
            elif name not in self.maybe:
                lacks.append(name)
        if lacks:
            known = [name for name in parts if name not in self.maybe and name != "period"]
            return Gap(self.quantity, tuple(lacks)) if known else None
        if self.unit == "share":
            part_of_whole(claimed)
        prices = (*view.claim.all("price_hour"), *view.claim.all("power"))
        of_each = any(each.per == "device" for each in prices)
        cases = tuple(self._cases(parts, of_each))[:_MOST_CASES]
        wider = {name: replace(part, readings=part.also or part.readings) for name, part in parts.items()}
        also = tuple(self._cases(wider, of_each))
        rare = also[:_MOST_CASES] if any(part.also for part in parts.values()) else ()
        missing = (
            *(part.missing for part in parts.values() if part.missing),
            *(name for name in self.missing if name not in parts),
        )
        return Answer(
            claimed, cases, bound=self.bound, also=rare, missing=missing,
            assumed=tuple(note for part in parts.values() for note in part.assumed),
            is_open=any(part.missing == "mfu" for part in parts.values()) and self._leaves_mfu(claimed, cases),
            solutions=tuple(self._solutions(claimed, parts)),
            is_limit=claimed.side == "most" and self.bound == "at-most",
            is_arithmetic=self.is_arithmetic
            or not any(isinstance(each, Word) and each.kind in ("model", "device") for each in view.used),
        )  # fmt: skip

    @property
    def _times(self) -> float:
        """The number with which the law begins: "6 × 70B × 15T"."""
        first = next(iter(self.law.constants.values()), None)
        return first.value if first is not None and self.law.formula[0].isdigit() else 1.0

    def _leaves_mfu(self, claimed: Said, cases: tuple[Figure, ...]) -> bool:
        """Whether an MFU that is not said, outside the usual ones and of at most 1, would make the claim right."""
        (low, high), (least, most) = claimed.range, values(cases)
        return not (least <= high and low <= most) and high >= least * USUAL_MFU[-1]

    def _figure(self, view: View) -> Said | None:
        kind = next((kind for kind in self.kinds if view.peek(kind)), None)
        return view.one(kind) if kind else None

    def _cases(self, parts: Mapping[str, Part], of_each: bool) -> Iterator[Figure]:
        for readings in product(*(parts[name].readings for name in parts)):
            taken = dict(zip(parts, readings, strict=True))
            words = ", ".join(label for _, label in readings if label)
            yield self._case(parts, {name: value for name, (value, _) in taken.items()}, words)
            left = [name for name in self.either if taken.get(name, (1.0, ""))[0] != 1.0]
            if left and not of_each and _may_be_of_all(taken):
                rest = {name: value for name, (value, _) in taken.items() if name not in left}
                yield self._case(parts, rest, words or "of-all")

    def _case(self, parts: Mapping[str, Part], taken: Mapping[str, float], words: str) -> Figure:
        said = {name: part for name, part in self.inputs.items() if part in taken}
        given = {name: Input(part, taken[part], parts[part].unit) for name, part in said.items()}
        return by_law(self.law.name, given, self.quantity, self.unit, reading=words)

    def _solutions(self, claimed: Said, parts: Mapping[str, Part]) -> Iterator[Finding]:
        """For each input the value with which the claim would be right."""
        taken = {name: part.readings[0][0] for name, part in parts.items()}
        for name, part in self.inputs.items():
            if part not in parts or len(parts[part].readings) > 1 or part not in SETTINGS:
                continue
            others = {each: taken[of] for each, of in self.inputs.items() if each != name and of in taken}
            wanted = self.law.inverse(name, claimed.value, others)
            if wanted is not None and (parts[part].unit != "share" or wanted <= 1):
                yield solved(self.quantity, self.unit, claimed.value, {SETTINGS[part]: wanted})


def _may_be_of_all(taken: Mapping[str, tuple[float, str]]) -> bool:
    """Whether the price or the power may be of all devices together: a share of it is still one of a device."""
    many = taken["devices"][0]
    return all(taken[name][0] >= least * many for name, least in _LEAST.items() if name in taken)


SETTINGS = {
    "devices": "devices", "rate": "rate", "mfu": "mfu", "tokens": "tokens", "reached": "flop_rate",
    "price-per-hour": "price_hour", "price-per-kwh": "price_kwh", "money": "money", "requests": "requests",
    "power": "power", "device-time": "device_time", "time": "time", "price-per-device": "price_device",
    "users": "users",
}  # fmt: skip
"""Inputs for which a solution is worth saying, and the name of the setting."""

_TRAIN = ("training", "mfu")
_DEVICES = ("devices",)


def _law(name: str, quantity: str, unit: str, *kinds: str, **more: Any) -> Reading:
    return Reading(quantity or name, unit, kinds, LAWS[name], **more)


def _of_model(name: str, quantity: str, unit: str, *kinds: str, **more: Any) -> Reading:
    """One in which the name of a model or a device counts."""
    return _law(name, quantity, unit, *kinds, is_arithmetic=False, **more)


READINGS: tuple[Reading, ...] = (
    _law("price-per-token", "", "$/token", "price_token", maybe=("devices", "utilisation"), either=_DEVICES,
         missing=("utilisation",)),
    _law("bill", "", "$", "money", "cost_month", "cost_day"),
    _law("rent", "bill", "$", "money", "cost_month", "cost_day", "cost_year", unless=("break-even", "energy"),
         maybe=_DEVICES, either=_DEVICES),
    _law("rent-of-device-time", "bill", "$", "money"),
    _law("purchase", "bill", "$", "money"),
    _of_model("training-cost", "", "$", "money"),
    _law("energy-per-token", "", "j/token", "j_token", maybe=_DEVICES, either=_DEVICES, missing=("host-power",)),
    _law("tokens-per-joule", "", "tokens/J", "tokens_per_j", maybe=_DEVICES, either=_DEVICES, missing=("host-power",)),
    _law("energy", "", "j", "energy", maybe=_DEVICES, either=_DEVICES),
    _law("energy-of-tokens", "energy", "j", "energy"),
    _law("energy-cost", "", "$", "money", "cost_month", "cost_day", "cost_year", unless=("break-even",),
         maybe=_DEVICES),
    _of_model("device-time", "", "device-s", "device_time"),
    _of_model("training-flop", "", "FLOP", "flop", unless=("prefill", "forward", "inference")),
    _of_model("training-flop-per-token", "flop-per-token", "FLOP", "flop_token", topics=("training",)),
    _of_model("forward-flop-per-token", "flop-per-token", "FLOP", "flop_token", unless=("training",)),
    _of_model("chinchilla", "", "tokens", "tokens", topics=("chinchilla",)),
    _of_model("training-time", "", "s", "time"),
    _law("transfer-time", "", "s", "time", topics=("transfer", "fits", "checkpoint"),
         unless=("all-reduce", "decode", "tpot"), parts={"link-bandwidth": "link-rate"}),
    _of_model("mfu", "", "share", "share", maybe=_DEVICES,
              unless=("prefill", "speculation", "acceptance", "all-reduce", "bandwidth")),
    _law("mfu-reached", "mfu", "share", "share", topics=("mfu",), unless=("all-reduce",),
         parts={"peak": "device-peak"}),
    _of_model("training-rate", "", "tokens/s", "rate", topics=_TRAIN, unless=("prefill",), maybe=_DEVICES,
              bound="at-most", missing=("mfu-reached",), without="mfu"),
    _law("tokens", "", "tokens", "tokens", "tokens_day", "tokens_month", "context"),
    _of_model("tokens-per-parameter", "", "tokens/parameter", "tokens_param"),
    _of_model("mbu", "", "share", "share", topics=("mbu",), maybe=("users",), parts={"step-tokens": "users"}),
    _law("steps", "", "steps", "steps", maybe=("epochs",), parts={"samples-per-step": "users"}),
    _law("tokens-per-step", "", "tokens", "tokens_step", "passed", "tokens", maybe=_DEVICES,
         parts={"batch": "users", "replicas": "devices"}),
    _law("in-flight", "", "requests", "in_flight", "sequences", parts={"latency": "time"}),
    _of_model("ridge", "", "FLOP/byte", "intensity", parts={"bandwidth": "link-bandwidth"}),
)  # fmt: skip


# Claims on money that no single product gives: bills of users, energy in a cost, break-even, and useful hours.
#
# Power, its price and fixed costs that a claim does not say are not 0: without them an answer is a bound.


@dataclass(frozen=True, slots=True)
class Running:
    """Cost of an hour beside the price: what is said of it, and what is not said and so may only add to it."""

    per_hour: float
    missing: tuple[str, ...]
    is_bound: bool
    """Whether it is the least that an hour may cost: not even power is said."""

    @property
    def term(self) -> tuple[Input, ...]:
        return (Input("own-per-hour", self.per_hour, "$/h"),) if self.per_hour else ()


def _running(view: View, hours_a_month: float | None) -> Running:
    power, kwh, fixed = view.value("power"), view.value("price_kwh"), view.value("cost_month")
    needed = {"power": power, "price-per-kwh": kwh, "fixed-costs": fixed}
    energy = power / 1000 * kwh if power is not None and kwh is not None else 0.0
    each = fixed / hours_a_month if fixed is not None and hours_a_month else 0.0
    return Running(energy + each, lacking(needed), power is None or kwh is None)


def break_even(view: View) -> Answer | Gap | None:
    """ "A $37500 GPU pays for itself in 6-14 months at 8 h a day against $3/h": price over what an hour saves."""
    claimed = view.one("time") if view.says("break-even") else None
    if claimed is None:
        return None
    price, rented, daily = view.value("money"), view.value("price_hour"), view.value("hours_day")
    daily = 24.0 if daily is None and "hour" in claimed.text else daily  # hours of use
    if price is None or rented is None or daily is None:
        return Gap("break-even", lacking({"money": price, "price-per-hour": rented, "hours-per-day": daily}))
    hours = daily * HOURS_A_MONTH / 24
    own = _running(view, hours)
    if rented <= own.per_hour:
        return Gap("break-even", ("saving",))
    given = by_name(Input("money", price, "$"), Input("price-per-hour", rented, "$/h"),
                     Input("hours-per-month", hours, "h"), *own.term)  # fmt: skip
    months = by_law("break-even", given)
    case = replace(months, value=months.number * MONTH_S, unit="s")
    return Answer(
        claimed, (case,), bound="at-least" if own.is_bound else "same",
        missing=own.missing, solutions=tuple(_paid_in(claimed, price, hours, rented, own)),
        is_open=own.is_bound and claimed.range[1] >= case.number,
    )  # fmt: skip


def _paid_in(claimed: Said, price: float, hours: float, rented: float, own: Running) -> Iterator[Finding]:
    """The rented prices that the claim asks for, and what an own hour may cost beside the price of the machine."""
    low, high = (price / (end / MONTH_S) / hours for end in (claimed.high or 0.0, claimed.low or 0.0))
    yield solved(
        "break-even", "s", claimed.value, {"price_hour": low + own.per_hour, "price_hour_high": high + own.per_hour}
    )
    if rented > low and own.is_bound:
        yield solved("break-even", "s", claimed.value, {"own_hour": rented - low})


def useful_hour(view: View) -> Answer | Gap | None:
    """ "An H100 costs $0.90-1.40 per useful hour at 70 % utilisation, $30k over 36 months": price over busy hours."""
    claimed = view.one("price_useful")
    if claimed is None:
        return None
    price, life, busy = view.value("money"), view.value("time"), view.value("share")
    part_of_whole(view.one("share"))
    if price is None or life is None:
        return Gap("price-per-hour", lacking({"price-and-life": None, "utilisation": busy}))
    used, hours = busy or 1.0, life / HOUR_S
    own = _running(view, HOURS_A_MONTH * used)
    given = by_name(
        Input("money", price, "$"), Input("hours", hours, "h"), Input("utilisation", used, "share"), *own.term
    )
    case = by_law("price-per-useful-hour", given, "price-per-hour", "$/h")
    life_s = Input("life", life, "s")
    case = replace(case, inputs=tuple(life_s if each.name == "hours" else each for each in case.inputs))
    left = max(0.0, claimed.value - own.per_hour)
    solutions = [solved("price-per-hour", "$/h", claimed.value, {"money": left * hours * used})] if left else []
    if left and (share := price / hours / left) <= 1:
        solutions.append(solved("price-per-hour", "$/h", claimed.value, {"share": share}))
    is_least = own.is_bound or busy is None
    return Answer(
        claimed, (case,), bound="at-least" if is_least else "same",
        missing=(*own.missing, *lacking({"utilisation": busy})), solutions=tuple(solutions),
        is_open=is_least and claimed.range[1] >= case.number,
    )  # fmt: skip


def monthly_bill(view: View) -> Answer | Gap | None:
    """ "1 cent a use and 1M daily users is $300k a month": price times uses times 30 days."""
    claimed, each = view.one("cost_month"), view.value("cost_each")
    if each is None and not view.peek("devices"):
        each = view.value("price_device")  # "$0.002 each", said of requests
    if claimed is None or view.says("break-even") or view.peek("price_hour"):
        return None
    people, uses = view.value("people"), view.value("uses")
    if each is None or (people is None and uses is None):
        return Gap("monthly-bill", lacking({"cost-each": each, "uses-per-day": people or uses}))
    daily = uses if people is None else people * (uses or 1.0)
    given = by_name(Input("cost-each", each, "$"), Input("uses-per-day", daily or 0.0, "uses"))
    case = by_law("monthly-bill", given, unit="$")
    wanted = each * claimed.value / case.number
    once = (assumed("uses-per-user", "1"),) if people is not None and uses is None else ()
    return Answer(
        claimed, (case,), assumed=once,
        missing=("retries-and-cache",),
        solutions=(solved("monthly-bill", "$", claimed.value, {"cost_each": wanted}),),
    )  # fmt: skip


def energy_share(view: View) -> Answer | Gap | None:
    """ "Energy is half of the cost: 1.37 kW, $0.10/kWh, $37500 over 4 years": an hour of each."""
    claimed: Said | None = part_of_whole(view.one("share")) if view.says("energy") else None
    if claimed is None and view.says("half"):
        claimed = Said("share", 0.5, 0.5, "half")
    if claimed is None or not view.says("energy"):
        return None
    power, kwh, hour = view.value("power"), view.value("price_kwh"), view.value("price_hour")
    price, life = view.value("money"), view.value("time")
    capital = hour if hour is not None else price / (life / HOUR_S) if price and life else None
    wanted: Mapping[str, float | None] = {"power": power, "price-per-kwh": kwh, "price-and-life": capital}
    if power is None or kwh is None or capital is None:
        return Gap("energy-share", lacking(wanted))
    of_capital = Input("capital-per-hour", capital, "$/h")
    case = by_law("energy-share", by_name(Input("energy-per-hour", power / 1000 * kwh, "$/h"), of_capital))
    share = min(claimed.value, 0.999)
    wanted_per_hour = LAWS["energy-share"].inverse("energy-per-hour", share, {"capital-per-hour": capital}) or 0.0
    needed = solved("energy-share", "share", share, {"price_kwh": wanted_per_hour / (power / 1000)})
    return Answer(claimed, (case,), solutions=(needed,))
