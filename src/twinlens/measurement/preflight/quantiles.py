"""The quantiles that a study's runs are long enough for, listed before the minutes are spent."""

from __future__ import annotations

import math
from dataclasses import dataclass

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
