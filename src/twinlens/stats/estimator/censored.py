"""Quantiles of values some of which never came: a request that failed is slower than any that did not."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from twinlens.record.estimate import Estimate, Spread
from twinlens.stats.estimator.independent import Queue
from twinlens.stats.estimator.quantile import quantile
from twinlens.stats.estimator.series import Series


class Censored:
    """Non-negative values [n] in time order, `inf` where one never came, and what their quantiles share.

    `together` and `waiting` are as in `Series`. Raises ValueError for NaN and for values below 0.
    """

    def __init__(self, values: ArrayLike, together: int = 1, waiting: Queue | None = None) -> None:
        series = np.asarray(values, dtype=np.float64).ravel()
        if series.size and not series.min() >= 0:  # NaN is no more than that either
            raise ValueError("a censored quantile is taken of values from 0 up, inf for those that never came")
        lost = np.isinf(series) if series.size and np.isinf(series.max()) else np.zeros(1, bool)
        self.size, self.lost = series.size, int(np.count_nonzero(lost))
        self.most = float(series[~lost].max()) if 0 < self.lost < self.size else math.inf
        # A stand-in so large that even its mean with the largest real value is told from every real value.
        known = np.where(lost, 3 * self.most + 1, series) if 0 < self.lost < self.size else series
        few = self.lost < self.size or not self.size
        self.series = Series(known, together, waiting, self.lost) if few else None


def censored_quantile(
    values: ArrayLike | Censored,
    q: float,
    *,
    unit: str,
    what: str,
    level: float = 0.95,
    together: int = 1,
    why_not: str = "",
) -> Estimate:
    """The `q` quantile of non-negative `values` [n] in time order, in which a failure is `inf` and so the largest.

    Where the quantile itself falls among the failures it is absent, and the reason counts them (`what` names them,
    e.g. "requests"); where only its upper bound does, `high` is None. So a failure never makes a quantile smaller.
    Absent below `needed_for_quantile` values. Where there are as many, but slow ones come in so few clusters that no
    interval can be given (one stall, say), the value stands without one: it is what happened in this run. `together`
    and `why_not` are as in `quantile`. Several quantiles of the same values are faster of a `Censored`.
    Raises ValueError for NaN and for values below 0.
    """
    whole = values if isinstance(values, Censored) else Censored(values, together)
    count = f"{whole.lost} of {whole.size} {what} that failed"
    among = Estimate.absent(unit, f"p{100 * q:.10g} falls among the {count}")
    if whole.series is None:
        return replace(among, spread=Spread(whole.size, (), (), 1.0))
    found = quantile(whole.series, q, unit=unit, level=level, in_time_order=True, why_not=why_not)
    if found.value is None or not whole.lost:
        return found
    most = whole.most
    if found.value > most:
        return replace(among, spread=found.spread)
    method = f"{found.method}; the {count} count as slower than any"
    if found.high is not None and found.high > most:
        return replace(found, high=None, method=f"{method}, and the upper bound falls among them")
    return replace(found, method=method)
