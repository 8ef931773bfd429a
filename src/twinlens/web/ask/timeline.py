"""Requests of a run as a timeline: what each waits for, in lanes, as plain data that a small module draws."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush
from typing import Any

import numpy as np
import pyarrow as pa

MOST_REQUESTS = 160
"""Of one timeline, from the middle of the run: the first ones find everything empty."""
_NS = 1e9
Moments = tuple[float, float, float, float]
"""When a request was due, was let go to the engine, had its first token, and ended, in seconds."""


def track(name: str, origin: str, table: pa.Table) -> dict[str, Any]:
    """Requests that were answered, each with its lane. `origin`: simulated or measured."""
    chosen = moments(table)
    begin = max(0, (len(chosen) - MOST_REQUESTS) // 2)
    shown = chosen[begin : begin + MOST_REQUESTS]
    lanes = lanes_of(shown)
    start = shown[0][0] if shown else 0.0
    rows = [[round(at - start, 4) for at in each] + [lane] for each, lane in zip(shown, lanes, strict=True)]
    return {"name": name, "origin": origin, "lanes": max(lanes, default=-1) + 1, "requests": rows,
            "of": len(chosen), "from_s": round(start, 3)}  # fmt: skip


def moments(table: pa.Table) -> list[Moments]:
    """The moments of every answered request, in the order in which they were due."""
    rows = table.sort_by("intended_ns").combine_chunks()
    chunks = rows.column("chunk_ns").combine_chunks()
    if isinstance(chunks, pa.ChunkedArray):
        chunks = chunks.chunk(0) if chunks.num_chunks else pa.array([], chunks.type)
    offsets, values = np.asarray(chunks.offsets), np.asarray(chunks.values)
    has_token = offsets[1:] > offsets[:-1]
    firsts = values[np.minimum(offsets[:-1], max(len(values) - 1, 0))] if len(values) else np.zeros(len(rows))
    due = np.asarray(rows.column("intended_ns").to_numpy(), dtype=float)
    let_go = np.asarray(rows.column("released_ns").to_numpy(), dtype=float)
    ends = np.asarray(rows.column("end_ns").to_numpy(), dtype=float)
    ok = np.asarray(rows.column("outcome").to_pylist(), dtype=object) == "ok"
    let_go = np.where(np.isnan(let_go), due, let_go)
    kept = ok & has_token & ~np.isnan(ends) & ~np.isnan(due)
    found = np.stack([due, let_go, firsts, ends], axis=1)[kept] / _NS
    return [tuple(each) for each in found.tolist()]


def lanes_of(requests: Sequence[Moments]) -> list[int]:
    """The lowest lane that is free when each is due; a lane holds one request at a time."""
    free: list[int] = []
    busy: list[tuple[float, int]] = []
    found, made = [], 0
    for due, _, _, end in requests:
        while busy and busy[0][0] <= due:
            heappush(free, heappop(busy)[1])
        if free:
            lane = heappop(free)
        else:
            lane, made = made, made + 1
        heappush(busy, (end, lane))
        found.append(lane)
    return found
