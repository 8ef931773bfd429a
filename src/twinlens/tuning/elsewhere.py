"""Loads and lengths that a tuning was not made for: half and twice, the default beside it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from twinlens.errors import BadInput
from twinlens.measurement.event import Watch
from twinlens.measurement.preflight.refuse import refuse_what_cannot_run
from twinlens.record.estimate import Estimate
from twinlens.spec.study import Study, put_at
from twinlens.spec.workload.length import Fixed
from twinlens.spec.workload.workload import InferenceWorkload, TrainingWorkload
from twinlens.tuning.bound import Bound
from twinlens.tuning.ledger import Trial
from twinlens.tuning.proof import Proof, proof_study, prove_study, proved_in

FOLDER = "elsewhere"
REPEATS = 3


@dataclass(frozen=True, slots=True)
class Condition:
    """One other condition: what differs, by dotted path, from the one that was tuned for."""

    name: str
    changes: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """A condition and the ratio of tuned to default there, absent with the reason where it was not measured."""

    condition: Condition
    proof: Proof | None
    why: str = ""

    @property
    def ratio(self) -> Estimate | None:
        """Tuned over default; None where it was not measured."""
        return self.proof.ratio if self.proof is not None else None


def conditions_of(bound: Bound) -> tuple[Condition, ...]:
    """Half and twice the load, and half and twice the lengths; without what the space itself varies."""
    varied = {setting.path for setting, _ in bound.space.values()}
    found = [*_loads(bound.study), *_lengths(bound.study)]
    return tuple(each for each in found if not varied & each.changes.keys())


def _loads(study: Study) -> list[Condition]:
    point, found = study.point, []
    for factor in (0.5, 2.0):
        if point.rate_per_s is not None:
            value: float = point.rate_per_s * factor
            found.append(Condition(f"{value:g} requests/s", {"point.rate_per_s": value}))
        elif point.concurrency is not None:
            found += _whole("point.concurrency", point.concurrency, factor, "requests in flight")
        elif isinstance(study.workload, InferenceWorkload) and point.batch is not None:
            found += _whole("point.batch", point.batch, factor, "requests in a batch")
    return found


def _lengths(study: Study) -> list[Condition]:
    workload, found = study.workload, []
    for factor in (0.5, 2.0):
        if isinstance(workload, TrainingWorkload):
            found += _whole("workload.seq_len", workload.seq_len, factor, "tokens in a sequence")
        elif isinstance(workload, InferenceWorkload) and isinstance(workload.input_tokens, Fixed):
            value = max(1, round(workload.input_tokens.value * factor))
            change = {"workload.input_tokens": {"kind": "fixed", "value": value}}
            found.append(Condition(f"{value} tokens in a prompt", change))
    return found


def _whole(path: str, value: int, factor: float, of: str) -> list[Condition]:
    other = max(1, round(value * factor))
    return [] if other == value else [Condition(f"{other} {of}", {path: other})]


def study_at(bound: Bound, settings: Mapping[str, Any], condition: Condition, round_s: float = 0.0) -> Study:
    """The study of the default and the winner under a condition. Raises ValidationError."""
    study = proof_study(bound, settings, REPEATS, round_s=round_s)
    data = study.to_dict()
    for path, value in condition.changes.items():
        put_at(data, path, value)
    return Study.model_validate(data | {"name": f"{bound.study.name[:46]}-elsewhere"}, strict=False)


def measure_elsewhere(bound: Bound, winner: Trial, folder: Path, watch: Watch, round_s: float) -> None:
    """Measure the default and the winner under each condition, or go on with it; what cannot run there is left out."""
    for number, condition in enumerate(conditions_of(bound)):
        study = study_at(bound, winner.settings, condition, round_s)
        if not _cannot(study):
            prove_study(bound, winner.settings, study, folder / FOLDER / str(number), watch)


def found_elsewhere(bound: Bound, winner: Trial, folder: Path, round_s: float) -> tuple[Elsewhere, ...]:
    """What the tuning does under each condition."""
    found = []
    for number, condition in enumerate(conditions_of(bound)):
        study = study_at(bound, winner.settings, condition, round_s)
        proof = proved_in(bound, study, folder / FOLDER / str(number))
        why = "" if proof is not None else _cannot(study) or "not measured yet"
        found.append(Elsewhere(condition, proof, why))
    return tuple(found)


def _cannot(study: Study) -> str:
    """Why a study cannot run here, in one sentence; "" where it can."""
    try:
        for spec in study.point_runs():
            refuse_what_cannot_run(spec)
    except BadInput as error:
        return str(error)
    return ""
