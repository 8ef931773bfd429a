"""Facts of this machine and its measured ceilings: per precision, with one thread and with all, and of collectives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from twinlens.errors import BadInput
from twinlens.executors.in_process.ceiling import Collectives, DeviceProbe, Timing, slow_links
from twinlens.executors.protocol import Say
from twinlens.executors.registry import executor, executor_names, lenses_of
from twinlens.measurement.machine.energy import energy_facts, open_meters
from twinlens.measurement.machine.host import capture_host
from twinlens.measurement.machine.software import software_facts
from twinlens.record.codec import encode
from twinlens.record.estimate import Estimate
from twinlens.record.executor.record import Completeness, ExecutorRecord, Fact
from twinlens.record.finding import Finding
from twinlens.stats.estimator.latency_bandwidth import Segment, fitted
from twinlens.system.nvml import open_gpus
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


@dataclass(frozen=True, slots=True)
class CeilingRow:
    """One measured ceiling: what, in which format and layout ("" where none), on how many threads."""

    kind: str
    format: str
    layout: str
    threads: int
    estimate: Estimate


@dataclass(frozen=True, slots=True)
class Probe:
    """The result of a probe. `why_no_ceilings` is None when there are some."""

    record: ExecutorRecord
    ceilings: tuple[CeilingRow, ...]
    why_no_ceilings: str | None
    notes: tuple[str, ...] = ()
    collectives: CollectiveProbe | None = None

    def __repr__(self) -> str:
        return f"<Probe: {len(self.record.facts)} facts, {len(self.ceilings)} ceilings>"

    def completeness(self) -> dict[str, Completeness]:
        """How whole the record is for each lens, before any run has added what only a run can say."""
        return {lens: self.record.completeness(lens) for lens in ("training", "inference")}

    def __json__(self) -> dict[str, Any]:
        """As plain data; the record's hash stands beside it."""
        rows = [
            {"kind": c.kind, "format": c.format, "layout": c.layout, "threads": c.threads} | encode(c.estimate)
            for c in self.ceilings
        ]
        return {
            "schema": 1,
            "hash": self.record.hash(),
            "executor": self.record,
            "ceilings": rows,
            "why_no_ceilings": self.why_no_ceilings,
            "completeness": self.completeness(),
            "notes": self.notes,
            **({"collectives": self.collectives} if self.collectives else {}),
        }

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        return encode(self)


def probe(device: str = "auto", *, collectives: bool = False, ranks: int | None = None) -> Probe:
    """Capture this machine and measure its ceilings through the first engine here that can (ten seconds on a CPU).

    Facts and ceilings are of one device, which the engine chooses. `collectives`: time exchanges between `ranks`
    processes too (None: one per GPU, or two). Raises BadInput for a device that is not here, ExecutorFailed (TL307)
    where a rank is lost.
    """
    if ranks is not None and not collectives:
        raise BadInput("--ranks belongs to --collectives, which is missing; add it, or leave --ranks out", code="TL202")
    exchanged = probe_collectives(device, ranks, lambda phrase: None) if collectives else None
    return replace(_of_device(device), collectives=exchanged)


def _of_device(device: str) -> Probe:
    try:
        engine = _through_an_engine(device)
    except ImportError as error:
        facts = capture_host() | software_facts() | energy_facts(open_meters())
        why = f"no engine is installed that measures them ({error}): pip install 'twinlens[torch]'"
        return Probe(ExecutorRecord(facts), (), why, _load_note(facts))
    used = engine.facts["accelerator.uuid"].value if "accelerator.uuid" in engine.facts else None
    facts = capture_host(engine.kind, used) | software_facts()
    meters = open_meters(open_gpus(used)[0] if used else (), boards=used or ())
    facts |= energy_facts(meters, "gpu" if used else "package")
    rows = tuple(CeilingRow(c.kind, c.format, c.layout, c.threads, c.estimate) for c in engine.ceilings())
    record = ExecutorRecord(dict(engine.facts)).merged(facts).merged(dict(engine.framework))
    notes = (*_load_note(facts), *([engine.note] if engine.note else []))
    return Probe(record, rows, None, notes)


def _through_an_engine(device: str) -> DeviceProbe:
    """Raises ImportError where none is installed whole."""
    missing = ImportError("none is known")
    for kind in executor_names():
        if not lenses_of(kind) or (look := executor(kind).probe) is None:
            continue
        try:
            return look(device)
        except ImportError as error:
            missing = error
    raise missing


def _load_note(facts: Mapping[str, Fact]) -> tuple[str, ...]:
    """A sentence where others used the machine when it was captured: its ceilings are then what was left over."""
    fact = facts["tenancy.co_tenants"]
    return (
        (f"Measured under load ({fact.source}): the ceilings are what was left over.",) if fact.value == "seen" else ()
    )
