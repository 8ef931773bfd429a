"""The four counters that explain a time, of a run and of an instrument of somebody else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from twinlens.diagnosis.evidence import Evidence
from twinlens.diagnosis.instrument import Instrument, told
from twinlens.diagnosis.phase import Place, bounded_place_of
from twinlens.record.beside import Watched
from twinlens.record.estimate import Estimate
from twinlens.units import BYTES_PER_S, RATIO, SECONDS

FLOP_PER_BYTE = "FLOP/byte"
Confidence = Literal["low", "medium", "high", "none"]
_BOUND, _SERVER = "analytic bound", "server metrics"
_WORK = "work by theory, time by the rows"
_UNIFIED = "device and host share one memory here: nothing is copied"
_NO_COPIES = "no counter of copies between host and device was recorded"
_ELSEWHERE = "the machine of the server was not measured, so there is nothing to hold it against"
_NONE = "the run measured no ceilings"


@dataclass(frozen=True, slots=True)
class Counter:
    """One of the four. `value` is the one that is said first; `beside`: more of it by name. `about`: the phase.
    `source`: who says so ("NVML GPM", "DCGM", "profiler", "server metrics", "rows", "analytic bound"); "" of none."""

    id: str
    value: Estimate
    confidence: Confidence
    about: str = ""
    beside: Mapping[str, Estimate] = field(default_factory=dict)
    source: str = ""

    def __json__(self) -> dict[str, Any]:
        """A plain mapping; `value.method` is the source."""
        plain = {"id": self.id, "about": self.about, "confidence": self.confidence, "value": self.value}
        plain |= {"source": self.source} if self.source else {}
        return plain | {"beside": self.beside}


def counters_of(seen: Evidence, phase: str) -> tuple[Counter, ...]:
    """The four counters, the first two of one phase; an absent one has its reason."""
    chosen = next((each for each in seen.phases if each.name == phase), seen.phases[-1])
    place = bounded_place_of(chosen, seen.ceilings)
    why = chosen.reason or (_ELSEWHERE if seen.place == "elsewhere" else _NONE)
    return (
        _matrix(place, chosen.name, why, seen),
        _bandwidth(place, chosen.name, chosen.least_bytes, chosen.seconds, why),
        _batching(seen),
        _boundary(seen),
    )


def _matrix(place: Place | None, phase: str, why: str, seen: Evidence) -> Counter:
    if place is None:
        return Counter("matrix-engines", Estimate.absent(FLOP_PER_BYTE, why), "none", phase)
    low, high = place.intensity_low, place.intensity_high
    bounded = place.at_most_because
    method = f"FLOP / bytes, each byte once: {_WORK}{f'; at most, as {bounded}' if bounded else ''}"
    value = Estimate(high, FLOP_PER_BYTE, method, "derived", low=low, high=high)
    measured = seen.ceilings[place.compute_ceiling].method
    beside = {
        "ridge": Estimate(place.ridge, FLOP_PER_BYTE, f"matrix rate ({measured}) / measured bandwidth", "derived"),
    }
    share = Estimate(place.compute_share, RATIO, f"FLOP/s / {place.compute_ceiling} ({measured})", "derived")
    beside["share_at_most" if bounded else "share"] = share
    # A server's batch is inferred from which requests overlapped.
    sure = place.intensity_low is not None and seen.kind != "served"
    return Counter("matrix-engines", value, "high" if sure else "medium", phase, beside, _BOUND)


def _bandwidth(place: Place | None, phase: str, moved: float | None, seconds: float | None, why: str) -> Counter:
    if place is None or not moved or not seconds:
        return Counter("bandwidth", Estimate.absent(BYTES_PER_S, why), "none", phase)
    value = Estimate(moved / seconds, BYTES_PER_S, f"least bytes / time: {_WORK}", "derived")
    beside = {"share": Estimate(place.stream_share, RATIO, "of a plain read or copy of memory", "derived")}
    if place.bandwidth_share > place.stream_share:
        of_kernel = Estimate(place.bandwidth_share, RATIO, f"of {place.bandwidth_ceiling}", "derived")
        beside["share_of_kernel"] = of_kernel
    return Counter("bandwidth", value, "medium", phase, beside, _BOUND)


def _batching(seen: Evidence) -> Counter:
    if seen.kind == "served":
        told = seen.metrics.get("batching_efficiency") or Estimate.absent(RATIO, "the server's metrics were not read")
        absent = told.value is None
        return Counter("batching", told, "none" if absent else "high", "request", source="" if absent else _SERVER)
    if seen.filled is None:
        return Counter(
            "batching", Estimate.absent(RATIO, "no row says how many tokens were computed with padding"), "none"
        )
    method = "useful tokens / tokens computed for the batch, from the rows"
    value = Estimate(min(1.0, seen.filled), RATIO, method, "derived")
    batch = {"batch": Estimate(float(seen.batch), "count", "the spec", "measured")} if seen.batch else {}
    return Counter("batching", value, "high", seen.partition.unit, batch, "rows")


def _boundary(seen: Evidence) -> Counter:
    """Time at the request boundary of a server; copies between host and device where the engine is in this process."""
    if seen.kind == "served":
        spent = seen.partition.parts.get("transport")
        reason = "the server does not say its time in queue and prefill, so nothing tells transport apart"
        value = Estimate.absent(SECONDS, reason)
        if spent is not None:
            method = "sent → first token, less the server's own queue and prefill: network, HTTP, tokenising"
            value = Estimate(spent, SECONDS, method, "derived", n=seen.partition.count)
        absent = spent is None
        return Counter("transfer", value, "none" if absent else "medium", "request", source="" if absent else _SERVER)
    why = _UNIFIED if seen.on_gpu is False else _NO_COPIES
    return Counter("transfer", Estimate.absent(SECONDS, why), "none", seen.partition.unit)


def kernels_counter(phase: str, kept: Watched) -> Counter:
    """Time by class of kernel, the longest first, from a profiled run of the same workload; never of the run that was
    timed."""
    seconds, passes = kept.profile.seconds[phase], kept.profile.passes.get(phase, 0)
    total = sum(seconds.values())
    method = (
        f"torch profiler, own time of operators or GPU kernels in {passes} passes after {kept.profile.warm}, a run of "
        f"its own of workload {kept.workload}, unranked, kept with this run ({kept.taken_utc})"
    )
    if not total:
        return Counter(
            "kernels", Estimate.absent(RATIO, "the profiler saw no time of any kernel", method), "none", phase
        )
    shares = {name: Estimate(spent / total, RATIO, method, "measured") for name, spent in seconds.items()}
    return Counter("kernels", next(iter(shares.values())), "medium", phase, shares, "profiler")


# The counters of a diagnosis from an instrument, where there was one: the bound by theory then stands beside it.

_FIRST = {"matrix-engines": "tensor_active", "bandwidth": "dram_active", "transfer": "pcie_rx_bytes_per_s"}
_BESIDE = {
    "matrix-engines": ("hmma_active", "imma_active", "sm_active", "sm_occupancy"),
    "bandwidth": (),
    "transfer": ("pcie_tx_bytes_per_s", "nvlink_rx_bytes_per_s", "nvlink_tx_bytes_per_s"),
}


def with_instruments(counters: tuple[Counter, ...], instruments: tuple[Instrument, ...]) -> tuple[Counter, ...]:
    """The same counters; one that an instrument counts has its value, and what theory says as `by_theory` beside it."""
    return tuple(_measured(each, instruments) for each in counters)


def _measured(counter: Counter, instruments: tuple[Instrument, ...]) -> Counter:
    seen = told(instruments, _FIRST.get(counter.id, ""))
    if seen is None:
        return counter
    instrument, value = seen
    theory = {"by_theory": counter.value} if counter.value.value is not None else {}
    more = {name: instrument.values[name] for name in _BESIDE[counter.id] if name in instrument.values}
    beside: Mapping[str, Estimate] = {**theory, **counter.beside, **more}
    return replace(counter, value=value, confidence=_confidence(*seen, _FIRST[counter.id]), source=instrument.source,
                   beside=beside)  # fmt: skip


def _confidence(instrument: Instrument, value: Estimate, name: str) -> Confidence:
    """DCGM renews its figures on its own clock, so that they may be of a time before the window."""
    if not instrument.is_sure(name):
        return "low"
    return "high" if instrument.source == "NVML GPM" else "medium"
