"""Units of stored numbers, and how each is shown to people.

Stored values are SI base units (words.md): seconds, bytes, FLOP, joules. Display prefixes are chosen here only.
GiB is 2**30 bytes, GB is 10**9 bytes; rates use powers of ten.
"""

from __future__ import annotations

import math

SECONDS = "s"
BYTES = "bytes"
BYTES_PER_S = "bytes/s"
FLOP = "flop"
FLOP_PER_S = "flop/s"
JOULES = "j"
WATTS = "w"
RATIO = "1"
TOKENS_PER_S = "tokens/s"
SAMPLES_PER_S = "samples/s"
IMAGES_PER_S = "images/s"
TEXTS_PER_S = "texts/s"
DOCUMENTS_PER_S = "documents/s"
REQUESTS_PER_S = "requests/s"
STEPS_PER_S = "steps/s"
EXCHANGES_PER_S = "exchanges/s"
NATS = "nats"
COUNT = "count"
HOUR_S, DAY_S = 3600.0, 86400.0
YEAR_S = 365 * DAY_S
MONTH_S = YEAR_S / 12
HOURS_A_MONTH = 730  # 365 × 24 / 12
JOULES_PER_KWH = 3.6e6

_DECIMAL = [(1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, "")]
_BINARY = [(2.0**40, "TiB"), (2.0**30, "GiB"), (2.0**20, "MiB"), (2.0**10, "KiB"), (1.0, "B")]
_TIME = [(3600.0, "h"), (60.0, "min"), (1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns")]
_PREFIXED = {FLOP_PER_S: "FLOP/s", BYTES_PER_S: "B/s", FLOP: "FLOP", JOULES: "J", WATTS: "W"}


def digits(value: float, significant: int = 3) -> str:
    """A number with a fixed count of significant digits and no exponent between 1e-4 and 1e6."""
    if not math.isfinite(value):
        return "not finite"
    if value == 0:
        return "0"
    magnitude = math.floor(math.log10(abs(value)))
    if magnitude < -4 or magnitude >= 6:
        return f"{value:.{significant - 1}e}"
    rounded = _rounded(value, significant)  # 0.9996 has three digits as 1.00, and not as 1.000
    return f"{value:,.{max(0, significant - 1 - math.floor(math.log10(abs(rounded))))}f}"


def _rounded(value: float, significant: int) -> float:
    return float(f"{value:.{significant - 1}e}")


def scale(unit: str, value: float) -> tuple[float, str]:
    """The divisor and the shown unit fit for `value`: `scale("s", 0.004)` is `(0.001, "ms")`.

    Of seconds and units with decimal prefixes, fit for three digits of it: 999.6 µs are 1.00 ms, and not 1,000 µs.
    """
    size = abs(_rounded(value, 3)) if unit == SECONDS or unit in _PREFIXED else abs(value)
    if unit == RATIO:
        return 0.01, "%"
    if unit == BYTES:
        return next(((d, name) for d, name in _BINARY if size >= d), _BINARY[-1])
    if unit == SECONDS:
        if size >= 600:
            return next((d, name) for d, name in _TIME if size >= d)
        return next(((d, name) for d, name in _TIME[2:] if size >= d), _TIME[-1] if size else _TIME[2])
    if unit in _PREFIXED:
        if size < 1:  # millijoules and the like: one prefix down is as far as we go
            return (1e-3, f"m{_PREFIXED[unit]}") if size > 0 else (1.0, _PREFIXED[unit])
        return next((d, f"{name}{_PREFIXED[unit]}") for d, name in _DECIMAL if size >= d)
    if unit == COUNT and size >= 1e6:
        return next((d, name) for d, name in _DECIMAL if size >= d)
    return 1.0, "" if unit == COUNT else unit


def show(value: float | None, unit: str, significant: int = 3) -> str:
    """A value for people, with its unit: `show(0.0042, "s")` is `"4.20 ms"`; `None` is `"not measured"`."""
    if value is None:
        return "not measured"
    divisor, name = scale(unit, value)
    gap = "" if name == "%" or not name else " "
    return f"{digits(value / divisor, significant)}{gap}{name}"
