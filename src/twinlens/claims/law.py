"""Laws: relations that multiply and divide, as rows; claims compute the figure of one from its inputs, and any input
from the figure.

`value = times · Π above / Π below`. An input is read by its part (`PARTS`): as said, or from the model and the device.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product

from twinlens.claims.part import PARTS, USUAL_MFU, Part
from twinlens.claims.said import Answer, Bound, Case, Gap, Said, Term, View, Word, part_of_whole, solved
from twinlens.record.finding import Finding
from twinlens.units import HOUR_S, JOULES_PER_KWH

_UNIT_OF = {HOUR_S: "s", JOULES_PER_KWH: "j"}
_MOST_CASES = 4
_LEAST = {"power": 20.0, "price-per-hour": 0.1}
"""What no device in a data centre falls below, in W and $/h."""


@dataclass(frozen=True, slots=True)
class Law:
    """One relation. `quantity` names the figure, `kinds` are the kinds of number that may be it.

    `topics`: words of which one must be there. `unless`: words that mean another law. `maybe`: inputs that count where
    they are said, and `either`: of these, inputs that the figure may already be of all of ("8 H100 at $20 per hour").
    """

    quantity: str
    unit: str
    kinds: tuple[str, ...]
    above: tuple[str, ...]
    below: tuple[str, ...] = ()
    times: float = 1.0
    topics: tuple[str, ...] = ()
    unless: tuple[str, ...] = ()
    maybe: tuple[str, ...] = ()
    either: tuple[str, ...] = ()
    bound: Bound = "same"
    missing: tuple[str, ...] = ()
    is_arithmetic: bool = True
    """Whether it is of numbers alone: the name of a model or a device beside them changes nothing."""

    def __call__(self, view: View) -> Answer | Gap | None:
        claimed = self._figure(view)
        if claimed is None or view.about(*self.unless) or any(each.value != self.times for each in view.all("factor")):
            return None
        if self.topics and not view.says(*self.topics):
            return None
        parts: dict[str, Part] = {}
        lacks: list[str] = []
        for name in (*self.above, *self.below):
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
            self.quantity, self.unit, claimed, cases, bound=self.bound, also=rare, missing=missing,
            assumed=tuple(note for part in parts.values() for note in part.assumed),
            is_open=any(part.missing == "mfu" for part in parts.values()) and self._leaves_mfu(claimed, cases),
            solutions=tuple(self._solutions(claimed, parts, cases[0].value)),
            is_limit=claimed.side == "most" and self.bound == "at-most",
            is_arithmetic=self.is_arithmetic
            or not any(isinstance(each, Word) and each.kind in ("model", "device") for each in view.used),
        )  # fmt: skip

    def _leaves_mfu(self, claimed: Said, cases: tuple[Case, ...]) -> bool:
        """Whether an MFU that is not said, outside the usual ones and of at most 1, would make the claim right."""
        low, high = claimed.range
        is_usual = min(case.value for case in cases) <= high and low <= max(case.value for case in cases)
        return not is_usual and high >= min(case.value for case in cases) * USUAL_MFU[-1]

    def _figure(self, view: View) -> Said | None:
        kind = next((kind for kind in self.kinds if view.peek(kind)), None)
        return view.one(kind) if kind else None

    def _cases(self, parts: Mapping[str, Part], of_each: bool) -> Iterator[Case]:
        for readings in product(*(parts[name].readings for name in parts)):
            taken = dict(zip(parts, readings, strict=True))
            words = ", ".join(label for _, label in readings if label)
            yield self._case(parts, {name: value for name, (value, _) in taken.items()}, words)
            left = [name for name in self.either if taken.get(name, (1.0, ""))[0] != 1.0]
            if left and not of_each and _may_be_of_all(taken):
                rest = {name: value for name, (value, _) in taken.items() if name not in left}
                yield self._case(parts, rest, words or "of-all")

    def _case(self, parts: Mapping[str, Part], taken: Mapping[str, float], words: str) -> Case:
        terms = [Term("factor", self.times, "1")] if self.times > 1.0 else []
        terms += [Term(name, taken[name], parts[name].unit) for name in self.above if name in taken]
        top = " × ".join(f"{{{place}}}" for place in range(len(terms))) or "1"
        below = [Term(name, taken[name], parts[name].unit) for name in self.below if name in taken]
        below += [Term("factor", 1 / self.times, _UNIT_OF.get(1 / self.times, "1"))] if self.times < 1.0 else []
        bottom = " × ".join(f"{{{len(terms) + place}}}" for place in range(len(below)))
        value = self.times
        for name in self.above:
            value *= taken.get(name, 1.0)
        for name in self.below:
            value /= taken.get(name, 1.0)
        formula = top if not below else f"{top} / ({bottom})" if len(below) > 1 else f"{top} / {bottom}"
        return Case(value, (*terms, *below), formula, words)

    def _solutions(self, claimed: Said, parts: Mapping[str, Part], value: float) -> Iterator[Finding]:
        """For each input the value with which the claim would be right."""
        for name in (*self.above, *self.below):
            if name not in parts or len(parts[name].readings) > 1 or name not in SETTINGS:
                continue
            ratio = claimed.value / value
            wanted = parts[name].readings[0][0] * (ratio if name in self.above else 1 / ratio)
            if parts[name].unit != "share" or wanted <= 1:
                yield solved(self.quantity, self.unit, claimed.value, {SETTINGS[name]: wanted})


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
LAWS: tuple[Law, ...] = (
    Law("price-per-token", "$/token", ("price_token",), ("price-per-hour", "devices"), ("rate", "utilisation"),
        1 / HOUR_S, maybe=("devices", "utilisation"), either=("devices",), missing=("utilisation",)),
    Law("bill", "$", ("money", "cost_month", "cost_day"), ("price-per-token", "tokens")),
    Law("bill", "$", ("money", "cost_month", "cost_day", "cost_year"), ("price-per-hour", "devices", "period"), (),
          1 / HOUR_S,
        unless=("break-even", "energy"), maybe=("devices",), either=("devices",)),
    Law("bill", "$", ("money",), ("price-per-hour", "device-time"), (), 1 / HOUR_S),
    Law("bill", "$", ("money",), ("price-per-device", "devices")),
    Law("training-cost", "$", ("money",), ("price-per-hour", "training-flop"), ("peak", "mfu"), 1 / HOUR_S,
        is_arithmetic=False),
    Law("energy-per-token", "j/token", ("j_token",), ("power", "devices"), ("rate",), maybe=("devices",),
        either=("devices",), missing=("host-power",)),
    Law("tokens-per-joule", "tokens/J", ("tokens_per_j",), ("rate",), ("power", "devices"), maybe=("devices",),
        either=("devices",), missing=("host-power",)),
    Law("energy", "j", ("energy",), ("power", "devices", "period"), maybe=("devices",), either=("devices",)),
    Law("energy", "j", ("energy",), ("energy-per-token", "tokens")),
    Law("energy-cost", "$", ("money", "cost_month", "cost_day", "cost_year"),
        ("power", "devices", "period", "price-per-kwh"), (), 1 / JOULES_PER_KWH, unless=("break-even",),
        maybe=("devices",)),
    Law("device-time", "device-s", ("device_time",), ("training-flop",), ("peak", "mfu"), is_arithmetic=False),
    Law("training-flop", "FLOP", ("flop",), ("active-params", "tokens"), (), 6.0,
        unless=("prefill", "forward", "inference"), is_arithmetic=False),
    Law("flop-per-token", "FLOP", ("flop_token",), ("active-params",), (), 6.0, topics=("training",),
          is_arithmetic=False),
    Law("flop-per-token", "FLOP", ("flop_token",), ("active-params",), (), 2.0, unless=("training",),
          is_arithmetic=False),
    Law("chinchilla", "tokens", ("tokens",), ("params",), (), 20.0, topics=("chinchilla",), is_arithmetic=False),
    Law("training-time", "s", ("time",), ("training-flop",), ("devices", "peak", "mfu"), is_arithmetic=False),
    Law("transfer-time", "s", ("time",), ("bytes",), ("link-rate",), topics=("transfer", "fits", "checkpoint"),
        unless=("all-reduce", "decode", "tpot")),
    Law("mfu", "share", ("share",), ("active-params", "rate"), ("devices", "peak"), 6.0, maybe=("devices",),
        unless=("prefill", "speculation", "acceptance", "all-reduce", "bandwidth"), is_arithmetic=False),
    Law("mfu", "share", ("share",), ("reached",), ("device-peak",), topics=("mfu",), unless=("all-reduce",)),
    Law("training-rate", "tokens/s", ("rate",), ("peak", "devices"), ("active-params",), 1 / 6, topics=_TRAIN,
        unless=("prefill",), maybe=("devices",), bound="at-most", missing=("mfu-reached",), is_arithmetic=False),
    Law("tokens", "tokens", ("tokens", "tokens_day", "tokens_month", "context"), ("rate", "period")),
    Law("tokens-per-parameter", "tokens/parameter", ("tokens_param",), ("tokens",), ("params",), is_arithmetic=False),
    Law("mbu", "share", ("share",), ("rate", "read"), ("link-bandwidth", "users"), topics=("mbu",), maybe=("users",),
        is_arithmetic=False),
    Law("steps", "steps", ("steps",), ("samples", "epochs"), ("users",), maybe=("epochs",)),
    Law("tokens-per-step", "tokens", ("tokens_step", "passed", "tokens"), ("users", "context", "devices"),
        maybe=("devices",)),
    Law("in-flight", "requests", ("in_flight", "sequences"), ("requests-per-second", "time")),
    Law("ridge", "FLOP/byte", ("intensity",), ("peak",), ("link-bandwidth",), is_arithmetic=False),
)  # fmt: skip
