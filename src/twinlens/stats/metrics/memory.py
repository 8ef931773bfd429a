"""Memory by category as the executor counted it, and the peak as it was sampled."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from twinlens.record.estimate import Estimate
from twinlens.units import BYTES

_CATEGORIES = ("weights_bytes", "gradients_bytes", "optimizer_bytes", "activations_bytes", "kv_bytes")


def memory(known: dict[str, Estimate]) -> dict[str, Estimate]:
    """The categories that were counted."""
    return {name: known[name] for name in _CATEGORIES if name in known}


def peak_memory(telemetry: pa.Table, *, is_server: bool = False) -> Estimate:
    """The largest sampled memory: of the accelerator where it was read, else of the process, or those of the server."""
    source, process = ("server", "the server's processes") if is_server else ("host", "the process")
    of_it = telemetry.filter(pc.equal(telemetry.column("source"), source))
    for values, what in (
        (telemetry.column("memory_used_bytes").drop_null(), "accelerator memory in use"),
        (of_it.column("rss_bytes").drop_null(), f"resident memory of {process}"),
    ):
        if len(values):
            method = f"largest of {len(values)} samples of {what}; a shorter peak between samples is not seen"
            return Estimate(float(pc.max(values).as_py()), BYTES, method, "measured", n=len(values))
    return Estimate.absent(BYTES, "no telemetry sample has it")
