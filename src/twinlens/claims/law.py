"""Laws: relations that multiply and divide, as rows; claims compute the figure of one from its inputs, and any input
from the figure.

`value = times · Π above / Π below`. An input is read by its part (`PARTS`): as said, or from the model and the device.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product

from twinlens.claims.answer import Answer, Bound, Case, Gap, Term, assumed, solved
from twinlens.claims.said import Said, View, part_of_whole
from twinlens.claims.subject import Notes, Subject, bandwidth_of, device_of, devices_of, peak_of, subject_of
from twinlens.record.finding import Finding
from twinlens.theory.parameter import parameters

_HOUR_S, _DAY_S = 3600.0, 86400.0
_MONTH_S = 365 * _DAY_S / 12
_KWH_J = 3.6e6
_UNIT_OF = {_HOUR_S: "s", _KWH_J: "j"}
_MOST_CASES = 4
_USUAL_MFU = (0.3, 0.4, 0.5)


@dataclass(frozen=True, slots=True)
class Part:
    """An input: one value, or several that a claim may mean, each with the words for it; and what was assumed."""

    unit: str
    readings: tuple[tuple[float, str], ...]
    assumed: Notes = ()
    missing: str = ""
    also: tuple[tuple[float, str], ...] = ()
    """Rarer readings: the size in a model's name, or its parameters without the embedding."""


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
        if claimed is None or view.about(*self.unless):
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
        of_each = any(each.per == "device" or "GPU" in each.text for each in prices)
        cases = tuple(self._cases(parts, of_each))[:_MOST_CASES]
        wider = {name: replace(part, readings=part.also or part.readings) for name, part in parts.items()}
        also = tuple(self._cases(wider, of_each))
        rare = also[:_MOST_CASES] if any(part.also for part in parts.values()) else ()
        missing = (*(part.missing for part in parts.values() if part.missing), *self.missing)
        return Answer(
            self.quantity, self.unit, claimed, cases, bound=self.bound, also=rare, missing=missing,
            assumed=tuple(note for part in parts.values() for note in part.assumed),
            is_open=any(part.missing == "mfu" for part in parts.values()) and self._leaves_mfu(claimed, cases),
            solutions=tuple(self._solutions(claimed, parts, cases[0].value)),
            is_limit=claimed.side == "most" and self.bound == "at-most", is_arithmetic=self.is_arithmetic,
        )  # fmt: skip

    def _leaves_mfu(self, claimed: Said, cases: tuple[Case, ...]) -> bool:
        """Whether an MFU that is not said, outside the usual ones and of at most 1, would make the claim right."""
        low, high = claimed.range
        is_usual = min(case.value for case in cases) <= high and low <= max(case.value for case in cases)
        return not is_usual and high >= min(case.value for case in cases) * _USUAL_MFU[-1]

    def _figure(self, view: View) -> Said | None:
        kind = next((kind for kind in self.kinds if view.peek(kind)), None)
        return view.one(kind) if kind else None

    def _cases(self, parts: Mapping[str, Part], of_each: bool) -> Iterator[Case]:
        for readings in product(*(parts[name].readings for name in parts)):
            taken = dict(zip(parts, readings, strict=True))
            words = ", ".join(label for _, label in readings if label)
            yield self._case(parts, {name: value for name, (value, _) in taken.items()}, words)
            left = [name for name in self.either if taken.get(name, (1.0, ""))[0] != 1.0]
            if left and not of_each:
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


def _said(kind: str, unit: str) -> Callable[[View], Part | None]:
    def read(view: View) -> Part | None:
        value = view.value(kind)
        return None if value is None else Part(unit, ((value, ""),))

    return read


def _devices(view: View) -> Part | None:
    many = devices_of(view)
    return None if many is None else Part("devices", ((many, ""),))


def _rate(view: View) -> Part | None:
    """Tokens per second of all devices, also where those of each are said."""
    said, value = view.one("rate"), view.value("rate")
    if said is None or value is None:
        return None
    many = devices_of(view) if said.per == "device" else (view.value("sequences") if said.per == "user" else None)
    return Part("tokens/s", ((value * (many or 1.0), ""),))


def _params(view: View, active: bool) -> Part | None:
    subject = subject_of(view)
    if subject is None:
        return None
    value = subject.active if active else subject.params
    return Part("parameters", ((value, ""),), subject_notes(subject.assumed), also=_also(subject, value, active))


def _also(subject: Subject, value: float, active: bool) -> tuple[tuple[float, str], ...]:
    """Parameters as others count them: by the size in the name, and, where FLOP are counted, without the embedding."""
    inner = float(parameters(subject.shape).matmul) if active and subject.shape else value
    named = ((subject.nominal, "by-name"),) if subject.nominal and value == subject.params else ()
    return (*named, *(((inner, "no-embedding"),) if inner != value else ()))


def subject_notes(notes: Notes) -> Notes:
    """A size alone gives the parameters: the model that it was read as decides nothing."""
    return tuple(Finding(each.code, each.severity, each.subject, {**each.numbers, "decides": False}) for each in notes)


def _peak(view: View) -> Part | None:
    peak, notes = peak_of(view)
    return None if peak is None else Part("flop/s", ((peak, ""),), notes)


def _own_peak(view: View) -> Part | None:
    """The peak of the device, where FLOP/s that are reached are said beside it."""
    device = device_of(view)
    if device is None:
        return None
    form = view.name("format")
    rate = device[0].rate(form if form in ("fp8", "int8", "fp32") else "bf16")
    notes = (*device[1], assumed("device-peak", device[0].name, flop_per_s=rate)) if rate else ()
    return Part("flop/s", ((rate, ""),), notes, "" if form else "precision") if rate else None


def _reached(view: View) -> Part | None:
    """FLOP/s that one device reaches; how many there are changes nothing where they are said of each."""
    said, value = view.one("flop_rate"), view.value("flop_rate")
    if said is None or value is None:
        return None
    many = devices_of(view) if view.peek("devices") else None
    view.says("training")
    return Part("flop/s", ((value if said.per == "device" or not many else value / many, ""),))


def _bandwidth(view: View) -> Part | None:
    rate, notes = bandwidth_of(view)
    return None if rate is None else Part("bytes/s", ((rate, ""),), notes)


def _mfu(view: View) -> Part:
    share = part_of_whole(view.one("share"))
    if share is None and view.peek("flop_rate") and not view.claim.names("device"):
        return Part("share", ((1.0, ""),))  # FLOP/s that are reached
    if share is None:
        return Part("share", tuple((each, f"{each:.0%} MFU") for each in _USUAL_MFU), missing="mfu")
    view.says("mfu")
    return Part("share", ((view.value("share") or share.value, ""),))


def _work(view: View) -> Part | None:
    """FLOP of training: 6·N·D, or as said."""
    subject, tokens = subject_of(view), view.value("tokens")
    if subject is not None and tokens is not None:
        times = 6 * tokens
        also = tuple((value * times, words) for value, words in _also(subject, subject.active, True))
        return Part("FLOP", ((subject.active * times, ""),), subject_notes(subject.assumed), also=also)
    flop = view.value("flop")
    return None if flop is None else Part("FLOP", ((flop, ""),))


def _period(view: View) -> Part | None:
    """A time, or a period in a word; a month has 730 hours, or 720."""
    value = view.value("time")
    if value is not None:
        return Part("s", ((value, ""),))
    for word, seconds in (("day", _DAY_S), ("week", 7 * _DAY_S), ("year", 365 * _DAY_S), ("month", _MONTH_S)):
        if view.peek(f"cost_{word}") or view.says(word):
            return Part("s", ((seconds, ""), (30 * _DAY_S, "30-days")) if word == "month" else ((seconds, ""),))
    return None


def _tokens(view: View) -> Part | None:
    """Tokens, as said in millions or one by one, or per month."""
    kinds = ("tokens", "tokens_month", "tokens_day", "context")
    kind = next((kind for kind in kinds if view.peek(kind)), None)
    value = view.value(kind) if kind else None
    if value is None:
        return None
    if kind == "tokens_day" and view.peek("cost_month"):
        return Part("tokens", ((30 * value, ""), (_MONTH_S / _DAY_S * value, "365-days")))
    is_other = any(view.peek(cost) for cost in ("cost_day", "cost_month", "cost_year") if cost[5:] != (kind or "")[7:])
    return None if kind in ("tokens_day", "tokens_month") and is_other else Part("tokens", ((value, ""),))


PARTS: Mapping[str, Callable[[View], Part | None]] = {
    "devices": _devices, "rate": _rate, "peak": _peak, "device-peak": _own_peak, "link-bandwidth": _bandwidth,
    "mfu": _mfu,
    "training-flop": _work, "period": _period, "tokens": _tokens,
    "active-params": lambda view: _params(view, True), "params": lambda view: _params(view, False),
    "reached": _reached, "price-per-hour": _said("price_hour", "$/h"),
    "price-per-kwh": _said("price_kwh", "$"), "price-per-device": _said("price_device", "$"),
    "price-per-token": _said("price_token", "$/token"), "money": _said("money", "$"), "requests": _said("requests",
    "requests"),
    "power": _said("power", "w"), "energy": _said("energy", "j"), "device-time": _said("device_time", "device-s"),
    "time": _said("time", "s"), "token-time": _said("token_time", "s"), "users": _said("sequences", "users"),
    "samples": _said("samples", "samples"), "epochs": _said("epochs", "epochs"),
    "tokens-per-step": lambda view: _said("tokens_step" if view.peek("tokens_step") else "passed", "tokens")(view),
    "requests-per-second": _said("rps", "1/s"), "context": _said("context", "tokens"),
    "bytes-per-token": _said("kv_token", "bytes"),
}  # fmt: skip
SETTINGS = {
    "devices": "devices", "rate": "rate", "mfu": "mfu", "tokens": "tokens", "reached": "flop_rate",
    "price-per-hour": "price_hour", "price-per-kwh": "price_kwh", "money": "money", "requests": "requests",
    "power": "power", "device-time": "device_time", "time": "time", "price-per-device": "price_device",
    "users": "users",
}  # fmt: skip
"""Inputs for which a solution is worth saying, and the name of the setting."""

_TRAIN = ("training", "mfu")
LAWS: tuple[Law, ...] = (
    Law("price-per-token", "$/token", ("price_token",), ("price-per-hour", "devices"), ("rate",), 1 / _HOUR_S,
        maybe=("devices",), either=("devices",), missing=("utilisation",)),
    Law("price-per-token", "$/token", ("price_token",), ("price-per-hour", "device-time"), ("tokens",), 1 / _HOUR_S),
    Law("bill", "$", ("money", "cost_month", "cost_day"), ("price-per-token", "tokens")),
    Law("bill", "$", ("money",), ("price-per-hour", "devices", "tokens"), ("rate",), 1 / _HOUR_S, maybe=("devices",),
        either=("devices",), missing=("utilisation",)),
    Law("bill", "$", ("money", "cost_month", "cost_day", "cost_year"), ("price-per-hour", "devices", "period"), (),
          1 / _HOUR_S,
        unless=("break-even", "energy"), maybe=("devices",), either=("devices",)),
    Law("bill", "$", ("money",), ("price-per-hour", "device-time"), (), 1 / _HOUR_S),
    Law("bill", "$", ("money",), ("price-per-device", "devices")),
    Law("training-cost", "$", ("money",), ("price-per-hour", "training-flop"), ("peak", "mfu"), 1 / _HOUR_S,
        is_arithmetic=False),
    Law("cost-per-request", "$", ("cost_each",), ("money",), ("requests",)),
    Law("energy-per-token", "j/token", ("j_token",), ("power", "devices"), ("rate",), maybe=("devices",),
        either=("devices",), missing=("host-power",)),
    Law("tokens-per-joule", "tokens/J", ("tokens_per_j",), ("rate",), ("power", "devices"), maybe=("devices",),
        either=("devices",), missing=("host-power",)),
    Law("energy", "j", ("energy",), ("power", "devices", "period"), maybe=("devices",), either=("devices",)),
    Law("energy", "j", ("energy",), ("power", "devices", "tokens"), ("rate",), maybe=("devices",), either=("devices",)),
    Law("energy-cost", "$", ("money", "cost_month", "cost_day", "cost_year"),
        ("power", "devices", "period", "price-per-kwh"), (), 1 / _KWH_J, unless=("break-even",), maybe=("devices",)),
    Law("energy-cost", "$", ("money",), ("energy", "price-per-kwh"), (), 1 / _KWH_J),
    Law("device-time", "device-s", ("device_time",), ("devices", "time")),
    Law("device-time", "device-s", ("device_time",), ("training-flop",), ("peak", "mfu"), is_arithmetic=False),
    Law("training-flop", "FLOP", ("flop",), ("active-params", "tokens"), (), 6.0, unless=("prefill", "forward"),
        is_arithmetic=False),
    Law("flop-per-token", "FLOP", ("flop_token",), ("active-params",), (), 6.0, topics=("training",),
          is_arithmetic=False),
    Law("flop-per-token", "FLOP", ("flop_token",), ("active-params",), (), 2.0, unless=("training",),
          is_arithmetic=False),
    Law("chinchilla", "tokens", ("tokens",), ("params",), (), 20.0, topics=("chinchilla",), is_arithmetic=False),
    Law("training-time", "s", ("time",), ("training-flop",), ("devices", "peak", "mfu"), is_arithmetic=False),
    Law("training-time", "s", ("time",), ("tokens",), ("rate",), unless=("prefill", "end-to-end")),
    Law("mfu", "share", ("share",), ("active-params", "rate"), ("devices", "peak"), 6.0, maybe=("devices",),
        unless=("prefill", "speculation", "acceptance", "all-reduce"), is_arithmetic=False),
    Law("mfu", "share", ("share",), ("reached",), ("device-peak",), topics=("mfu",), unless=("all-reduce",)),
    Law("training-rate", "tokens/s", ("rate",), ("peak", "devices"), ("active-params",), 1 / 6, topics=_TRAIN,
        unless=("prefill",), maybe=("devices",), bound="at-most", missing=("mfu-reached",), is_arithmetic=False),
    Law("steps", "steps", ("steps",), ("tokens",), ("tokens-per-step",)),
    Law("steps", "steps", ("steps",), ("samples", "epochs"), ("users",), maybe=("epochs",)),
    Law("tokens-per-step", "tokens", ("tokens_step", "passed"), ("users", "context", "devices"), maybe=("devices",)),
    Law("stream-rate", "tokens/s", ("rate",), ("users",), ("token-time",), maybe=("users",)),
    Law("in-flight", "requests", ("in_flight", "sequences"), ("requests-per-second", "time")),
    Law("ridge", "FLOP/byte", ("intensity",), ("peak",), ("link-bandwidth",), is_arithmetic=False),
)  # fmt: skip
