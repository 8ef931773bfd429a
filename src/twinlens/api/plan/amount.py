"""Numbers with a unit, as options of money verbs are written: a share, watts, months, a rate of requests."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from twinlens.errors import BadInput, nearest

UNREADABLE = "TL231"
_RATES = {
    "requests/s": ("requests/s", 1.0), "req/s": ("requests/s", 1.0), "request/s": ("requests/s", 1.0),
    "requests/min": ("requests/s", 1 / 60), "requests/h": ("requests/s", 1 / 3600),
    "requests/hour": ("requests/s", 1 / 3600), "requests/day": ("requests/s", 1 / 86400),
    "tokens/s": ("tokens/s", 1.0), "tok/s": ("tokens/s", 1.0), "output tokens/s": ("tokens/s", 1.0),
}  # fmt: skip
_MONTHS = {"month": 1.0, "months": 1.0, "mo": 1.0, "year": 12.0, "years": 12.0}
_WATTS = {"w": 1.0, "kw": 1000.0}
_SCALES = {"": 1, "k": 1000, "m": 10**6, "b": 10**9}
_GRAMS = {"g/kwh": 1.0, "kg/kwh": 1000.0}


def share_of(name: str, word: object, most: float = 1.0) -> float:
    """A share: "33 %" or 0.33, from 0 to `most`. Raises BadInput (TL231)."""
    text = str(word).strip()
    value, unit = _split(name, text, "write 33% or 0.33")
    if unit not in ("", "%"):
        raise _unit(name, text, "%", "write 33% or 0.33")
    found = value / 100 if unit == "%" else value
    if not 0 <= found <= most:
        raise BadInput(f"--{name} {text[:40]!r} is a share from 0 to {most:.0%}; is it in per cent? write {text[:8]}%",
                       code=UNREADABLE)  # fmt: skip
    return found


def above_zero(name: str, word: object, most: float = 1e15) -> float:
    """A plain number above 0. Raises BadInput (TL231)."""
    text = str(word).strip()
    value, unit = _split(name, text, "write a number")
    if unit:
        raise _unit(name, text, "a plain number", "leave the unit out")
    return _positive(name, value, text, most)


def whole_of(name: str, word: object, most: float = 1e15) -> int:
    """A whole number of at least 1, as in 1000, 1,000,000, 1M or 1e9. Raises BadInput (TL231)."""
    text = str(word).strip()
    value, unit = _split(name, text, "write 1000, 1M or 1e9")
    if unit not in _SCALES:
        raise _unit(name, text, "a plain number", "write 1000, 1M or 1e9")
    found = value * _SCALES[unit]
    if found != int(found) or not 1 <= found <= most:
        raise BadInput(f"--{name} is a whole number from 1 to {most:,.0f}, not {text[:40]}", code=UNREADABLE)
    return int(found)


def months_of(name: str, word: object) -> float:
    """A time in months: "36 months", "3 years"; a bare number is months. Raises BadInput (TL231)."""
    return _with_unit(name, word, {"": 1.0, **_MONTHS}, "write 36 months or 3 years", 600)


def watts_of(name: str, word: object) -> float:
    """Watts: "700 W", "1.4 kW". Raises BadInput (TL231)."""
    return _with_unit(name, word, _WATTS, "write 700W or 1.4kW", 1e9)


def grams_of(name: str, word: object) -> float:
    """Grams of CO2 a kWh: "400 g/kWh". Raises BadInput (TL231)."""
    return _with_unit(name, word, _GRAMS, "write '400 g/kWh'", 1e5)


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
    _, said = _split(name, second.strip(), "write '3-5 requests/s'")
    low, _ = _rate(name, f"{first.strip()} {said}")
    if low > high:
        raise BadInput(f"--{name} {text[:40]!r} ends below its start; write the lower end first", code=UNREADABLE)
    return (low, high), unit


def _rate(name: str, text: str) -> tuple[float, str]:
    hint = "write '4 requests/s' or '1500 tokens/s'"
    value, unit = _split(name, text, hint)
    plain = unit.removeprefix("output ") if unit.endswith("tok/s") else unit
    if plain not in _RATES:
        raise _unit(name, text, "a rate", hint)
    kind, scale = _RATES[plain]
    return _positive(name, value * scale, text, 1e12), kind


def _with_unit(name: str, word: object, units: Mapping[str, float], hint: str, most: float) -> float:
    text = str(word).strip()
    value, unit = _split(name, text, hint)
    if unit not in units:
        raise _unit(name, text, "/".join(filter(None, units)), hint)
    return _positive(name, value * units[unit], text, most)


def _positive(name: str, value: float, text: str, most: float) -> float:
    if not 0 < value <= most:
        raise BadInput(f"--{name} is a number above 0 and at most {most:g}, not {text[:40]}", code=UNREADABLE)
    return value


def _split(name: str, text: str, hint: str) -> tuple[float, str]:
    """The number in front, and the unit behind it in small letters."""
    end = next((place for place, letter in enumerate(text) if letter not in "0123456789.,"), len(text))
    if text[end : end + 2].lower() in ("e+", "e-") or (
        text[end : end + 1].lower() == "e" and text[end + 1 : end + 2].isdecimal()
    ):
        rest = text[end + 2 :]
        end += 2 + next((place for place, letter in enumerate(rest) if not letter.isdecimal()), len(rest))
    try:
        value = float(text[:end].replace(",", ""))
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise BadInput(f"--{name} {text[:40]!r} is no number; {hint}", code=UNREADABLE)
    return value, " ".join(text[end:].split()).lower()


def _unit(name: str, text: str, wanted: str, hint: str) -> BadInput:
    return BadInput(f"--{name} {text[:40]!r} is not in {wanted}; {hint}", code=UNREADABLE)


def word_of(name: str, word: object, known: Mapping[str, Any] | tuple[str, ...]) -> str:
    """One of some words. Raises BadInput (TL231) with the nearest."""
    plain = str(word).strip().lower()
    if plain not in known:
        raise BadInput(f"--{name} {str(word)[:40]!r} is not known; {nearest(plain, tuple(known))}", code=UNREADABLE)
    return plain
