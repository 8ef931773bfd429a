"""Numbers over repeated runs: the run, not the row, is what varies independently (Kalibera & Jones 2013)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from twinlens.record.estimate import Estimate, Origin
from twinlens.stats.interval import t_quantile

FEWEST_RUNS = 3  # two runs have one difference between them: a range, not a spread

# Strongest first. A number built from others is no stronger than the weakest of them.
_STRENGTH: tuple[Origin, ...] = ("measured", "derived", "quoted", "modelled")


def over_runs(estimates: Sequence[Estimate], *, level: float = 0.95) -> Estimate:
    """One estimate for a point measured in R fresh processes, from the estimate of each run.

    R >= 3: mean of run means ± t(R-1) · s / √R, n = R. R = 2: their range, no level. R = 1: that run's
    own interval, marked as such. Absent runs are left out and counted in the method; all absent is
    absent.
    Raises ValueError for no estimates at all or for mixed units.
    """
    unit = _one_unit(estimates)
    present = [e for e in estimates if e.value is not None]
    values = np.array([e.value for e in present], dtype=np.float64)
    missing = _missing(estimates)
    if not present:
        return Estimate.absent(unit, f"absent in every run{missing}")
    if len(present) == 1:
        return replace(present[0], method=f"{present[0].method}; within one run; not comparable across runs{missing}")
    mean = float(np.clip(values.mean(), values.min(), values.max()))
    origin = weakest(*(e.origin for e in present))
    runs = len(present)
    if runs < FEWEST_RUNS:
        return Estimate(
            mean,
            unit,
            f"mean of {runs} runs in fresh processes, with their range; no confidence claimed{missing}",
            origin,
            low=float(values.min()),
            high=float(values.max()),
            n=runs,
        )
    half = t_quantile(level, runs - 1) * float(values.std(ddof=1)) / math.sqrt(runs)
    method = f"mean of {runs} runs in fresh processes, t interval{missing}"
    return Estimate(mean, unit, method, origin, low=mean - half, high=mean + half, level=level, n=runs)


def weakest(*origins: Origin) -> Origin:
    """The weakest of the origins: measured, derived, quoted, modelled, from strong to weak."""
    return max(origins, key=_STRENGTH.index)


def _one_unit(estimates: Sequence[Estimate]) -> str:
    units = {e.unit for e in estimates}
    if len(units) != 1:
        raise ValueError(f"runs are put together in one unit, not {sorted(units) or 'none'}")
    return units.pop()


def _missing(estimates: Sequence[Estimate]) -> str:
    reasons = [e.reason for e in estimates if e.value is None]
    if not reasons:
        return ""
    return f"; {len(reasons)} of {len(estimates)} runs absent ({reasons[0]})"
