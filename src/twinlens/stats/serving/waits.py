"""Reasons why an admission policy held requests back: queued, blocked by the batch before, or gathering a batch."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from twinlens.record.estimate import Estimate
from twinlens.record.request import Requests
from twinlens.schedule.loop.admission import Held, held
from twinlens.spec.point import Point
from twinlens.stats.estimator.censored import censored_quantile
from twinlens.stats.estimator.interval import mean_interval
from twinlens.stats.serving.overlap import Overlap
from twinlens.units import SECONDS

WAITS = ("queued_s", "blocked_s", "gathering_s")
"""The three parts of a hold, in this order; their means add up to the mean hold."""


def waits(requests: Requests, rows: np.ndarray, point: Point, shared: Overlap = Overlap()) -> dict[str, Estimate]:
    """Mean and p99 of each part over `rows` (indexes); empty where no policy held anything back.

    Batches are taken apart over all rows of the run, as the one before a row may lie outside the window.
    """
    known = np.flatnonzero(~np.isnan(requests.released_ns))
    wanted = np.isin(known, rows)
    if point.admission is None or not wanted.any():
        return {}
    parts = _parts(requests, known, point)
    metrics: dict[str, Estimate] = {}
    suffix = "; requests of the window, in order of release"
    for name, part_ns in zip(WAITS, (parts.queued_ns, parts.blocked_ns, parts.gathering_ns), strict=True):
        values = np.maximum(part_ns[wanted], 0) / 1e9
        mean = mean_interval(values, unit=SECONDS, method_suffix=suffix, why_not=shared.why_not)
        metrics[f"{name}_mean"] = mean if mean.low is None else replace(mean, low=max(0.0, mean.low))
        metrics[f"{name}_p99"] = censored_quantile(
            values, 0.99, unit=SECONDS, what="requests", together=shared.together, why_not=shared.why_not
        )
    return metrics


def _parts(requests: Requests, known: np.ndarray, point: Point) -> Held:
    intended, released = requests.intended_ns[known], requests.released_ns[known].astype(np.int64)
    if point.admission == "continuous":  # it holds back only while every place is taken
        nothing = np.zeros(known.size, dtype=np.int64)
        return Held(released - intended, nothing, nothing)
    return held(requests.group[known], intended, released, requests.end_ns[known], point.batch)
