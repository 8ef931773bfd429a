"""Inputs of laws: how each is read from a claim, as said, or from the model and the device that it names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from twinlens.claims.said import View, assumed, part_of_whole
from twinlens.claims.subject import (
    Notes,
    Subject,
    bandwidth_of,
    devices_of,
    peak_of,
    said_device,
    said_model,
    stored_of,
)
from twinlens.record.finding import Finding
from twinlens.spec.catalogue import shipped_links
from twinlens.theory.parameter import parameters
from twinlens.units import DAY_S, HOUR_S, MONTH_S

USUAL_MFU = (0.3, 0.4, 0.5)


@dataclass(frozen=True, slots=True)
class Part:
    """An input: one value, or several that a claim may mean, each with the words for it; and what was assumed."""

    unit: str
    readings: tuple[tuple[float, str], ...]
    assumed: Notes = ()
    missing: str = ""
    also: tuple[tuple[float, str], ...] = ()
    """Rarer readings: the size in a model's name, or its parameters without the embedding."""


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
    subject = said_model(view)
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
    device = said_device(view)
    if device is None:
        return None
    form = view.name("format")
    rate = device[0].rate(form if form in ("fp8", "int8", "fp32") else "bf16")
    notes = (*device[1], assumed("device-peak", device[0].name, flop_per_s=rate)) if rate else ()
    return Part("flop/s", ((rate, ""),), notes, "" if form else "precision") if rate else None


def _power(view: View) -> Part | None:
    """Power as said, else by the datasheet of the device."""
    said, device = view.value("power"), said_device(view)
    if said is not None or device is None or not device[0].tdp_w:
        return None if said is None else Part("w", ((said, ""),))
    watts = float(device[0].tdp_w)
    return Part("w", ((watts, ""),), (*device[1], assumed("device-power", device[0].name, watts=watts)))


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
    if share is None and view.peek("flop_rate") and not _is_peak(view):
        return Part("share", ((1.0, ""),))  # FLOP/s that are reached
    if share is None:
        return Part("share", tuple((each, f"{each:.0%} MFU") for each in USUAL_MFU), missing="mfu")
    view.says("mfu")
    return Part("share", ((view.value("share") or share.value, ""),))


def _link_rate(view: View) -> Part | None:
    """Bandwidth of a link as said, else one way of the link that is named."""
    said, name = view.value("bandwidth"), view.name("link")
    rate = said if said is not None else link_rates().get(name or "")
    return None if rate is None else Part("bytes/s", ((rate, ""),))


def _is_peak(view: View) -> bool:
    """Whether FLOP/s are those that a device has, and not what it reaches."""
    device, said = said_device(view), view.one("flop_rate")
    if device is None or said is None:
        return False
    rates = [device[0].rate(name) for name in ("bf16", "fp16", "fp8", "fp4", "int8", "fp32")]
    return any(each and abs(said.value / each - 1) < 0.03 for each in rates)


def _work(view: View) -> Part | None:
    """FLOP of training: 6·N·D, or as said."""
    tokens = view.value("tokens")
    subject = said_model(view) if tokens is not None else None
    if subject is not None and tokens is not None:
        flop = subject.flop("training-flop", tokens)
        also = tuple((flop * value / subject.active, words) for value, words in _also(subject, subject.active, True))
        return Part("FLOP", ((flop, ""),), subject_notes(subject.assumed), also=also)
    said = view.value("flop")
    return None if said is None else Part("FLOP", ((said, ""),))


def _period(view: View) -> Part | None:
    """A time, or a period in a word; a month has 730 hours, or 720."""
    value = view.value("time")
    if value is not None:
        return Part("s", ((value, ""),))
    for word, seconds in (
        ("hour", HOUR_S),
        ("day", DAY_S),
        ("week", 7 * DAY_S),
        ("year", 365 * DAY_S),
        ("month", MONTH_S),
    ):
        if view.peek(f"cost_{word}") or view.peek(f"tokens_{word}") or view.says(word):
            return Part("s", ((seconds, ""), (30 * DAY_S, "30-days")) if word == "month" else ((seconds, ""),))
    return None


def _utilisation(view: View) -> Part | None:
    share = part_of_whole(view.one("share")) if view.says("share") else None
    return Part("share", ((view.value("share") or share.value, ""),)) if share else None


def _read(view: View) -> Part | None:
    """Bytes that a step reads: as said, else the weights of the model in each format that is meant."""
    said, subject = view.value("bytes"), said_model(view)
    if said is not None:
        return Part("bytes", ((said, ""),))
    stored = stored_of(view, subject) if subject else ()
    return Part("bytes", tuple((each.bytes, each.name) for each in stored)) if stored else None


def _tokens(view: View) -> Part | None:
    """Tokens, as said in millions or one by one, or per month."""
    kinds = ("tokens", "tokens_month", "tokens_day", "context")
    kind = next((kind for kind in kinds if view.peek(kind)), None)
    value = view.value(kind) if kind else None
    if value is None:
        return None
    if kind == "tokens_day" and view.peek("cost_month"):
        return Part("tokens", ((30 * value, ""), (MONTH_S / DAY_S * value, "365-days")))
    is_other = any(view.peek(cost) for cost in ("cost_day", "cost_month", "cost_year") if cost[5:] != (kind or "")[7:])
    return None if kind in ("tokens_day", "tokens_month") and is_other else Part("tokens", ((value, ""),))


@lru_cache(maxsize=1)
def link_rates() -> dict[str, float]:
    """Bytes per second one way of each link of the catalogue."""
    return {each.name.replace("-x16", ""): each.one_way_bytes_per_s for each in shipped_links()}


PARTS: Mapping[str, Callable[[View], Part | None]] = {
    "devices": _devices, "rate": _rate, "peak": _peak, "device-peak": _own_peak, "link-bandwidth": _bandwidth,
    "mfu": _mfu,
    "training-flop": _work, "period": _period, "tokens": _tokens,
    "active-params": lambda view: _params(view, True), "params": lambda view: _params(view, False),
    "reached": _reached, "price-per-hour": _said("price_hour", "$/h"),
    "price-per-kwh": _said("price_kwh", "$"), "price-per-device": _said("price_device", "$"),
    "price-per-token": _said("price_token", "$/token"), "money": _said("money", "$"), "requests": _said("requests",
    "requests"),
    "power": _power, "energy-per-token": _said("j_token", "j"), "energy": _said("energy", "j"),
    "device-time": _said("device_time", "device-s"),
    "time": _said("time", "s"), "users": _said("sequences", "users"),
    "samples": _said("samples", "samples"), "epochs": _said("epochs", "epochs"),
    "tokens-per-step": lambda view: _said("tokens_step" if view.peek("tokens_step") else "passed", "tokens")(view),
    "requests-per-second": _said("rps", "1/s"), "context": _said("context", "tokens"),
    "bytes": _said("bytes", "bytes"), "link-rate": _link_rate,
    "uses-per-day": _said("uses", "uses"), "read": _read, "utilisation": _utilisation,
}  # fmt: skip
