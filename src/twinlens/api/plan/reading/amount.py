"""Amounts with a unit, as options of a plan are written: times, tokens, watts, money, rates of requests."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from decimal import Decimal, InvalidOperation

from twinlens.claims.quantity import read_quantity
from twinlens.errors import BadInput, nearest
from twinlens.planning.prediction.work import spoken

_RATES = {
    "requests/s": ("requests/s", 1.0), "req/s": ("requests/s", 1.0), "request/s": ("requests/s", 1.0),
    "requests/min": ("requests/s", 1 / 60), "requests/h": ("requests/s", 1 / 3600),
    "requests/hour": ("requests/s", 1 / 3600), "requests/day": ("requests/s", 1 / 86400),
    "tokens/s": ("tokens/s", 1.0), "tok/s": ("tokens/s", 1.0), "output tokens/s": ("tokens/s", 1.0),
}  # fmt: skip
_MONTHS = {"": 1.0, "month": 1.0, "months": 1.0, "mo": 1.0, "year": 12.0, "years": 12.0}
_KINDS = {"time": "time", "context": "number of tokens", "params": "size", "power": "power", "bandwidth": "bandwidth"}
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


_LASTING = {"s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0, "days": 86400.0, "day": 86400.0}


def lasting_of(name: str, word: object) -> float:
    """Seconds of a test: 48h, 10m, 60s, "2 days"; m is minutes here. Raises BadInput (TL231)."""
    return _with_unit(name, word, _LASTING, f"write --{name} 48h, 10m or 60s", 1e8)


def tokens_of(name: str, word: object) -> int:
    """A number of tokens: 8192, 32K (a power of two, as limits of models are). Raises BadInput (TL231)."""
    text = str(word).strip()
    if text.replace(",", "").isdecimal():
        return count_of(name, text)
    return count_of(name, round(quantity_of(name, text, "context", "write tokens: 8192, 32K")))


def trained_tokens_of(name: str, word: object) -> float:
    """Tokens to train on: "2B", "15T", "500M", 1000000, 1e9. Raises BadInput (TL231)."""
    return many_of(name, word, 1e16, "number of tokens")


def bandwidth_of(name: str, word: object) -> float:
    """Bytes per second: 25GB/s, "400 Gbit/s". Raises BadInput (TL231)."""
    return quantity_of(name, word, "bandwidth", f"write --{name} 25GB/s or '400 Gbit/s'")


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


# Plain numbers and words of a plan: counts, shares and spans, each wrong one refused in one sentence.

UNREADABLE = "TL231"
_MOST_COUNT = 10_000_000
_SCALES = {"": 1, "k": 10**3, "m": 10**6, "b": 10**9, "t": 10**12}


def above_zero(name: str, word: object, most: float = 1e15) -> float:
    """A plain number above 0 and up to `most`. Raises BadInput (TL231)."""
    value, unit = split(name, word, f"write --{name} 20")
    if unit:
        raise BadInput(f"--{name} {short(word)!r} is a plain number; leave the unit out", code=UNREADABLE)
    return positive(name, value, word, most)


def up_to(most: float) -> Callable[[str, object], float]:
    """A reader of plain numbers above 0, up to `most`."""
    return lambda name, word: above_zero(name, word, most)


def count_of(name: str, word: object) -> int:
    """A whole number of at least 1, in digits. Raises BadInput (TL231)."""
    text = str(word).strip().replace(",", "")
    if not text.isdecimal():
        raise BadInput(f"--{name} {short(word)!r} is no whole number; write --{name} 16", code=UNREADABLE)
    if len(text) > 100 or not 1 <= int(text) <= _MOST_COUNT:
        raise BadInput(f"--{name} is a count from 1 to {_MOST_COUNT:,}, not {short(word)}", code=UNREADABLE)
    return int(text)


def many_of(name: str, word: object, most: float = 1e15, what: str = "number") -> float:
    """A large number of at least 1: 1000, 1,000,000, 1M, 15T or 1e9. Raises BadInput (TL231)."""
    hint = f"write --{name} 1000, 2M or 15T"
    value, unit = split(name, word, hint, what)
    if unit not in _SCALES:
        raise BadInput(f"--{name} {short(word)!r} is no {what}; {hint}", code=UNREADABLE)
    if not 1 <= value * _SCALES[unit] <= most:
        raise BadInput(f"--{name} is from 1 to {most:,.0f}, not {short(word)}", code=UNREADABLE)
    return value * _SCALES[unit]


def whole_of(name: str, word: object, most: float = 1e15) -> int:
    """A whole number as `many_of` reads them. Raises BadInput (TL231)."""
    found = many_of(name, word, most)
    if found != int(found):
        raise BadInput(f"--{name} is a whole number from 1 to {most:,.0f}, not {short(word)}", code=UNREADABLE)
    return int(found)


def share_of(name: str, word: object, most: float = 1.0) -> float:
    """A share: "33 %" or 0.33, from 0 to `most`. Raises BadInput (TL231)."""
    value, unit = split(name, word, "write 33% or 0.33")
    if unit not in ("", "%"):
        raise BadInput(f"--{name} {short(word)!r} is not in %; write 33% or 0.33", code=UNREADABLE)
    found = value / 100 if unit == "%" else value
    if not 0 <= found <= most:
        would = f"; is it in per cent? write {str(word).strip()[:8]}%" if 0 <= found / 100 <= most and not unit else ""
        raise BadInput(f"--{name} {short(word)!r} is a share from 0 to {most:.0%}{would}", code=UNREADABLE)
    return found


def span_of(name: str, word: object, most: float) -> tuple[float, float]:
    """ "0.3..0.5", or one number, which is both ends. Raises BadInput (TL231)."""
    low, dots, high = str(word).partition("..")
    ends = above_zero(name, low, most), above_zero(name, high if dots else low, most)
    if ends[0] > ends[1]:
        raise BadInput(f"--{name} {short(word)!r} ends below its start; write --{name} 0.3..0.5", code=UNREADABLE)
    return ends


def one_of(name: str, word: object, known: Collection[str]) -> str:
    """A word that is one of some. Raises BadInput (TL231) with the nearest."""
    plain = str(word).strip().lower()
    if plain not in known:
        raise BadInput(f"--{name} {short(word)!r} is not known; {nearest(plain, known)}", code=UNREADABLE)
    return plain


def positive(name: str, value: float, word: object, most: float) -> float:
    """The value, above 0 and up to `most`. Raises BadInput (TL231)."""
    if not 0 < value <= most:
        raise BadInput(f"--{name} is above 0 and at most {most:,.12g}, not {short(word)}", code=UNREADABLE)
    return value


def split(name: str, word: object, hint: str, what: str = "number") -> tuple[float, str]:
    """The number in front and the unit behind it, in small letters. Raises BadInput (TL231) without a number."""
    text = str(word).strip().replace(",", "").lower()
    end = next((place for place in range(len(text), 0, -1) if _is_number(text[:place])), 0)
    if not end:
        raise BadInput(f"--{name} {short(word)!r} is no {what}; {hint}", code=UNREADABLE)
    return float(text[:end]), " ".join(text[end:].split())


def each_of(word: object) -> Sequence[object]:
    """Several words: those of a list, or those that commas separate."""
    return word if isinstance(word, Sequence) and not isinstance(word, str) else str(word).split(",")


def short(word: object) -> str:
    """A word as a message quotes it."""
    return str(word)[:40]


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text)) and text.isascii() and "_" not in text
    except ValueError:
        return False


# Formats as people write them, and what each is taken for, in weights and in predictions.

_USUAL = {
    "16-bit": "bf16", "8-bit": "int8", "4-bit": "awq-int4-g128", "int4": "awq-int4-g128", "awq": "awq-int4-g128",
    "gptq": "gptq-int4-g128", "fp4": "nvfp4", "q4": "q4_k_m", "q8": "q8_0",
}  # fmt: skip


def usual_format(word: str) -> str:
    """The format of weights that a word is taken for; the word itself where it is none of the usual ones."""
    plain = word.strip().lower()
    return _USUAL.get(plain, plain)


def predicted_format(word: str) -> str:
    """The same as predictions call it."""
    return spoken(usual_format(word))
