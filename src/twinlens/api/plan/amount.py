"""Amounts with a unit, as options of a plan are written: times, tokens, watts, money, rates of requests."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal, InvalidOperation

from twinlens.api.plan.number import UNREADABLE, count_of, many_of, positive, short, split
from twinlens.claims.quantity import read_quantity
from twinlens.errors import BadInput

_RATES = {
    "requests/s": ("requests/s", 1.0), "req/s": ("requests/s", 1.0), "request/s": ("requests/s", 1.0),
    "requests/min": ("requests/s", 1 / 60), "requests/h": ("requests/s", 1 / 3600),
    "requests/hour": ("requests/s", 1 / 3600), "requests/day": ("requests/s", 1 / 86400),
    "tokens/s": ("tokens/s", 1.0), "tok/s": ("tokens/s", 1.0), "output tokens/s": ("tokens/s", 1.0),
}  # fmt: skip
_MONTHS = {"": 1.0, "month": 1.0, "months": 1.0, "mo": 1.0, "year": 12.0, "years": 12.0}
_KINDS = {"time": "time", "context": "number of tokens", "params": "size", "power": "power"}
"""Kinds of claims/quantity.py, as a message names them."""
_GRAMS = {"g/kwh": 1.0, "kg/kwh": 1000.0}


def quantity_of(name: str, word: object, kind: str, hint: str) -> float:
    """A quantity above 0 with its unit, in SI; `kind` as claims/quantity.py names it. Raises BadInput (TL231)."""
    text = str(word).strip()
    if text.startswith("-"):
        raise BadInput(f"--{name} is above 0, not {short(text)}", code=UNREADABLE)
    try:
        found = read_quantity(text, 0)
    except BadInput:
        found = None
    if found is None or found[1] != len(text) or found[0].kind != kind or found[0].low is None:
        raise BadInput(f"--{name} {short(text)!r} is no {_KINDS[kind]}; {hint}", code=UNREADABLE)
    return positive(name, found[0].value, word, 1e30)


def seconds_of(name: str, word: object) -> float:
    """Seconds: 50ms, 2s, "12 h", "30 days"; a number without its unit is refused. Raises BadInput (TL231)."""
    return quantity_of(name, word, "time", f"write --{name} '12 h', 30days, 2s or 50ms")


def tokens_of(name: str, word: object) -> int:
    """A number of tokens: 8192, 32K (a power of two, as limits of models are). Raises BadInput (TL231)."""
    text = str(word).strip()
    if text.replace(",", "").isdecimal():
        return count_of(name, text)
    return count_of(name, round(quantity_of(name, text, "context", "write tokens: 8192, 32K")))


def trained_tokens_of(name: str, word: object) -> float:
    """Tokens to train on: "2B", "15T", "500M", 1000000, 1e9. Raises BadInput (TL231)."""
    return many_of(name, word, 1e16, "number of tokens")


def watts_of(name: str, word: object) -> float:
    """Watts: "700 W", "1.4 kW". Raises BadInput (TL231)."""
    return quantity_of(name, word, "power", f"write --{name} 20kW or 700W")


def months_of(name: str, word: object) -> float:
    """A time in months: "36 months", "3 years"; a bare number is months. Raises BadInput (TL231)."""
    return _with_unit(name, word, _MONTHS, "write 36 months or 3 years", 600)


def grams_of(name: str, word: object) -> float:
    """Grams of CO2 a kWh: "400 g/kWh". Raises BadInput (TL231)."""
    return _with_unit(name, word, _GRAMS, "write '400 g/kWh'", 1e5)


def rate_of(name: str, word: object) -> float:
    """Requests per second above 0: 2, 0.5, 2/s. Raises BadInput (TL231), also for a rate per another time."""
    return _with_unit(name, word, {"": 1.0, "/s": 1.0}, "write requests per second: 2, 0.5", 1e18)


def throughput_of(name: str, word: object) -> tuple[tuple[float, float], str]:
    """A rate from its lower to its upper end, and what it is of: requests/s or tokens/s. Raises BadInput (TL231).

    "4 requests/s", or "3-5 requests/s", as predictions are given.
    """
    text = " ".join(str(word).split())
    first, dash, second = text.partition("-")
    if not dash or first[-1:].lower() == "e":
        value, unit = _rate(name, text)
        return (value, value), unit
    high, unit = _rate(name, second.strip())
    _, said = split(name, second.strip(), "write '3-5 requests/s'")
    low, _ = _rate(name, f"{first.strip()} {said}")
    if low > high:
        raise BadInput(f"--{name} {short(text)!r} ends below its start; write the lower end first", code=UNREADABLE)
    return (low, high), unit


def dollars_of(name: str, word: object) -> Decimal:
    """Dollars, exact. Raises BadInput (TL231)."""
    text = str(word).strip().removeprefix("$").replace(",", "")
    try:
        value = Decimal(text)
    except InvalidOperation:
        raise BadInput(f"--{name} {short(word)!r} is no money; write --{name} 2.50", code=UNREADABLE) from None
    if not value.is_finite() or not 0 < value <= 1_000_000_000_000:
        raise BadInput(f"--{name} is above 0, in dollars, not {short(word)}", code=UNREADABLE)
    return value


def _rate(name: str, text: str) -> tuple[float, str]:
    hint = "write '4 requests/s' or '1500 tokens/s'"
    value, unit = split(name, text, hint)
    plain = unit.removeprefix("output ") if unit.endswith("tok/s") else unit
    if plain not in _RATES:
        raise BadInput(f"--{name} {short(text)!r} is no rate; {hint}", code=UNREADABLE)
    kind, scale = _RATES[plain]
    return positive(name, value * scale, text, 1e12), kind


def _with_unit(name: str, word: object, units: Mapping[str, float], hint: str, most: float) -> float:
    value, unit = split(name, word, hint)
    if unit not in units:
        raise BadInput(f"--{name} {short(word)!r} is not in {'/'.join(filter(None, units))}; {hint}", code=UNREADABLE)
    return positive(name, value * units[unit], word, most)
