"""Recorded traffic, read line by line: when requests came and how long they were.

Formats: Azure's LLM inference traces (CSV: TIMESTAMP, ContextTokens, GeneratedTokens), BurstGPT (CSV: Timestamp in
seconds, Request tokens, Response tokens), Mooncake (JSON lines: timestamp in milliseconds, input_length,
output_length, hash_ids of 512-token blocks) and plain CSV (time_s, input_tokens, output_tokens).
"""

from __future__ import annotations

import csv
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

import numpy as np

from twinlens.errors import BadInput, nearest
from twinlens.schedule.plan import Plan
from twinlens.schedule.trace.row import COLUMNS, MAKERS, TraceRow, Wrong
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
    for row in _rows(Path(trace.path), trace.format):
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
