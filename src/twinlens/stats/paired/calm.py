"""Calm rounds and those beside other programs: whether both sides suffer alike, and which rounds a ratio is taken of.

Turns make disturbances meet both sides, not hurt them alike: a memory-bound side may lose 1.9-fold beside a neighbour
where a compute-bound one loses 1.4-fold, and a ratio over all rounds is then of neither machine.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from twinlens.stats.estimator.interval import t_quantile

_FEWEST_EACH = 3  # rounds, calm and disturbed: a spread needs as many
_LEVEL = 0.99  # one ratio in a hundred whose sides suffer alike may be said to suffer unequally
_DELTA = 0.01  # a difference of less decides nothing

Blocks = NDArray[np.float64]
Marks = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Suffering:
    """Calm rounds against those beside other programs. `kept`: log ratios of each repeat that the ratio is taken of.

    `calm`: how many were, of `of`; `beside`: the ratio of the others, as a factor; `change`: how far that lies from the
    calm one, relatively, and `visible`: from how far on it would have shown; None where either has fewer than three
    rounds. `is_calm`: only calm rounds are kept.
    """

    kept: tuple[Blocks, ...]
    calm: int
    of: int
    beside: float | None
    change: float | None
    visible: float | None
    is_calm: bool

    @property
    def is_unequal(self) -> bool:
        """Whether the two differ by more than chance and by more than a hundredth."""
        if self.change is None or self.visible is None:
            return False
        return abs(math.log1p(self.change)) > max(math.log1p(self.visible), math.log1p(_DELTA))

    @property
    def is_blind(self) -> bool:
        """Whether too few rounds were calm to see how the others differ."""
        return self.visible is None and not self.is_calm and self.of - self.calm >= _FEWEST_EACH

    @property
    def hidden(self) -> float:
        """By what share the rounds that are kept may be off, though it does not show."""
        if self.is_calm or self.visible is None:
            return 0.0
        return self.visible * (1 - self.calm / self.of)


def suffering(series: Sequence[Blocks], disturbed: Sequence[Marks], fewest: int) -> Suffering:
    """`series`: log ratios of each repeat [rounds]; `disturbed`: in which of them other programs ran.

    Calm rounds alone are kept where every repeat has `fewest` of them; else all.
    """
    calm = [blocks[~marks] for blocks, marks in zip(series, disturbed, strict=True)]
    beside = [blocks[marks] for blocks, marks in zip(series, disturbed, strict=True)]
    count, of = sum(each.size for each in calm), sum(each.size for each in series)
    is_calm = count < of and bool(calm) and min(each.size for each in calm) >= fewest
    met = np.concatenate(beside) if beside else np.empty(0)
    change = visible = None
    if min(count, met.size) >= _FEWEST_EACH:
        # Within repeats, as these may differ; the mean of a repeat that has only one of the two says nothing.
        levels = [blocks.mean() for blocks in series]
        sides = [
            np.concatenate([each - level for each, level in zip(side, levels, strict=True)]) for side in (beside, calm)
        ]
        gap = float(sides[0].mean() - sides[1].mean())
        spread = [float(side.var(ddof=1)) / side.size for side in sides]
        error = math.sqrt(sum(spread))
        of_each = sum(part**2 / (side.size - 1) for part, side in zip(spread, sides, strict=True))
        half = t_quantile(_LEVEL, max(1.0, error**4 / of_each)) * error if of_each else 0.0
        change, visible = math.expm1(gap), math.expm1(min(half, 700.0))
    known = float(np.exp(met.mean())) if met.size else None
    return Suffering(tuple(calm if is_calm else series), count, of, known, change, visible, is_calm)
