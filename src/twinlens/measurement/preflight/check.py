"""The check of a study before anything runs: its runs, its duration, theory's prediction, and what cannot be run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from twinlens.errors import BadInput
from twinlens.executors.registry import refuse_unknown_executor
from twinlens.measurement.duration import expected_s
from twinlens.measurement.facts.predicted_work import theory_of
from twinlens.measurement.preflight.memory import needed
from twinlens.measurement.preflight.quantiles import ExpectedRequests, requests_by_rate
from twinlens.measurement.preflight.refuse import preflight, sentences
from twinlens.record.codec import encode
from twinlens.record.executor.facts import Estimates
from twinlens.spec.study import RunSpec, Study


@dataclass(frozen=True, slots=True)
class Prediction:
    """The prediction for one operating point. `memory_bytes` is the peak, None where it is not modelled; `memory` is
    the sum in words, or why there is none."""

    spec: RunSpec
    memory_bytes: float | None
    memory: str
    theory: Estimates

    def __json__(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "point": self.spec.point.model_dump(mode="json"),
            "memory_bytes": self.memory_bytes,
            "memory": self.memory,
            "theory": self.theory,
        }


@dataclass(frozen=True, slots=True)
class Check:
    """A study, checked. `runs` and `expected_s`: how many runs and seconds it takes; of a search, those it begins with
    and the most it may take.

    `lacking`: a sentence for each precision that cannot be had here, while other points can be measured. `refusal`:
    what `measure` would refuse the study with, None where it would run. `requests`: of each rate, how many one run has,
    and which quantiles need more.
    """

    study: Study
    runs: int
    expected_s: float
    points: tuple[Prediction, ...]
    lacking: tuple[str, ...] = ()
    refusal: BadInput | None = None
    requests: tuple[ExpectedRequests, ...] = ()

    def __json__(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "study": self.study.to_dict(),
            "runs": self.runs,
            "expected_s": self.expected_s,
            "points": self.points,
            "requests": self.requests,
            "lacking": self.lacking,
            "refusal": None if self.refusal is None else {"code": self.refusal.code, "sentence": str(self.refusal)},
        }

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        return encode(self)

    def __repr__(self) -> str:
        told = f", refused: {self.refusal}" if self.refusal else ""
        return f"<Check {self.study.name}: {self.runs} runs of {len(self.points)} points{told}>"


def checked_study(study: Study) -> Check:
    """Check a study; touches nothing. Raises BadInput for an executor or a model that is not there."""
    refuse_unknown_executor(study.executor.kind, study.lens)
    specs = study.point_runs()
    points = tuple(Prediction(spec, *needed(spec), theory_of(spec)) for spec in specs)
    lacking: tuple[str, ...] = ()
    refusal: BadInput | None = None
    try:
        lacking = sentences(preflight(study))
    except BadInput as error:
        refusal = error
    return Check(study, len(study.runs()), expected_s(study), points, lacking, refusal, requests_by_rate(study))
