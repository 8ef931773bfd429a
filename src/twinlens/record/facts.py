"""What an executor says of itself once it is open: who really runs, and the quantities of one unit of work."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self

from twinlens.record.estimate import Estimate
from twinlens.record.executor import ExecutorRecord, PrecisionCheck

Estimates = dict[str, Estimate]


@dataclass(frozen=True, slots=True)
class Facts:
    """Everything known before the first row.

    `work`: FLOP and bytes of one unit of work (step, prefill, decode), by convention. `ceilings`: measured rates of
    this machine at this precision. `memory`: bytes by category. `fidelity`: distance from fp32 on the same prompts.
    `notes`: sentences a reader must see beside the numbers.
    """

    executor: ExecutorRecord
    precision: tuple[PrecisionCheck, ...] = ()
    work: Estimates = field(default_factory=dict)
    ceilings: Estimates = field(default_factory=dict)
    memory: Estimates = field(default_factory=dict)
    fidelity: Estimates = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "executor": self.executor.to_json(),
            "precision": [check.to_json() for check in self.precision],
            **{name: {k: e.to_json() for k, e in getattr(self, name).items()} for name in _GROUPS},
            "notes": list(self.notes),
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        """The inverse of `to_json`."""
        return cls(
            executor=ExecutorRecord.from_json(data["executor"]),
            precision=tuple(PrecisionCheck.from_json(check) for check in data["precision"]),
            notes=tuple(data["notes"]),
            **{name: {k: Estimate.from_json(e) for k, e in data[name].items()} for name in _GROUPS},
        )


_GROUPS = ("work", "ceilings", "memory", "fidelity")
