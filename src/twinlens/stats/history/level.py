"""Two levels of a history: how far they are apart. No interval: the place was chosen where they differ most."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from twinlens.record.estimate import Estimate
from twinlens.units import RATIO

Floats = NDArray[np.float64]
_WHY_NOT = "the place was chosen where the levels differ most, so that they seem further apart than they are"


def ratio_of_levels(before: Floats, after: Floats) -> Estimate:
    """Mean of `after` [m] over mean of `before` [n].

    A t interval of it, widened for the correlation of neighbours, held the truth in 71 to 90 % at a correlation of 0.3.
    """
    if min(before.min(), after.min()) <= 0:
        return Estimate.absent(RATIO, "a ratio needs values above 0; see the difference")
    return _found(float(after.mean() / before.mean()), RATIO, "ratio of two levels", before, after)


def difference_of_levels(before: Floats, after: Floats, unit: str) -> Estimate:
    """Mean of `after` [m] less mean of `before` [n]."""
    return _found(float(after.mean() - before.mean()), unit, "difference of two levels", before, after)


def _found(value: float, unit: str, method: str, before: Floats, after: Floats) -> Estimate:
    return Estimate(value, unit, method, "derived", n=int(before.size + after.size), no_interval=_WHY_NOT)
