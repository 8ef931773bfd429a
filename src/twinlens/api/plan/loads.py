"""Words of a load and of a target read into values: seconds, rates, shares, and counts of tokens to train on."""

from __future__ import annotations

import math

from twinlens.api.plan.asked import UNREADABLE
from twinlens.errors import BadInput

_SECONDS = {"µs": 1e-6, "us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0, "days": 86400.0,
            "day": 86400.0, "weeks": 604800.0}  # fmt: skip
_MANY = {"": 1.0, "k": 1e3, "m": 1e6, "b": 1e9, "t": 1e12}


def seconds_of(name: str, word: object) -> float:
    """Seconds above 0: 2s, 50ms, 12h, 30days. Raises BadInput (TL231), also for a number without its unit."""
    number, unit = _split(word)
    if number is None or unit not in _SECONDS:
        raise BadInput(f"--{name} {_short(word)!r} is no time; write 50ms, 2s, 12h or 30days", code=UNREADABLE)
    return _above_0(name, number * _SECONDS[unit], word)


def rate_of(name: str, word: object) -> float:
    """Requests per second above 0: 2, 0.5, 2/s. Raises BadInput (TL231), also for a rate per another time."""
    number, unit = _split(word)
    if number is None or unit not in ("", "/s"):
        raise BadInput(f"--{name} {_short(word)!r} is no rate; write requests per second: 2, 0.5", code=UNREADABLE)
    return _above_0(name, number, word)


def many_tokens_of(name: str, word: object) -> float:
    """Tokens to train on: 15T, 300B, 1.5e9. Raises BadInput (TL231)."""
    number, unit = _split(word)
    if number is None or unit not in _MANY:
        raise BadInput(f"--{name} {_short(word)!r} is no number of tokens; write 300B or 15T", code=UNREADABLE)
    return _above_0(name, number * _MANY[unit], word)


def factor_of(name: str, word: object) -> float:
    """A plain number above 0: 1.3. Raises BadInput (TL231)."""
    number, unit = _split(word)
    if number is None or unit:
        raise BadInput(f"--{name} {_short(word)!r} is no number; write --{name} 1.3", code=UNREADABLE)
    return _above_0(name, number, word)


def share_of(name: str, word: object) -> float:
    """A share above 0 and up to 1: 0.9, 90%. Raises BadInput (TL231)."""
    number, unit = _split(word)
    share = None if number is None or unit not in ("", "%") else number / (100.0 if unit else 1.0)
    if share is None or not 0 < share <= 1:
        raise BadInput(f"--{name} {_short(word)!r} is no share; write 90%", code=UNREADABLE)
    return share


def _split(word: object) -> tuple[float | None, str]:
    """The number and the letters after it, in lower case."""
    text = str(word).strip().replace(",", "").lower()
    at = next((place for place in range(len(text), 0, -1) if _is_number(text[:place])), 0)
    return (float(text[:at]) if at else None), text[at:].strip()


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text)) and text.isascii() and "_" not in text
    except ValueError:
        return False


def _above_0(name: str, value: float, word: object) -> float:
    if not 0 < value < 1e18:
        raise BadInput(f"--{name} is above 0, not {_short(word)}", code=UNREADABLE)
    return value


def _short(word: object) -> str:
    return str(word)[:40]
