"""Samples beside the rows: telemetry of the machine, and the server's own metrics; null where nothing can be read."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Self

from twinlens.record.column import schema_of


@dataclass(frozen=True, slots=True)
class Sample:
    """One reading of one source at `time_ns` from the start of the run (monotonic).

    `source` is "host", "server" (the processes of a launched one), "gpu:UUID" or a meter's scope such as "package:0".
    Ratios are 0-1 of all logical processors of the host: `cpu_busy` ours and our children's, `host_busy` everybody's,
    `foreign_cpu` the difference: evidence of co-tenants. `energy_mj` is the device's running counter in millijoules.
    `utilisation` is the share of time in which any kernel ran, a proxy of activity and not of performance.
    `throttle_bits` are NVML's clock event reasons. The rest is since the sample before: `steal_cpu` what a hypervisor
    gave to others, of all processors; `waited_cpu` how many of our threads were ready and had no processor (a mean,
    may exceed 1); `quota_cpu` the share of time a container's quota held it back; `gc_share` that of Python's garbage
    collection in the measuring process; `major_faults` and `read_bytes` what had to come from storage for our
    processes; `swapped_bytes` what the machine moved to and from swap. From the board's own counters (NVML GPM): the
    share of time in which an SM had work, the mean share of its warps, the share of time in which tensor pipes of any
    kind, of half precision (HMMA) and of integers (IMMA) were busy, the share of DRAM's theoretical bandwidth that was
    used, and bytes per second sent and received by the board over PCIe and over all NVLinks.
    """

    time_ns: int
    source: str
    rss_bytes: int | None = None
    cpu_busy: float | None = None
    host_busy: float | None = None
    foreign_cpu: float | None = None
    cpu_mhz: float | None = None
    available_memory_bytes: int | None = None
    power_w: float | None = None
    energy_mj: int | None = None
    temperature_c: float | None = None
    sm_mhz: float | None = None
    mem_mhz: float | None = None
    utilisation: float | None = None
    memory_used_bytes: int | None = None
    throttle_bits: int | None = None
    steal_cpu: float | None = None
    waited_cpu: float | None = None
    quota_cpu: float | None = None
    gc_share: float | None = None
    major_faults: int | None = None
    swapped_bytes: int | None = None
    read_bytes: int | None = None
    sm_active: float | None = None
    sm_occupancy: float | None = None
    tensor_active: float | None = None
    hmma_active: float | None = None
    imma_active: float | None = None
    dram_active: float | None = None
    pcie_tx_bytes_per_s: float | None = None
    pcie_rx_bytes_per_s: float | None = None
    nvlink_tx_bytes_per_s: float | None = None
    nvlink_rx_bytes_per_s: float | None = None

    def to_row(self) -> dict[str, Any]:
        """All columns by name, None where absent (a table wants every column)."""
        return asdict(self)


TELEMETRY_SCHEMA = schema_of(Sample)
COLUMNS = tuple(TELEMETRY_SCHEMA.names)
FOREIGN_SHARE = 0.05
"""Of the machine's processors (`foreign_cpu`): less is within the noise of most runs, kernel and idle daemons."""


# The server's own metrics during a run: one row per reading of its metrics page, null where it gives none.
#
# Counters are the server's own running totals, as they stood; differences are made by whoever reads them. Several
# engines of one server are summed.


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


SERVER_SCHEMA = schema_of(ServerSample)


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
