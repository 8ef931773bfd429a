"""One line of a log without its colours and its prefix, and the numbers in it."""

from __future__ import annotations

import math
import re

_COLOURS = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_RANK = re.compile(r"^\s*\[((?:default|rank)\d+)\]:\s?|^\s*(\d{1,6}):\s")
_LONGEST = 20_000
_MOST = 2**53
_LONGEST_STEP_S = 1e5


def plain(line: str) -> tuple[str, str]:
    """The prefix by which torchrun and Slurm tell processes apart ("" where there is none), and the rest."""
    text = _COLOURS.sub("", line[:_LONGEST]).rstrip("\r\n")
    if (found := _RANK.match(text)) is None:
        return "", text
    return found[1] or found[2], text[found.end() :]


def cells(text: str) -> dict[str, str]:
    """`key: value` or `key=value` between the bars of a line, the first of each key; any order, any set of keys."""
    found: dict[str, str] = {}
    for cell in text.split("|"):
        key, separator, value = cell.partition(":" if ":" in cell else "=")
        if separator:
            found.setdefault(key.strip(), value.strip())
    return found


def real(text: str | None) -> float | None:
    """A finite number; of "now/mean", as forks print, the first. None for anything else."""
    try:
        value = float((text or "").split("/")[0].replace(",", ""))
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def loss(text: str) -> float | None:
    """As `real`, but "nan" and "inf" are told: such training has diverged."""
    try:
        return float(text.split("/")[0])
    except ValueError:
        return None


def whole(text: str | None) -> int | None:
    """A count that a column of 64 bits holds; None for anything else."""
    value = real(text)
    return int(value) if value is not None and 0 <= value < _MOST and value == int(value) else None


def seconds(text: str | None, unit_s: float) -> tuple[float | None, float]:
    """A step's time and its last printed digit, in seconds; None for what no step takes."""
    value = real(text)
    if text is None or value is None or not 0 < value * unit_s < _LONGEST_STEP_S:
        return None, 0.0
    mantissa, _, exponent = text.split("/")[0].replace(",", "").strip().lower().partition("e")
    digits = len(mantissa.partition(".")[2])
    return value * unit_s, unit_s * 10.0 ** (int(exponent or 0) - digits)
