"""The server's own metrics during a run: one row per reading of its metrics page, null where it gives none.

Counters are the server's own running totals, as they stood; differences are made by whoever reads them. Several
engines of one server are summed.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Self

import pyarrow as pa

_REAL = ("kv_use",)


@dataclass(frozen=True, slots=True)
class ServerSample:
    """One reading. `time_ns` counts from the start of the run on its monotonic clock (below 0: just before it) and is
    the middle of the request for the page; `round_trip_ns` is how long that took, so it is off by half of it at most.

    Gauges: `running`, `waiting` requests; `kv_use` (0-1 of the cache) and `slots`, how many requests may run at once,
    of one engine (the mean of several). Counters: `preemptions`; `prefix_queries`, `prefix_hits` in tokens
    (TensorRT-LLM: blocks); `draft_tokens`, `accepted_tokens` of speculation; `prompt_tokens`, `generation_tokens`;
    `iterations`, steps of the engine, and `iteration_tokens`, what they computed; `finished` requests. Histograms, as
    sum in seconds and count: `ttft`, `queue`, `prefill`, `decode`, `e2e`, `itl` (the server's own definitions, which
    differ by server).
    `error`: why this reading has nothing.
    """

    time_ns: int
    round_trip_ns: int
    running: int | None = None
    waiting: int | None = None
    kv_use: float | None = None
    slots: int | None = None
    preemptions: int | None = None
    prefix_queries: int | None = None
    prefix_hits: int | None = None
    draft_tokens: int | None = None
    accepted_tokens: int | None = None
    prompt_tokens: int | None = None
    generation_tokens: int | None = None
    iterations: int | None = None
    iteration_tokens: int | None = None
    finished: int | None = None
    ttft_sum_s: float | None = None
    ttft_count: int | None = None
    queue_sum_s: float | None = None
    queue_count: int | None = None
    prefill_sum_s: float | None = None
    prefill_count: int | None = None
    decode_sum_s: float | None = None
    decode_count: int | None = None
    e2e_sum_s: float | None = None
    e2e_count: int | None = None
    itl_sum_s: float | None = None
    itl_count: int | None = None
    error: str | None = None

    def since(self, origin_ns: int) -> Self:
        """The same with its time counted from `origin_ns`."""
        return replace(self, time_ns=self.time_ns - origin_ns)

    def to_row(self) -> dict[str, Any]:
        """All columns by name, None where absent."""
        return asdict(self)


GAUGES = ("running", "waiting", "kv_use", "slots")
COUNTERS = tuple(
    field.name
    for field in fields(ServerSample)
    if field.name not in ("time_ns", "round_trip_ns", "error") and field.name not in GAUGES
)
"""Columns that only grow while the server lives: one that falls means that it was started again."""


def _type(name: str) -> pa.DataType:
    if name == "error":
        return pa.string()
    return pa.float64() if name in _REAL or name.endswith("_s") else pa.int64()


SERVER_SCHEMA = pa.schema([(field.name, _type(field.name)) for field in fields(ServerSample)])


@dataclass(frozen=True, slots=True)
class ServerReading:
    """`server_metrics` in run.json: what reading the server's metrics page cost, and how often it failed.

    `reason`: why there was no reading, or none any more; None where all went well.
    """

    url: str | None = None
    reason: str | None = None
    period_s: float | None = None
    samples: int = 0
    failed: int = 0
    cpu_s: float = 0.0
