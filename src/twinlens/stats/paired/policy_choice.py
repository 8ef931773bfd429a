"""The admission policy with the lowest tail: decided by the interval of the difference, or not at all. Pure.

Where policies met the same arrivals, the difference is that of the same requests under both (`stats/paired/arrivals`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from twinlens.record.estimate import Estimate
from twinlens.record.run import Run
from twinlens.stats.estimator.widened import widened_difference
from twinlens.stats.paired.arrivals import of_arrivals, shared_arrivals
from twinlens.stats.summary.group import Group


@dataclass(frozen=True, slots=True)
class TailDifference:
    """How much more a policy takes than the best one, seconds; None bounds where one of the two has no interval.

    `arrivals`: how many requests both met, where the difference is of these; None where it is of two intervals.
    `stretches`: into how many they were cut.
    """

    other: Group
    more_s: float
    low_s: float | None
    high_s: float | None
    arrivals: int | None = None
    stretches: int | None = None

    @property
    def is_told_apart(self) -> bool:
        """Whether the interval of the difference lies above 0."""
        return self.low_s is not None and self.low_s > 0


@dataclass(frozen=True, slots=True)
class Choice:
    """The policy with the lowest `metric` among those that are ranked (None: none has it), and the others against it.

    `left_out`: those that are not ranked or have too few requests for the quantile.
    """

    metric: str
    best: Group | None
    differences: tuple[TailDifference, ...]
    left_out: tuple[Group, ...]


def choose(groups: Sequence[Group], metric: str, runs: Mapping[str, Run] | None = None) -> Choice:
    """The best of points that differ only in how requests were held back. `metric`: a time, less is better.

    `runs`: those of the groups by id, whose rows say whether they met the same arrivals.
    """
    known = [group for group in groups if group.ranked and _value(group, metric) is not None]
    left_out = tuple(group for group in groups if group not in known)
    if len(known) < 2:
        return Choice(metric, None, (), tuple(groups))
    ordered = sorted(known, key=lambda group: _value(group, metric) or 0.0)
    best, *others = ordered
    return Choice(metric, best, tuple(_against(best, group, metric, runs or {}) for group in others), left_out)


def _value(group: Group, metric: str) -> float | None:
    estimate = group.metrics.get(metric)
    return None if estimate is None or estimate.value is None or not math.isfinite(estimate.value) else estimate.value


def _against(best: Group, other: Group, metric: str, runs: Mapping[str, Run]) -> TailDifference:
    a, b = best.metrics[metric], other.metrics[metric]
    if (paired := of_arrivals(shared_arrivals(best, other, runs), metric)) is not None:
        more = widened_difference(paired.difference, a, b)
        return TailDifference(other, more.value or 0.0, more.low, more.high, paired.arrivals, paired.stretches)
    low_s, high_s = difference_interval(b, a)
    return TailDifference(other, float(b.value or 0) - float(a.value or 0), low_s, high_s)


def difference_interval(a: Estimate, b: Estimate) -> tuple[float | None, float | None]:
    """Bounds of a - b from two intervals of one level (MOVER, Zou and Donner 2008, equation 6); None without either.

    It takes both as independent: points that met the same arrivals differ by less than that, so it is on the safe side.
    """
    if None in (a.value, a.low, a.high, b.value, b.low, b.high) or a.level != b.level or a.level is None:
        return None, None
    va, la, ha, vb, lb, hb = (float(x or 0) for x in (a.value, a.low, a.high, b.value, b.low, b.high))
    gap = va - vb
    return gap - math.hypot(va - la, hb - vb), gap + math.hypot(ha - va, vb - lb)
