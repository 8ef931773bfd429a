"""Facts of this machine and its measured ceilings, per precision, with one thread and with all."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from twinlens.measurement.machine.energy import energy_facts, open_meters
from twinlens.measurement.machine.host import capture_host, software_facts
from twinlens.measurement.machine.nvidia import open_gpus
from twinlens.record.estimate import Estimate
from twinlens.record.executor.record import Completeness, ExecutorRecord, Fact


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
    """What a probe found. `why_no_ceilings` is None when there are some."""

    record: ExecutorRecord
    ceilings: tuple[CeilingRow, ...]
    why_no_ceilings: str | None
    notes: tuple[str, ...] = ()

    def completeness(self) -> dict[str, Completeness]:
        """How whole the record is for each lens, before any run has added what only a run can say."""
        return {lens: self.record.completeness(lens) for lens in ("training", "inference")}

    def to_json(self) -> dict[str, Any]:
        """As plain data; the record's hash stands beside it."""
        rows = [
            {"kind": c.kind, "format": c.format, "layout": c.layout, "threads": c.threads} | c.estimate.to_json()
            for c in self.ceilings
        ]
        return {
            "schema": 1,
            "hash": self.record.hash(),
            "executor": self.record.to_json(),
            "ceilings": rows,
            "why_no_ceilings": self.why_no_ceilings,
            "completeness": {lens: asdict(found) for lens, found in self.completeness().items()},
            "notes": list(self.notes),
        }


def probe(device: str = "auto") -> Probe:
    """Capture this machine and measure its ceilings through torch (about ten seconds on a CPU).

    Facts and ceilings are of one device: the one that torch chooses. Raises BadInput for a device that is not here.
    """
    try:
        from twinlens.executors.torch.ceiling.rates import all_ceilings
        from twinlens.executors.torch.device import auto_note, choose_device
        from twinlens.executors.torch.evidence.device_facts import device_facts
        from twinlens.executors.torch.evidence.facts import framework_facts
    except ImportError as error:
        facts = capture_host() | software_facts() | energy_facts(open_meters())
        why = f"torch is not installed ({error}): pip install 'twinlens[torch]'"
        return Probe(ExecutorRecord(facts), (), why, _load_note(facts))
    chosen = choose_device(device)
    own = device_facts(chosen)
    used = own["accelerator.uuid"].value if "accelerator.uuid" in own else None
    facts = capture_host(chosen.type, used) | software_facts()
    meters = open_meters(open_gpus(used)[0] if used else (), boards=used or ())
    facts |= energy_facts(meters, "gpu" if used else "package")
    with warnings.catch_warnings():  # what torch has to say of kernels that are tried here is nothing to act on
        warnings.simplefilter("ignore", UserWarning)
        found = all_ceilings(str(chosen))
    rows = tuple(CeilingRow(c.kind, c.format, c.layout, c.threads, c.estimate) for c in found)
    record = ExecutorRecord(own).merged(facts).merged(framework_facts())
    unused = auto_note(device)
    notes = (*_load_note(facts), *([unused] if unused else []))
    return Probe(record, rows, None, notes)


def _load_note(facts: Mapping[str, Fact]) -> tuple[str, ...]:
    """A sentence where others used the machine when it was captured: its ceilings are then what was left over."""
    fact = facts["tenancy.co_tenants"]
    return (
        (f"Measured under load ({fact.source}): the ceilings are what was left over.",) if fact.value == "seen" else ()
    )
