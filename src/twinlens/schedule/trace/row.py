"""One line of a recorded trace, field by field, in each of the formats."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

BLOCK_TOKENS = 512
"""Prompt tokens that one hash of a Mooncake trace stands for; the last of a prompt may stand for fewer."""

_EPOCH = datetime(1970, 1, 1)


@dataclass(frozen=True, slots=True)
class TraceRow:
    """One recorded request. `time_ns` counts from an origin of the file's own."""

    time_ns: int
    input_tokens: int
    output_tokens: int
    blocks: tuple[int, ...] = ()


class Wrong(Exception):
    """A fault in one field; the reader adds the file and the line."""


def _azure(fields: list[str]) -> TraceRow:
    time, prompt, answer = fields
    return TraceRow(_date_ns(time, "TIMESTAMP"), count_of(prompt, "ContextTokens"), count_of(answer, "GeneratedTokens"))


def _burstgpt(fields: list[str]) -> TraceRow:
    time, prompt, answer = fields
    return TraceRow(
        _scaled_ns(time, "Timestamp", 1e9), count_of(prompt, "Request tokens"), count_of(answer, "Response tokens")
    )


def _plain(fields: list[str]) -> TraceRow:
    time, prompt, answer = fields
    return TraceRow(
        _scaled_ns(time, "time_s", 1e9), count_of(prompt, "input_tokens"), count_of(answer, "output_tokens")
    )


def _mooncake(text: str) -> TraceRow:
    try:
        row = json.loads(text)
    except (ValueError, RecursionError):
        row = None
    if not isinstance(row, dict):
        raise Wrong(f"not a JSON object: {text.strip()[:60]!r}")
    for name in ("timestamp", "input_length", "output_length"):
        if name not in row:
            raise Wrong(f"{name} is missing")
    prompt, ids = count_of(row["input_length"], "input_length"), row.get("hash_ids", [])
    if not isinstance(ids, list) or not all(type(block) is int and 0 <= block < 2**63 for block in ids):
        raise Wrong("hash_ids is not a list of whole numbers")
    used = tuple(ids[: -(-prompt // BLOCK_TOKENS)])
    return TraceRow(
        _scaled_ns(row["timestamp"], "timestamp", 1e6), prompt, count_of(row["output_length"], "output_length"), used
    )


COLUMNS = {
    "azure": ("TIMESTAMP", "ContextTokens", "GeneratedTokens"),
    "burstgpt": ("Timestamp", "Request tokens", "Response tokens"),
    "csv": ("time_s", "input_tokens", "output_tokens"),
}
MAKERS: dict[str, Callable[[Any], TraceRow]] = {
    "azure": _azure,
    "burstgpt": _burstgpt,
    "csv": _plain,
    "mooncake": _mooncake,
}


def count_of(value: Any, field: str) -> int:
    """A whole number that is not negative; "374.0" is one."""
    number = _number(value, field)
    if number < 0 or number != int(number) or number > 2**53:
        raise Wrong(f"{field} is {value!r}, not a count of tokens")
    return int(number)


def _scaled_ns(value: Any, field: str, scale: float) -> int:
    scaled = _number(value, field) * scale
    if abs(scaled) >= 2**62:
        raise Wrong(f"{field} is {value!r}, beyond any time")
    return round(scaled)


def _number(value: Any, field: str) -> float:
    try:
        number = float(value) if not isinstance(value, bool) else float("nan")
    except (TypeError, ValueError):
        number = float("nan")
    if not abs(number) < float("inf"):
        raise Wrong(f"{field} is {value!r}, not a number")
    return number


def _date_ns(text: str, field: str) -> int:
    """A date with any number of digits after the second: `datetime` keeps six, Azure writes seven."""
    try:
        whole, _, rest = text.strip().partition(".")
        digits = rest[: len(rest) - len(rest.lstrip("0123456789"))]
        zone = rest[len(digits) :]
        moment = datetime.fromisoformat(whole + zone)
        since = moment.replace(tzinfo=None) - (moment.utcoffset() or _EPOCH - _EPOCH) - _EPOCH
        return (since.days * 86_400 + since.seconds) * 10**9 + int(digits.ljust(9, "0")[:9])
    except (ValueError, OverflowError):
        raise Wrong(f"{field} is {text!r}, not a date") from None
