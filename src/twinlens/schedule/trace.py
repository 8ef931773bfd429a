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
from itertools import chain
from pathlib import Path
from typing import TextIO

import numpy as np

from twinlens.errors import BadInput, nearest
from twinlens.schedule.plan import Plan
from twinlens.schedule.trace_row import COLUMNS, MAKERS, TraceRow, Wrong
from twinlens.spec.arrival import Trace

_DISORDER_S = 60.0  # rows may be this much out of order; one that is later than that ends the reading


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
    times, inputs, outputs, offsets, blocks = (array("q") for _ in range(5))
    offsets.append(0)
    unusable, zero_ns = 0, None
    for row in _rows(Path(trace.path), trace.format):
        zero_ns = row.time_ns if zero_ns is None else zero_ns
        at_ns = row.time_ns - zero_ns - begin_ns
        if at_ns >= length_ns + _DISORDER_S * 1e9:
            break
        if at_ns >= length_ns or (at_ns < 0 and begin_ns):
            continue
        if not row.input_tokens or not row.output_tokens:
            unusable += 1
            continue
        times.append(at_ns)
        inputs.append(row.input_tokens)
        outputs.append(row.output_tokens)
        blocks.extend(row.blocks)
        offsets.append(len(blocks))
    if not times:
        raise BadInput(f"{trace.path}: no request within {duration_s:g} s from {trace.start_s:g} s on", code="TL213")
    return Recorded(_plan(times, inputs, outputs, offsets, blocks, trace.speedup, prompt_seed, first), unusable)


def _plan(
    times: array[int],
    inputs: array[int],
    outputs: array[int],
    offsets: array[int],
    blocks: array[int],
    speedup: float,
    prompt_seed: int,
    first: int,
) -> Plan:
    at_ns, ends = np.array(times), np.array(offsets)
    order = np.argsort(at_ns, kind="stable")
    at_ns = at_ns[order] - min(0, int(at_ns.min()))
    sizes = np.diff(ends)[order]
    taken = [range(ends[i], ends[i + 1]) for i in order] if blocks else []
    return Plan(
        prompt_seed,
        np.rint(at_ns / speedup).astype(np.int64),
        np.array(inputs)[order],
        np.array(outputs)[order],
        first_number=first,
        block_offsets=np.concatenate([[0], np.cumsum(sizes)]) if blocks else None,
        block_ids=np.array(blocks)[list(chain.from_iterable(taken))] if blocks else None,
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
    for row in reader:
        if row:
            yield reader.line_num, [row[place] if place < len(row) else "" for place in places]


def _json(file: TextIO) -> Iterator[tuple[int, str]]:
    return ((line, text) for line, text in enumerate(file, 1) if text.strip())
