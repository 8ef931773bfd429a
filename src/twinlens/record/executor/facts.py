"""Facts that an executor gives once it is open: who really runs, and the quantities of one unit of work."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Self

from twinlens.record.estimate import Estimate
from twinlens.record.executor.record import ExecutorRecord, PrecisionCheck
from twinlens.record.finding import Finding

Estimates = dict[str, Estimate]


@dataclass(frozen=True, slots=True)
class FidelityRow:
    """One prompt seen by the lower precision and by fp32 with the same weights: counts and sums, nothing derived.

    `tokens`: positions compared; `agreed`: those with the same most likely token; `kl_nats`: sum of KL(fp32 ‖ this);
    `nll_nats`, `reference_nll_nats`: sums of the negative log likelihood of the text itself.
    """

    tokens: int
    agreed: int
    kl_nats: float
    nll_nats: float
    reference_nll_nats: float


@dataclass(frozen=True, slots=True)
class Facts:
    """Everything known before the first row.

    `work`: FLOP and bytes of one unit of work (step, prefill, decode), by convention. `ceilings`: measured rates of
    this machine at this precision. `memory`: bytes by category. `fidelity`: one row per prompt, empty where there is
    nothing to compare with. `entropy_rate_nats`: the least possible loss of the training data, if it is known.
    `findings`: what a reader must see beside the numbers. `notes`: the same in sentences of its own, as an executor
    that has no words with us says it.
    """

    executor: ExecutorRecord
    precision: tuple[PrecisionCheck, ...] = ()
    work: Estimates = field(default_factory=dict)
    ceilings: Estimates = field(default_factory=dict)
    memory: Estimates = field(default_factory=dict)
    fidelity: tuple[FidelityRow, ...] = ()
    entropy_rate_nats: float | None = None
    notes: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "executor": self.executor.to_json(),
            "precision": [check.to_json() for check in self.precision],
            **{name: {k: e.to_json() for k, e in getattr(self, name).items()} for name in _GROUPS},
            "fidelity": [asdict(row) for row in self.fidelity],
            "entropy_rate_nats": self.entropy_rate_nats,
            "notes": list(self.notes),
            "findings": [finding.to_json() for finding in self.findings],
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        """The inverse of `to_json`."""
        return cls(
            executor=ExecutorRecord.from_json(data["executor"]),
            precision=tuple(PrecisionCheck.from_json(check) for check in data["precision"]),
            fidelity=tuple(FidelityRow(**row) for row in data["fidelity"]),
            entropy_rate_nats=data["entropy_rate_nats"],
            notes=tuple(data["notes"]),
            findings=tuple(map(Finding.from_json, data.get("findings", ()))),
            **{name: {k: Estimate.from_json(e) for k, e in data[name].items()} for name in _GROUPS},
        )


_GROUPS = ("work", "ceilings", "memory")
