"""Instruments beside a run: what a board's own counters said while it was measured, as means over the steady window."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from twinlens.record.estimate import Estimate
from twinlens.units import BYTES_PER_S, RATIO

Source = Literal["NVML GPM", "DCGM"]
SOURCES: Mapping[Source, str] = {"NVML GPM": "gpu:", "DCGM": "dcgm:"}
"""Instrument, and how the sources of its telemetry rows begin; the first of them that has a counter gives it."""
COUNTED = (
    "sm_active", "sm_occupancy", "tensor_active", "hmma_active", "imma_active", "dram_active",
    "pcie_tx_bytes_per_s", "pcie_rx_bytes_per_s", "nvlink_tx_bytes_per_s", "nvlink_rx_bytes_per_s",
)  # fmt: skip
_ENOUGH = 3


@dataclass(frozen=True, slots=True)
class Instrument:
    """`values`: telemetry column → its mean over time and boards, `n` readings that differ (a page that is renewed
    every half minute says the same for half a minute)."""

    source: Source
    values: Mapping[str, Estimate]

    def is_sure(self, name: str) -> bool:
        """Whether the window held enough readings of a counter."""
        return (self.values[name].n or 0) >= _ENOUGH


def instruments_of(telemetry: pa.Table, begin_s: float, end_s: float) -> tuple[Instrument, ...]:
    """The instruments that said anything between two moments of the run."""
    found = (Instrument(source, dict(_means(telemetry, source, begin_s, end_s))) for source in SOURCES)
    return tuple(each for each in found if each.values)


def told(instruments: tuple[Instrument, ...], name: str) -> tuple[Instrument, Estimate] | None:
    """The first instrument that has a counter, and what it says."""
    return next(((each, each.values[name]) for each in instruments if name in each.values), None)


def _means(telemetry: pa.Table, source: Source, begin_s: float, end_s: float) -> Iterator[tuple[str, Estimate]]:
    boards = [each for each in telemetry["source"].unique().to_pylist() if each.startswith(SOURCES[source])]
    by_board = {board: telemetry.filter(pc.equal(telemetry["source"], board)) for board in boards}
    for name in COUNTED:
        seen = [mean for rows in by_board.values() if (mean := _mean(rows, name, begin_s, end_s)) is not None]
        if seen:
            count, unit = sum(n for _, n in seen), BYTES_PER_S if name.endswith("bytes_per_s") else RATIO
            method = f"{source}, mean over the steady window of {len(seen)} board{'s' * (len(seen) > 1)}"
            yield name, Estimate(float(np.mean([mean for mean, _ in seen])), unit, method, "measured", n=count)


def _mean(rows: pa.Table, name: str, begin_s: float, end_s: float) -> tuple[float, int] | None:
    """Mean of one board's counter, each reading weighted by the part of the window since the reading before it."""
    at_s = rows["time_ns"].to_numpy() / 1e9
    values = rows[name].to_numpy(zero_copy_only=False).astype(float)
    since_s = np.concatenate([[begin_s], at_s[:-1]])
    weight = np.clip(at_s, begin_s, end_s) - np.clip(since_s, begin_s, end_s)
    good = ~np.isnan(values) & (weight > 0)
    if not good.any():
        return None
    return float(np.average(values[good], weights=weight[good])), len(np.unique(values[good]))
