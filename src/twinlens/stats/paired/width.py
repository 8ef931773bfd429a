"""Width of the ratios between points that take turns, while they do: whether their rounds may end."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations

from twinlens.stats.paired.ratio import paired_ratio
from twinlens.stats.paired.slice_rate import SliceRates


def widest(points: Sequence[SliceRates], looks: int) -> float:
    """How far, as a share of it, a bound of the least known ratio between any two points lies from it; infinite where
    one has no interval, drifts, or could hide a drift.

    `points`: the slices of one repeat, whose interval is asked so surely that `looks` of them hold together.
    """
    found = [paired_ratio([(a, b)], [len(points)], looks=looks) for a, b in combinations(points, 2)]
    return max(math.inf if each.validity != "valid" else _half(each.ratio.low, each.ratio.high) for each in found)


def _half(low: float | None, high: float | None) -> float:
    return math.sqrt(high / low) - 1 if low and high else math.inf
