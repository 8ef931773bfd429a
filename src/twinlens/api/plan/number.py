"""Numbers of a plan from words: finite and above 0, spans, durations and tokens, each refused in one sentence."""

from __future__ import annotations

import math
from decimal import Decimal, InvalidOperation

from twinlens.claims.quantity import read_quantity
from twinlens.errors import BadInput
from twinlens.planning.check.deadline import Mfu

UNREADABLE = "TL231"


def number_of(name: str, word: object, most: float) -> float:
    """A number above 0 and up to `most`. Raises BadInput (TL231)."""
    try:
        value = float(str(word).strip().replace(",", ""))
    except ValueError:
        raise BadInput(f"--{name} {_short(word)!r} is no number; write --{name} 20", code=UNREADABLE) from None
    if not (math.isfinite(value) and 0 < value <= most):
        raise BadInput(f"--{name} is above 0 and at most {most:,.12g}, not {_short(word)}", code=UNREADABLE)
    return value


def span_of(name: str, word: object, most: float) -> tuple[float, float]:
    """ "0.3..0.5", or one number, which is both ends. Raises BadInput (TL231)."""
    low, dots, high = str(word).partition("..")
    ends = number_of(name, low, most), number_of(name, high if dots else low, most)
    if ends[0] > ends[1]:
        raise BadInput(f"--{name} {_short(word)!r} ends below its start; write --{name} 0.3..0.5", code=UNREADABLE)
    return ends


def mfu_of(said: object) -> Mfu:
    """ "0.3..0.5", or 0.4; what public runs reach where nothing was said. Raises BadInput (TL231)."""
    if said is None:
        return Mfu()
    low, high = span_of("mfu", said, 1.0)
    return Mfu(low, (low + high) / 2, high, "asked")


def seconds_of(name: str, word: object) -> float:
    """ "12 h", "3 days". Raises BadInput (TL231) for a number without its unit."""
    found = _quantity(str(word).strip(), "time")
    if found is None:
        raise BadInput(f"--{name} {_short(word)!r} is no time with its unit; write --{name} '12 h'", code=UNREADABLE)
    return found


def trained_tokens_of(name: str, word: object) -> float:
    """ "2B", "15T", "500M", 1000000. Raises BadInput (TL231)."""
    text = str(word).strip().replace(",", "").replace("_", "")
    factor = {"k": 1e3, "m": 1e6, "b": 1e9, "t": 1e12}.get(text[-1:].lower(), 1.0)
    try:
        value = float(text[:-1] if factor > 1 else text) * factor
    except ValueError:
        value = math.nan
    if not 1 <= value <= 1e16:
        raise BadInput(f"--{name} {_short(word)!r} is no number of tokens; write --{name} 2B", code=UNREADABLE)
    return value


def dollars_of(name: str, word: object) -> Decimal:
    """Dollars, exact. Raises BadInput (TL231)."""
    text = str(word).strip().removeprefix("$").replace(",", "")
    try:
        value = Decimal(text)
    except InvalidOperation:
        raise BadInput(f"--{name} {str(word)[:40]!r} is no money; write --{name} 2.50", code="TL231") from None
    if not value.is_finite() or not 0 < value <= 1_000_000_000_000:
        raise BadInput(f"--{name} is above 0, in dollars, not {str(word)[:40]}", code="TL231")
    return value


def _quantity(text: str, kind: str) -> float | None:
    try:
        found = read_quantity(text, 0)
    except BadInput:
        return None
    if found is None or found[1] != len(text) or found[0].kind != kind or not found[0].value > 0:
        return None
    return found[0].value if found[0].low is not None else None


def _short(word: object) -> str:
    return str(word)[:40]
