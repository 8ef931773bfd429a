"""Sections of run.json beside spec and executor: a type for every one that is read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from twinlens.record.checkpoint import Checkpoints
from twinlens.record.client import Calibration, ClientSection
from twinlens.record.codec import reads
from twinlens.record.compliance import ComplianceTest
from twinlens.record.estimate import Estimate
from twinlens.record.executor.facts import ceilings_of
from twinlens.record.greedy import GreedyAnswers
from twinlens.record.running import Running
from twinlens.record.sample.server import ServerReading
from twinlens.record.slice import Pairing


@dataclass(frozen=True, slots=True)
class DeviceMemory:
    """The allocator's peaks over the rows, in bytes: what it gave out, and what it kept from the device for that. Of
    several boards their sums, and what the fullest one gave out."""

    allocated_peak_bytes: int
    reserved_peak_bytes: int
    boards: int = 1
    fullest_peak_bytes: int | None = None


def _present(data: Mapping[str, Any]) -> dict[str, Any]:
    """What a run.json, of an older version too, says at all."""
    known = {name: value for name, value in data.items() if value is not None}
    return known | {"ceilings_after": ceilings_of(known.get("ceilings_after", {}))}


@reads(_present)
@dataclass(frozen=True, slots=True)
class Sections:
    """Each section, absent where the run has none.

    `state`: as it was written down; `Run.state` knows of runs that were killed since. `place`: where the work was
    done, as `Run.place` says it. `attempt`: which one at its repeat, from 1. `rows`: how many there were at the end.
    `took_s`: wall time of a run of a search. `extended`: how often the run was doubled until it had settled.
    `refused`: it was never measured, as its precision cannot be had here. `unusable_trace_rows`: rows of a trace that
    could not be sent. `pairing`: with whom it took turns. `client`, `calibration`: what a client over a network
    counted, and what it could do. `server`: the launched server. `server_metrics`: how the server's own figures were
    read. `guards`: the rulings. `greedy`: answers to
    prompts that all points share. `ceilings_after`: ceilings measured again once the rows were taken; those from before
    them are among the facts. `startup_s`: from the call of a trainer to its first step, without what Twinlens examined
    meanwhile. `checkpoints`: saves, what reading them back took, and the recovery from a lost rank.
    """

    state: str = "finished"
    place: str | None = None
    attempt: int = 1
    rows: int | None = None
    took_s: float | None = None
    extended: int = 0
    refused: bool = False
    unusable_trace_rows: int = 0
    device_memory: DeviceMemory | None = None
    pairing: Pairing | None = None
    client: ClientSection | None = None
    calibration: Calibration | None = None
    server: Running | None = None
    server_metrics: ServerReading | None = None
    guards: tuple[ComplianceTest, ...] = ()
    greedy: GreedyAnswers | None = None
    ceilings_after: Mapping[str, Estimate] = field(default_factory=dict)
    startup_s: float | None = None
    checkpoints: Checkpoints | None = None
