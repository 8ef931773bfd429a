"""TEST09: whether answers under load are as long, on average, as they should be. The mean may be off by 10 %."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from twinlens.record.estimate import Estimate
from twinlens.record.sections import ComplianceTest
from twinlens.stats.compliance.ruling import RULINGS, reason_of, told_by
from twinlens.stats.estimator.interval import mean_of_independent
from twinlens.units import COUNT, RATIO

LENGTH_MARGIN = 0.1  # TEST09: the reference mean ± 10 %
FEWEST_LENGTHS = 5


def length(under_load: Sequence[int], reference: Sequence[int], source: Literal["asked", "alone"]) -> ComplianceTest:
    """TEST09: whether answers under load are as long, on average, as they should be.

    `reference`: what each was asked for, or had alone; `source` says which.
    """
    if len(under_load) != len(reference):
        raise ValueError(f"{len(under_load)} lengths under load, {len(reference)} of reference")
    mean = float(np.mean(reference)) if len(reference) else 0.0
    if len(under_load) < FEWEST_LENGTHS or mean <= 0:
        why = reason_of("few-lengths", answers=len(under_load), fewest=FEWEST_LENGTHS, reference=source)
        return ComplianceTest("length", "TEST09", "not enough", why)
    apart = mean_of_independent((np.asarray(under_load) - np.asarray(reference)) / mean, unit=RATIO)
    ratio = _shifted(apart)
    evidence = {"length_ratio": ratio, "reference_tokens": _figure(mean, f"mean, {source}", len(reference))}
    told = told_by(ratio, least=1 - LENGTH_MARGIN, most=1 + LENGTH_MARGIN)
    reason = reason_of("length-ratio", evidence, told=told, reference=source, margin=LENGTH_MARGIN)
    return ComplianceTest("length", "TEST09", RULINGS[told], reason, evidence)


def _shifted(apart: Estimate) -> Estimate:
    assert apart.value is not None
    low, high = (None if bound is None else 1 + bound for bound in (apart.low, apart.high))
    method = f"1 + {apart.method} of the differences over the mean reference"
    return Estimate(1 + apart.value, RATIO, method, "derived", low=low, high=high, level=apart.level, n=apart.n)


def _figure(value: float, method: str, n: int) -> Estimate:
    return Estimate(value, COUNT, method, "measured", n=n)
