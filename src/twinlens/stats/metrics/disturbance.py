"""What else happened in the steady window: throttling, and other work on the machine. Sentences, not corrections."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from twinlens.units import digits

_FOREIGN_SHARE = 0.05  # of the machine's processors: less than the noise of most runs
# NVML's clocks event reasons (nvml.h); idle, application clocks and sync boost are no throttling.
_REASONS = {
    0x4: "software power cap",
    0x8: "hardware slowdown",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "hardware power brake",
}


def disturbances(telemetry: pa.Table, begin_s: float, end_s: float) -> list[str]:
    """One sentence per disturbance seen between two moments of the run; none where nothing was seen or sampled."""
    time_s = telemetry.column("time_ns").to_numpy() / 1e9
    inside = telemetry.filter(pa.array((time_s >= begin_s) & (time_s <= end_s)))
    return [*_throttled(inside), *_foreign(inside)]


def _throttled(window: pa.Table) -> list[str]:
    bits = window.column("throttle_bits").drop_null().to_numpy()
    sentences = []
    for bit, reason in _REASONS.items():
        share = float(((bits.astype(np.int64) & bit) != 0).mean()) if len(bits) else 0.0
        if share:
            percent = digits(100 * share)
            sentences.append(f"The accelerator was throttled ({reason}) in {percent} % of the steady window.")
    return sentences


def _foreign(window: pa.Table) -> list[str]:
    shares = window.column("foreign_cpu").drop_null().to_numpy()
    mean = float(shares.mean()) if len(shares) else 0.0
    if mean < _FOREIGN_SHARE:
        return []
    return [
        f"Other processes used {digits(100 * mean, 2)} % of this machine's processors during the steady window: "
        "the figures are those of a shared machine."
    ]
