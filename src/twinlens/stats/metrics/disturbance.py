"""Disturbances in the steady window: throttling, and other work on the machine. Shares, not corrections."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

FOREIGN_SHARE = 0.05
"""Of the machine's processors: less than the noise of most runs."""
POWER_CAP = "software power cap"
# NVML's clocks event reasons (nvml.h); idle, application clocks and sync boost are no throttling.
_REASONS = {
    0x4: POWER_CAP,
    0x8: "hardware slowdown",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "hardware power brake",
}


def throttled(telemetry: pa.Table, begin_s: float, end_s: float) -> list[tuple[str, float]]:
    """(reason, share of the window) for each reason for which an accelerator was slowed down."""
    bits = _window(telemetry, "throttle_bits", begin_s, end_s).astype(np.int64)
    shares = ((reason, float(((bits & bit) != 0).mean()) if bits.size else 0.0) for bit, reason in _REASONS.items())
    return [(reason, share) for reason, share in shares if share]


def other_programs(telemetry: pa.Table, begin_s: float, end_s: float) -> float | None:
    """The share of the processors that other programs used, on average; None below FOREIGN_SHARE or not sampled."""
    shares = _window(telemetry, "foreign_cpu", begin_s, end_s)
    mean = float(shares.mean()) if shares.size else 0.0
    return mean if mean >= FOREIGN_SHARE else None


def _window(telemetry: pa.Table, column: str, begin_s: float, end_s: float) -> np.ndarray:
    """The known values of a column between two moments of the run."""
    time_s = telemetry.column("time_ns").to_numpy() / 1e9
    inside = telemetry.filter(pa.array((time_s >= begin_s) & (time_s <= end_s)))
    return np.asarray(inside.column(column).drop_null().to_numpy())
