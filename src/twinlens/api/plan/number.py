"""Plain numbers and words of a plan: counts, shares and spans, each wrong one refused in one sentence."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping

from twinlens.errors import BadInput, nearest

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


def given_of(verb: str, options: Mapping[str, object], known: Collection[str]) -> dict[str, object]:
    """Options that were set. Raises BadInput (TL231) for one that the verb does not have, with the nearest."""
    for name in options:
        if name not in known:
            raise BadInput(f"plan {verb} has no option {short(name)!r}; {nearest(name, known)}", code=UNREADABLE)
    return {name: value for name, value in options.items() if value is not None}


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


def short(word: object) -> str:
    """A word as a message quotes it."""
    return str(word)[:40]


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text)) and text.isascii() and "_" not in text
    except ValueError:
        return False
