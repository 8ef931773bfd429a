"""Recorded traffic, read line by line: when requests came and how long they were.

Formats: Azure's LLM inference traces (CSV: TIMESTAMP, ContextTokens, GeneratedTokens), BurstGPT (CSV: Timestamp in
seconds, Request tokens, Response tokens), Mooncake (JSON lines: timestamp in milliseconds, input_length,
output_length, hash_ids of 512-token blocks), plain CSV (time_s, input_tokens, output_tokens), and a run of ours, such
as a day of a gateway's traffic.
"""

from __future__ import annotations

import csv
import json
from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from twinlens.errors import BadInput, nearest
from twinlens.record.store import read_run
from twinlens.schedule.plan import Plan
from twinlens.spec.workload.arrival import Trace

_DISORDER_NS = 60 * 10**9  # rows may be this much out of order; one that is later than that ends the reading


@dataclass(frozen=True, slots=True)
class Recorded:
    """A trace as a plan, and how many rows within it cannot be asked for: no prompt, or no answer (failed then)."""

    plan: Plan
    unusable: int


def read_trace(trace: Trace, duration_s: float, *, prompt_seed: int, first: int = 0) -> Recorded:
    """The rows of the trace that fall due within the duration (seconds of this run, after the speed-up).

    Time zero is the first row of the file, or `start_s` after it. Raises BadInput (TL213) naming file, line and field.
    """
    begin_ns, length_ns = round(trace.start_s * 1e9), round(duration_s * 1e9 * trace.speedup)
    columns, unusable, zero_ns = _Columns(), 0, None
    for row in _of_run(Path(trace.path)) if trace.format == "run" else _rows(Path(trace.path), trace.format):
        zero_ns = row.time_ns if zero_ns is None else zero_ns
        at_ns = row.time_ns - zero_ns - begin_ns
        if at_ns >= length_ns + _DISORDER_NS:
            break
        if at_ns >= length_ns or (at_ns < 0 and begin_ns):
            continue
        if row.input_tokens and row.output_tokens:
            columns.add(at_ns, row)
        else:
            unusable += 1
    if not columns.times:
        raise BadInput(f"{trace.path}: no request within {duration_s:g} s from {trace.start_s:g} s on", code="TL213")
    return Recorded(columns.plan(length_ns, trace.speedup, prompt_seed, first), unusable)


class _Columns:
    """Rows as they are read, eight bytes a number."""

    def __init__(self) -> None:
        self.times, self._inputs, self._outputs, self._offsets, self._blocks = (array("q") for _ in range(5))
        self._offsets.append(0)

    def add(self, at_ns: int, row: TraceRow) -> None:
        self.times.append(at_ns)
        self._inputs.append(row.input_tokens)
        self._outputs.append(row.output_tokens)
        self._blocks.extend(row.blocks)
        self._offsets.append(len(self._blocks))

    def plan(self, length_ns: int, speedup: float, prompt_seed: int, first: int) -> Plan:
        """The rows in the order of their times. Where some lie before the file's first row, the earliest is zero."""
        at_ns = np.array(self.times)
        at_ns -= min(0, int(at_ns.min()))
        order = np.argsort(at_ns, kind="stable")
        order = order[at_ns[order] < length_ns]
        ends, ids = np.array(self._offsets), np.array(self._blocks)
        taken = np.concatenate([np.arange(ends[i], ends[i + 1]) for i in order]) if len(ids) else ids
        return Plan(
            prompt_seed,
            np.floor(at_ns[order] / speedup).astype(np.int64),
            np.array(self._inputs)[order],
            np.array(self._outputs)[order],
            first_number=first,
            block_offsets=np.concatenate([[0], np.cumsum(np.diff(ends)[order])]) if len(ids) else None,
            block_ids=ids[taken] if len(ids) else None,
        )


def _rows(path: Path, kind: str) -> Iterator[TraceRow]:
    with _opened(path) as file:
        lines = _json(file) if kind == "mooncake" else _csv(file, str(path), COLUMNS[kind])
        make = MAKERS[kind]
        for line, fields in lines:
            try:
                yield make(fields)
            except Wrong as wrong:
                raise BadInput(f"{path}, line {line}: {wrong}", code="TL213") from None


def _of_run(folder: Path) -> Iterator[TraceRow]:
    """Requests of a run as they came: the prompt as it was counted, the answer as long as it became. 0: not known, or
    none came."""
    run = read_run(folder)
    if run.lens != "inference":
        raise BadInput(f"{folder} is a run of {run.lens}: it has no requests to ask again", code="TL213")
    rows = run.requests
    prompts = np.nan_to_num(rows.input_tokens).astype(np.int64)
    for place in np.argsort(rows.intended_ns, kind="stable").tolist():
        yield TraceRow(int(rows.intended_ns[place]), int(prompts[place]), int(rows.output_tokens[place]))


def _opened(path: Path) -> TextIO:
    try:
        return path.open(encoding="utf-8-sig", errors="replace", newline="")
    except OSError as error:
        raise BadInput(f"cannot read the trace {str(path)!r}: {error.strerror}", code="TL213") from None


def _csv(file: TextIO, path: str, columns: tuple[str, ...]) -> Iterator[tuple[int, list[str]]]:
    """The wanted columns of each row, found by the header's names without regard to case."""
    reader = csv.reader(file)
    header = [name.strip().casefold() for name in next(reader, [])]
    for column in columns:
        if column.casefold() not in header:
            raise BadInput(f"{path}, line 1: no column {column!r}; {nearest(column, header)}", code="TL213")
    places = [header.index(column.casefold()) for column in columns]
    try:
        for row in reader:
            if row:
                yield reader.line_num, [row[place] if place < len(row) else "" for place in places]
    except csv.Error as error:
        raise BadInput(f"{path}, line {reader.line_num}: {error}", code="TL213") from None


def _json(file: TextIO) -> Iterator[tuple[int, str]]:
    return ((line, text) for line, text in enumerate(file, 1) if text.strip())


# One line of a recorded trace, field by field, in each of the formats.

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
