"""Quantiles of values some of which never came: a request that failed is slower than any that did not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from twinlens.record.estimate import Estimate
from twinlens.stats.estimator.quantile import quantile


def censored_quantile(
    values: ArrayLike, q: float, *, unit: str, what: str, level: float = 0.95, together: int = 1, why_not: str = ""
) -> Estimate:
    """The `q` quantile of non-negative `values` [n] in time order, in which a failure is `inf` and so the largest.

    Where the quantile itself falls among the failures it is absent, and the reason counts them (`what` names them,
    e.g. "requests"); where only its upper bound does, `high` is None. So a failure never makes a quantile smaller.
    Absent below `needed_for_quantile` values. Where there are as many, but slow ones come in so few clusters that no
    interval can be given (one stall, say), the value stands without one: it is what happened in this run. `together`
    and `why_not` are as in `quantile`.
    Raises ValueError for NaN and for values below 0.
    """
    series = np.asarray(values, dtype=np.float64).ravel()
    if np.isnan(series).any() or (series < 0).any():
        raise ValueError("a censored quantile is taken of values from 0 up, inf for those that never came")
    lost = np.isinf(series)
    if not lost.any():
        return quantile(series, q, unit=unit, level=level, in_time_order=True, together=together, why_not=why_not)
    count = f"{int(lost.sum())} of {series.size} {what} that failed"
    among = Estimate.absent(unit, f"p{100 * q:.10g} falls among the {count}")
    if lost.all():
        return among
    most = float(series[~lost].max())
    # A stand-in so large that even its mean with the largest real value is told from every real value.
    found = quantile(
        np.where(lost, 3 * most + 1, series),
        q,
        unit=unit,
        level=level,
        in_time_order=True,
        together=together,
        why_not=why_not,
    )
    if found.value is None:
        return found
    if found.value > most:
        return among
    method = f"{found.method}; the {count} count as slower than any"
    if found.high is not None and found.high > most:
        return replace(found, high=None, method=f"{method}, and the upper bound falls among them")
    return replace(found, method=method)
