"""Clock, temperature, power and throttling of one device in one window, from the telemetry of a run; work by rank."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from twinlens.acceptance.criteria import COUNTERS
from twinlens.acceptance.driving.counters import PROCESSOR
from twinlens.acceptance.window import DeviceWindow
from twinlens.record.column import lists, numbers
from twinlens.record.run import Run
from twinlens.stats.metrics.energy import REASONS

_NS = 1e9
_NOT_SAMPLED = "no sample of it fell into this window"
_NO_PACKAGE_ENERGY = "no energy counter of a processor package can be read"


def figures(run: Run, device: str, low_s: float, high_s: float) -> DeviceWindow:
    """What telemetry says of a device between two moments of the run; what it does not say stands in `missing`."""
    if device == PROCESSOR:
        return _processor(run.telemetry, low_s, high_s)
    return _gpu(run.telemetry, device, low_s, high_s)


def _processor(telemetry: pa.Table, low_s: float, high_s: float) -> DeviceWindow:
    mhz = _values(telemetry, "host", "cpu_mhz", low_s, high_s)
    power_w = _package_power_w(telemetry, low_s, high_s)
    missing = {} if mhz.size else {"clock": _NOT_SAMPLED}
    missing |= {} if power_w is not None else {"power": _NO_PACKAGE_ENERGY}
    return DeviceWindow(
        PROCESSOR, clock_hz=float(mhz.mean()) * 1e6 if mhz.size else None, power_w=power_w, missing=missing
    )


def _gpu(telemetry: pa.Table, device: str, low_s: float, high_s: float) -> DeviceWindow:
    if not _rows(telemetry, device, 0.0, float("inf")).num_rows:  # a board that this workload does not use
        return DeviceWindow(device, has_not=("clock", "power", "throttled"))
    columns = ("sm_mhz", "temperature_c", "power_w", "throttle_bits")
    mhz, celsius, watts, bits = (_values(telemetry, device, name, low_s, high_s) for name in columns)
    named = {"clock": mhz, "temperature": celsius, "power": watts, "throttled": bits}
    held = bits.astype(np.int64)
    shares = {reason: float(((held & bit) != 0).mean()) for bit, reason in REASONS.items()} if bits.size else {}
    return DeviceWindow(
        device,
        clock_hz=float(mhz.mean()) * 1e6 if mhz.size else None,
        temperature_c=float(celsius.max()) if celsius.size else None,
        power_w=float(watts.mean()) if watts.size else None,
        throttled={reason: share for reason, share in shares.items() if share},
        missing={name: _NOT_SAMPLED for name, values in named.items() if not values.size},
    )


def _package_power_w(telemetry: pa.Table, low_s: float, high_s: float) -> float | None:
    """All packages together, from the first and the last reading of each; None where one has fewer than two."""
    sources = {str(each) for each in telemetry.column("source").unique().to_pylist()}
    packages = sorted(each for each in sources if each.startswith("package:"))
    total = 0.0
    for source in packages:
        rows = _rows(telemetry, source, low_s, high_s)
        energy = rows.column("energy_mj").drop_null()
        if len(energy) < 2 or len(energy) != rows.num_rows:
            return None
        time_s = rows.column("time_ns").to_numpy() / _NS
        total += (energy[-1].as_py() - energy[0].as_py()) / 1e3 / float(time_s[-1] - time_s[0])
    return total if packages else None


def _values(telemetry: pa.Table, source: str, column: str, low_s: float, high_s: float) -> np.ndarray:
    return np.asarray(_rows(telemetry, source, low_s, high_s).column(column).drop_null().to_numpy(), dtype=float)


def _rows(telemetry: pa.Table, source: str, low_s: float, high_s: float) -> pa.Table:
    time_s = telemetry.column("time_ns").to_numpy() / _NS
    is_source = np.array([each == source for each in telemetry.column("source").to_pylist()], dtype=bool)
    return telemetry.filter(pa.array((time_s >= low_s) & (time_s < high_s) & is_source))


_PARTS = ("data", "forward", "backward", "optimize")
_OF_A_DEVICE = (*COUNTERS, "clock", "temperature", "power", "throttled")


def ranks_of(run: Run, low_s: float, high_s: float) -> tuple[DeviceWindow, ...]:
    """Each rank of divided work with its own rate: pieces over the time that it worked, without waiting for others.
    Empty where the work is not divided."""
    worked_ns, end_ns = _of_ranks(run)
    inside = (end_ns / _NS > low_s) & (end_ns / _NS <= high_s)
    if worked_ns is None or not inside.any():
        return ()
    seconds = worked_ns[inside].mean(axis=0) / _NS
    return tuple(
        DeviceWindow(f"rank:{rank}", rate=float(1 / each), has_not=_OF_A_DEVICE)
        for rank, each in enumerate(seconds)
        if each > 0
    )


def _of_ranks(run: Run) -> tuple[np.ndarray | None, np.ndarray]:
    """Nanoseconds of work, rows × ranks (None where it is not divided), and the end of each row."""
    if run.lens == "collective":
        return run.exchanges.rank_ns, run.exchanges.end_ns
    names = [f"rank_{part}_ns" for part in _PARTS]
    if run.lens != "training" or not all(name in run.table.column_names for name in names):
        return None, np.zeros(0)
    known = run.table.filter(run.table.column(names[0]).is_valid())
    if not len(known) or any(known.column(name).null_count for name in names):
        return None, np.zeros(0)
    parts = [lists(known.column(name))[1].reshape(len(known), -1) for name in names]
    return np.asarray(sum(parts)), numbers(known.column("end_ns"))
