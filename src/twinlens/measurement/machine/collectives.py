"""Collectives of this machine: bandwidths as nccl-tests define them, latency and bandwidth fitted, what is slow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from twinlens.errors import BadInput
from twinlens.executors.in_process.ceiling import Collectives, Timing, slow_links
from twinlens.executors.protocol import Say
from twinlens.executors.registry import executor, executor_names
from twinlens.record.finding import Finding
from twinlens.stats.estimator.latency_bandwidth import Segment, fitted
from twinlens.theory.collective import algorithm_bandwidth, bus_bandwidth, bus_factor


@dataclass(frozen=True, slots=True)
class CollectiveRow:
    """One collective at one size: seconds of the slowest rank, `n` times, and bytes per second of the least."""

    kind: str
    size_bytes: int
    n: int
    least_s: float
    median_s: float
    p90_s: float
    algorithm_bytes_per_s: float
    bus_bytes_per_s: float


@dataclass(frozen=True, slots=True)
class CollectiveFit:
    """Latency, and bandwidth of the bus, of one collective. `refused`: why the segments are not to be used."""

    kind: str
    segments: tuple[Segment, ...]
    refused: str | None


@dataclass(frozen=True, slots=True)
class CollectiveProbe:
    """What was measured. `refused`: kinds without a figure, with the reason."""

    backend: str
    ranks: int
    on_processor: bool
    rows: tuple[CollectiveRow, ...]
    fits: tuple[CollectiveFit, ...]
    refused: dict[str, str]
    findings: tuple[Finding, ...]

    def __json__(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "backend": self.backend,
            "ranks": self.ranks,
            "on_processor": self.on_processor,
            "rows": self.rows,
            "fits": [_fit_json(fit) for fit in self.fits],
            "refused": self.refused,
            "findings": self.findings,
        }


def probe_collectives(device: str, ranks: int | None, say: Say) -> CollectiveProbe:
    """Through the first executor here that has collectives. Raises BadInput (TL207) where none has."""
    for kind in executor_names("training"):
        if (measure := executor(kind).collectives) is not None:
            return summed_up(measure(device, ranks, say))
    raise BadInput("no executor here has collectives; pip install 'twinlens[torch]'", code="TL207")


def summed_up(timed: Collectives) -> CollectiveProbe:
    """Pure: rows, fits and findings of some timings."""
    kinds = dict.fromkeys(timing.kind for timing in timed.timings)
    fits = [_fit(kind, [each for each in timed.timings if each.kind == kind], timed.ranks) for kind in kinds]
    return CollectiveProbe(
        timed.backend,
        timed.ranks,
        timed.on_processor,
        tuple(_row(timing, timed.ranks) for timing in timed.timings),
        tuple(fits),
        dict(timed.refused),
        slow_links(timed.pairs, on_processor=timed.on_processor),
    )


def _row(timing: Timing, ranks: int) -> CollectiveRow:
    least, median, p90 = (float(each) for each in np.quantile(timing.seconds, [0.0, 0.5, 0.9]))
    size = timing.size_bytes
    algorithm = float(algorithm_bandwidth(size, least))
    bus = float(bus_bandwidth(timing.kind, size, least, ranks))  # type: ignore[arg-type]
    return CollectiveRow(timing.kind, size, len(timing.seconds), least, median, p90, algorithm, bus)


def _fit(kind: str, timings: list[Timing], ranks: int) -> CollectiveFit:
    factor = float(bus_factor(kind, ranks))  # type: ignore[arg-type]
    moved = [timing.size_bytes * factor for timing in timings]
    return CollectiveFit(kind, *fitted(moved, [min(timing.seconds) for timing in timings]))


def _fit_json(fit: CollectiveFit) -> dict[str, Any]:
    segments = [
        {
            "begin_bytes": each.begin_bytes,
            "end_bytes": each.end_bytes,
            "latency_s": each.latency,
            "bus_bytes_per_s": each.bandwidth,
            "residual": each.residual,
        }
        for each in fit.segments
    ]
    return {"kind": fit.kind, "segments": segments, "refused": fit.refused}
