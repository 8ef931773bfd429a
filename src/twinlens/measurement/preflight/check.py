"""The check of a study before anything runs: its runs, its duration, theory's prediction, and what cannot be run."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from twinlens.errors import BadInput
from twinlens.executors.registry import refuse_unknown_executor
from twinlens.measurement.facts.predicted_work import theory_of
from twinlens.measurement.preflight.memory import needed
from twinlens.measurement.preflight.refuse import preflight, sentences
from twinlens.record.codec import encode
from twinlens.record.executor.facts import Estimates
from twinlens.spec.study import RunSpec, Study
from twinlens.spec.workload.arrival import Constant, Gamma, Poisson
from twinlens.spec.workload.workload import InferenceWorkload
from twinlens.stats.estimator.quantile import needed_for_quantile

QUANTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99}
SPARE = 1.25
"""Warm-up is in no quantile, and arrivals scatter."""


def expected_requests(spec: RunSpec) -> float | None:
    """How many requests a run will have; None where that depends on the server."""
    workload = spec.workload
    if not isinstance(workload, InferenceWorkload) or not isinstance(workload.arrival, Constant | Poisson | Gamma):
        return None
    rate = spec.point.rate_per_s
    return None if rate is None or workload.sessions is not None else rate * spec.protocol.duration_s


def long_enough_s(rate_per_s: float, q: float = 0.99) -> float:
    """A duration, in whole tens of seconds, in which a run at this rate has the `q` quantile of its requests."""
    return 10.0 * math.ceil(SPARE * needed_for_quantile(q) / rate_per_s / 10)


@dataclass(frozen=True, slots=True)
class ExpectedRequests:
    """How many requests one run at a rate has. `needed`: by quantile, how many it needs at least; `duration_s`: by
    quantile, a duration that gives so many at this rate."""

    rate_per_s: float
    expected: float
    needed: dict[str, int]
    duration_s: dict[str, float]


def requests_by_rate(study: Study) -> tuple[ExpectedRequests, ...]:
    """For each rate of a study, rising; none where the number of requests depends on the server."""
    counts = {spec.point.rate_per_s: expected_requests(spec) for spec in study.point_runs()}
    needed = {name: needed_for_quantile(q) for name, q in QUANTILES.items()}
    return tuple(
        ExpectedRequests(rate, count, needed, {name: long_enough_s(rate, q) for name, q in QUANTILES.items()})
        for rate, count in sorted((rate, count) for rate, count in counts.items() if rate and count is not None)
    )


def without_quantile(study: Study, q: float = 0.99) -> str:
    """One sentence where points will have too few requests for the `q` quantile, and what would do; "" where none."""
    needed, short, lasts = needed_for_quantile(q), dict[float, float](), set[float]()
    for spec in study.point_runs():
        expected = expected_requests(spec)
        if expected is not None and expected < needed and spec.point.rate_per_s:
            short[spec.point.rate_per_s] = expected
            lasts.add(spec.protocol.duration_s)
    if not short:
        return ""
    each = " and ".join(f"{rate:g}/s has {count:.0f}" for rate, count in sorted(short.items()))
    will = f"{each}" + (f" in {min(lasts):g} s" if len(lasts) == 1 else "")
    return (
        f"p{100 * q:g} needs {needed} requests of one run, and {will}: not shown there; "
        f"--set protocol.duration_s={long_enough_s(min(short), q):g} would do"
    )


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


_OVERHEAD_S = 9.0  # what a run costs beside its rows, until this study's own runs have told


def expected_s(study: Study) -> float:
    """Seconds: the durations of its runs and what each costs beside them; of a search, the most it may take."""
    if study.search is None:
        return float(sum(run.protocol.duration_s + _OVERHEAD_S for run in study.runs()))
    each_s = study.protocol.duration_s + _OVERHEAD_S
    most_s = study.search.most_points * each_s
    return float(len(study.points()) * min(most_s, study.search.budget_s or most_s))
