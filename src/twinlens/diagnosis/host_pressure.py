"""Pressure on the host over the steady window, from telemetry: what may have kept the program from running at all."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from twinlens.record.estimate import Estimate
from twinlens.units import COUNT, RATIO

_METHODS = {
    "waited_cpu": (COUNT, "threads ready without a processor, mean (Linux schedstat)"),
    "steal_cpu": (RATIO, "processor time that a hypervisor gave to others, of all (/proc/stat)"),
    "quota_cpu": (RATIO, "time held back by a container's quota (cgroup cpu.stat)"),
    "gc_share": (RATIO, "time in Python's garbage collection"),
    "foreign_cpu": (RATIO, "processor time of other programs, of all"),
}
"""Telemetry column of the host to its unit and where it comes from."""


def host_pressure(telemetry: pa.Table, begin_s: float, end_s: float) -> Mapping[str, Estimate]:
    """Means of what the host's rows say between two moments of the run, and major page faults in all; a column that
    this system does not tell is left out. Each row is about the time since the one before."""
    if not telemetry.num_rows:
        return {}
    host = telemetry.filter(pc.equal(telemetry["source"], "host"))
    at_s = host["time_ns"].to_numpy() / 1e9
    inside = (at_s > begin_s) & (at_s <= end_s)
    found = {}
    for name, (unit, method) in _METHODS.items():
        values = _known(host, name, inside)
        if values.size:
            found[name] = Estimate(float(values.mean()), unit, method, "measured", n=values.size)
    faults = _known(host, "major_faults", inside)
    if faults.size:
        method = "page faults that waited for storage, in the window (/proc/PID/stat)"
        found["major_faults"] = Estimate(float(faults.sum()), COUNT, method, "measured", n=faults.size)
    return found


def _known(host: pa.Table, name: str, inside: np.ndarray) -> np.ndarray:
    values = host[name].to_numpy(zero_copy_only=False).astype(float)[inside]
    return np.asarray(values[~np.isnan(values)])
