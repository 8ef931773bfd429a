"""Rows of served runs made by hand or by a queue whose truth is known."""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

import numpy as np
import pyarrow as pa

from twinlens.record.estimate import Estimate
from twinlens.record.request import REQUEST_SCHEMA, Request, Requests
from twinlens.spec.slo import Slo
from twinlens.stats.serving.metrics import serving_metrics
from twinlens.stats.serving.window import LoopKind, Window, find_window

MS = 1_000_000
S = 1_000_000_000


def columns(rows: Iterable[Request]) -> Requests:
    return Requests.from_table(pa.Table.from_pylist([asdict(row) for row in rows], schema=REQUEST_SCHEMA))


def row(intended_ms: float, chunks_ms: Iterable[float] = (), **more: Any) -> Request:
    """A request from times in milliseconds: sent at once and over with its last chunk unless `more` says otherwise."""
    times = tuple(round(chunk_ms * MS) for chunk_ms in chunks_ms)
    sent_ns = round(more.pop("sent_ms", intended_ms) * MS)
    end_ns = round(more.pop("end_ms", times[-1] / MS if times else intended_ms) * MS)
    tokens = more.pop("tokens", (1,) * len(times))
    if "released_ms" in more:
        more["released_ns"] = round(more.pop("released_ms") * MS)
    known = {"group": 0, "input_tokens": 10, "output_tokens": sum(tokens)} | more
    return Request(
        intended_ns=round(intended_ms * MS),
        sent_ns=sent_ns,
        chunk_ns=times,
        chunk_tokens=tuple(tokens),
        end_ns=end_ns,
        **known,
    )


def failed(intended_ms: float, end_ms: float, chunks_ms: Iterable[float] = (), **more: Any) -> Request:
    return row(intended_ms, chunks_ms, end_ms=end_ms, **{"outcome": "failed"} | more)


def queue(
    intended_s: np.ndarray, service_s: np.ndarray, slots: int, *, tokens: int = 8, late: bool = False
) -> Requests:
    """First come, first served by `slots` servers; `tokens` evenly over each service time.

    `late`: the client has `slots` connections and sends when one is free, so the queue is in the client.
    """
    free = [0.0] * slots
    start = np.empty(intended_s.size)
    for i, (due, needs) in enumerate(zip(intended_s, service_s, strict=True)):
        start[i] = max(heapq.heappop(free), due)
        heapq.heappush(free, start[i] + needs)
    chunks = start[:, None] + service_s[:, None] * np.arange(1, tokens + 1) / tokens
    n = intended_s.size
    to_ns = lambda seconds: np.rint(np.asarray(seconds) * S).astype(np.int64)  # noqa: E731
    return Requests(
        group=np.arange(n),
        intended_ns=to_ns(intended_s),
        sent_ns=to_ns(start if late else intended_s),
        end_ns=to_ns(start + service_s),
        input_tokens=np.full(n, 16),
        output_tokens=np.full(n, tokens),
        outcome=np.full(n, "ok", dtype=object),
        offsets=np.arange(0, n * tokens + 1, tokens),
        chunk_ns=to_ns(chunks).ravel(),
        chunk_tokens=np.ones(n * tokens, np.int64),
        asked_tokens=np.full(n, float(tokens)),
        released_ns=np.full(n, np.nan),
        session=np.full(n, np.nan),
        turn=np.full(n, np.nan),
        slice=np.full(n, np.nan),
        reasoning_chunks=np.full(n, np.nan),
    )


def poisson(rate_per_s: float, count: int, seed: int) -> np.ndarray:
    """Arrival times in seconds."""
    return np.cumsum(np.random.default_rng([seed, count]).exponential(1 / rate_per_s, count))


def whole(requests: Requests, loop: LoopKind = "whole") -> Window:
    """The window of rows that certainly have one."""
    window = find_window(requests, loop)
    assert window is not None
    return window


def served_metrics(
    requests: Requests, loop: LoopKind = "whole", slo: Slo | None = None, devices: int | None = None
) -> dict[str, Estimate]:
    """The metrics of rows over their window."""
    return serving_metrics(requests, whole(requests, loop), slo, devices)
