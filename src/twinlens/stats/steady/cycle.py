"""Test for a regular swing of row time."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from twinlens.stats.estimator.trend import first_return, period
from twinlens.stats.steady.levels import group_edges, group_means
from twinlens.stats.steady.rule import SteadyRule, window_count

_FEWEST_WINDOWS = 4  # of a turn: what comes in every second or third window depends on how windows fall


def find_cycle(calm: NDArray[np.float64], starts: list[int], rule: SteadyRule) -> tuple[float, int] | None:
    """Size and rows of a cycle over windows, from row 0 or from a level that starts in the first third."""
    most = window_count(calm.size, rule)
    for start in (s for s in starts if s <= calm.size / 3):
        rest = calm[start:]
        windows = max(1, rest.size * most // calm.size)
        found = period(group_means(rest, group_edges(rest.size, windows)), rule.cycle_strength)
        if found is None or found[0] < _FEWEST_WINDOWS or found[1] <= 2 * rule.delta:
            continue
        finer = min(rest.size, 4 * windows)
        fine_lag = round(found[0] * finer / windows)
        turn = first_return(group_means(rest, group_edges(rest.size, finer)), fine_lag)
        if turn * windows >= _FEWEST_WINDOWS * finer:
            return float(np.expm1(min(found[1], 700.0))), round(rest.size / finer * turn)
    return None
