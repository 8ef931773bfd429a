"""The quantiles that a study's runs are long enough for, listed before the minutes are spent."""

from __future__ import annotations

import math

from twinlens.spec.study import RunSpec, Study
from twinlens.spec.workload.arrival import Constant, Gamma, Poisson
from twinlens.spec.workload.workload import InferenceWorkload
from twinlens.stats.estimator.quantile import needed_for_quantile

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


def without_quantile(study: Study, q: float = 0.99) -> str:
    """One sentence where points will have too few requests for the `q` quantile, and what would do; "" where none."""
    needed, short = needed_for_quantile(q), dict[float, float]()
    for spec in study.point_runs():
        expected = expected_requests(spec)
        if expected is not None and expected < needed and spec.point.rate_per_s:
            short[spec.point.rate_per_s] = expected
    if not short:
        return ""
    each = " and ".join(f"{rate:g}/s has {count:.0f}" for rate, count in sorted(short.items()))
    will = f"{each} in {study.protocol.duration_s:g} s"
    return (
        f"p{100 * q:g} needs {needed} requests of one run, and {will}: not shown there; "
        f"--set protocol.duration_s={long_enough_s(min(short), q):g} would do"
    )
