"""Who is this machine: captured facts and measured ceilings, per precision, at one thread and at all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from twinlens.measure.energy import energy_facts, open_meters
from twinlens.measure.host import capture_host, software_facts
from twinlens.record.estimate import Estimate
from twinlens.record.executor import ExecutorRecord


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
        }


def probe(device: str = "auto") -> Probe:
    """Capture this machine and measure its ceilings through torch (about ten seconds on a CPU)."""
    facts = capture_host() | software_facts() | energy_facts(open_meters())
    try:
        from twinlens.executors.torch_ceiling import all_ceilings
        from twinlens.executors.torch_facts import framework_facts
        from twinlens.executors.torch_model import choose_device
    except ImportError as error:
        return Probe(ExecutorRecord(facts), (), f"torch is not installed ({error}): pip install 'twinlens[torch]'")
    found = all_ceilings(str(choose_device(device)))
    rows = tuple(CeilingRow(c.kind, c.format, c.layout, c.threads, c.estimate) for c in found)
    return Probe(ExecutorRecord(facts | framework_facts()), rows, None)
