"""Stretches of a window that left its level. They are named and weighed here; every figure keeps their rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from twinlens.stats.estimator.interval import FEWEST_INDEPENDENT
from twinlens.stats.steady.levels import FEWEST_POINTS

_PARTS = 2 * FEWEST_INDEPENDENT  # of the window: how many of them a disturbance reaches says whether it comes again
_MOST_ROWS = 0.2  # with more rows away from a level than that, it is open which of the two the run is about


@dataclass(frozen=True, slots=True)
class Disturbance:
    """Rows `begin_row` … `end_row` (half open, of the run) that left the level.

    `share`: of the window's time. `factor`: mean time per work of these rows over that of the level, above 1 where
    they are slower. `begin_s`, `end_s`: from the start of the run, None where only rows are known.
    """

    begin_row: int
    end_row: int
    share: float
    factor: float
    begin_s: float | None = None
    end_s: float | None = None


@dataclass(frozen=True, slots=True)
class Disturbed:
    """All disturbances of a window, in order of time, and what they do to its figure.

    `effect`: relative change of the mean time per work that they make. `heavy`: whether they are more than may pass
    unranked: they came too rarely for their rate to be known, and by chance alone their effect could be off by more
    than what counts as one level, or a fifth of the rows is among them, or the run ended in one.
    """

    stretches: tuple[Disturbance, ...] = ()
    effect: float = 0.0
    heavy: bool = False

    @property
    def largest(self) -> Disturbance:
        """The one that cost most time; there must be one."""
        return max(self.stretches, key=lambda one: one.share * abs(1 - 1 / one.factor))

    @property
    def share(self) -> float:
        """Of the window's time, all stretches together."""
        return sum(one.share for one in self.stretches)

    def placed(self, times_s: Callable[[int, int], tuple[float, float]]) -> Disturbed:
        """The same with `begin_s`, `end_s` of each stretch, as `times_s` gives them for its rows."""

        def one(stretch: Disturbance) -> Disturbance:
            begin_s, end_s = times_s(stretch.begin_row, stretch.end_row)
            return replace(stretch, begin_s=begin_s, end_s=end_s)

        return replace(self, stretches=tuple(one(stretch) for stretch in self.stretches))


UNDISTURBED = Disturbed()


def weigh(
    away: NDArray[np.bool_],
    time_s: NDArray[np.float64],
    log_time: NDArray[np.float64],
    weight: NDArray[np.float64],
    first_row: int,
    delta: float,
    transient: float,
) -> Disturbed:
    """The disturbances of a window of n rows, those where `away` [n] is True; `first_row` is its place in the run.

    `log_time` [n]: log of time per work; `weight` [n]: how much a row counts in the figure (its work in a rate, 1 in
    a mean latency). `transient`: share of the window that may be away at its very end.
    """
    edges = _stretches(away)
    if not edges:
        return UNDISTURBED
    away = np.zeros_like(away)
    for begin, end in edges:
        away[begin:end] = True
    cost = np.exp(np.clip(log_time - float(np.median(log_time[~away])), -300, 300)) if not away.all() else weight
    weight = weight / weight.max()
    level = float((weight * cost)[~away].sum() / weight[~away].sum()) if not away.all() else 1.0
    excess = np.where(away, weight * (cost - level), 0.0)
    total_s = float((time_s / time_s.max()).sum())
    found = tuple(
        Disturbance(
            first_row + begin,
            first_row + end,
            float((time_s[begin:end] / time_s.max()).sum()) / total_s,
            float((weight * cost)[begin:end].sum() / weight[begin:end].sum()) / level,
        )
        for begin, end in edges
    )
    effect = float(excess.sum() / (weight.sum() * level))
    at_end = edges[-1][1] == away.size and edges[-1][1] - edges[-1][0] > transient * away.size
    parts = max(1.0, _parts(excess))
    rare = parts < FEWEST_INDEPENDENT and abs(effect) > delta * np.sqrt(parts)
    return Disturbed(found, effect, bool(at_end or rare or away.mean() > _MOST_ROWS))


def _stretches(away: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """Half-open stretches of True; gaps too short to be a level of their own do not part them."""
    change = np.flatnonzero(np.diff(np.concatenate(([False], away, [False])).astype(np.int8)))
    merged: list[tuple[int, int]] = []
    for begin, end in change.reshape(-1, 2).tolist():
        if merged and begin - merged[-1][1] < FEWEST_POINTS:
            merged[-1] = (merged[-1][0], end)
        else:
            merged.append((begin, end))
    return merged


def _parts(excess: NDArray[np.float64]) -> float:
    """How many of the window's equal parts share the excess evenly: 1 for one burst, near all of them for a habit."""
    places = np.arange(_PARTS) * excess.size // _PARTS
    each = np.abs(np.add.reduceat(excess, places)) if excess.size >= _PARTS else np.abs(excess)
    power = float((each**2).sum())
    return float(each.sum()) ** 2 / power if power > 0 else 0.0
