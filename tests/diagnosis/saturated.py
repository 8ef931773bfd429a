"""Evidence written by hand: runs that saturate one resource each, on a device of round numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from twinlens.diagnosis.evidence import Evidence
from twinlens.diagnosis.phase import Partition, Phase, partition_of
from twinlens.record.estimate import Estimate
from twinlens.units import BYTES_PER_S, FLOP_PER_S, RATIO

PEAK, STREAM = 100e9, 10e9  # FLOP/s and bytes/s: the ridge is at 10 FLOP/byte


def rate(value: float, unit: str) -> Estimate:
    return Estimate(value, unit, "by hand", "measured")


CEILINGS = {
    "matrix_flop_per_s_at": rate(PEAK, FLOP_PER_S),
    "read_bytes_per_s": rate(STREAM, BYTES_PER_S),
    "copy_bytes_per_s": rate(STREAM, BYTES_PER_S),
}


def told(**values: float) -> dict[str, Estimate]:
    """What a server says of itself."""
    return {name: rate(value, RATIO) for name, value in values.items()}


def step(**spent_s: float) -> Partition:
    """One step of a second."""
    return partition_of("step", 1.0, spent_s, 1)


def request(**spent_s: float) -> Partition:
    """One request of a second."""
    names = {name.replace("_", "-"): value for name, value in spent_s.items()}
    return partition_of("request", 1.0, names, 1)


def trained(partition: Partition, flop: float = 70e9, moved: float = 1e9, **parts: Any) -> Evidence:
    """Training: `flop` and `moved` bytes in each step, of a second unless the partition has waits."""
    phase = Phase("step", "step", 1.0, flop, moved, parts.pop("most", moved))
    return seen("training", partition, (phase,), **parts)


def decoded(flop: float, moved: float, seconds: float = 1.0, **parts: Any) -> Evidence:
    """Decode that takes nearly all of a request, one step of it `seconds`."""
    phases = (
        Phase("prefill", "prefill", 0.05, 1e9, 1e8, 1e8),
        Phase("decode", "decode", seconds, flop, moved, parts.pop("most", moved), parts.pop("kernel_bytes", None)),
    )
    return seen("engine", request(prefill=0.05, decode=0.95), phases, **parts)


def served(partition: Partition, metrics: Mapping[str, Estimate] | None = None) -> Evidence:
    phases = tuple(Phase(name, name, None, None, None, reason="the server's") for name in ("prefill", "decode"))
    return seen("served", partition, phases, ceilings={}, metrics=metrics or {}, batch=None)


def seen(kind: Any, partition: Partition, phases: tuple[Phase, ...], **parts: Any) -> Evidence:
    known = {
        "ranked": True, "label": "flat", "ceilings": CEILINGS, "ceilings_after": {}, "metrics": {}, "batch": 1,
        "filled": 1.0, "on_gpu": False,
    }  # fmt: skip
    return Evidence(kind=kind, partition=partition, phases=phases, **(known | parts))
