"""Losses of two passes over the same steps, compared step by step. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LossesCompared:
    """`steps`: those of either pass. `worst`: the largest relative difference, over steps of which both losses are
    finite; None where there is none. `unknown`: steps of which a loss is absent or not finite in either pass."""

    steps: int
    worst: float | None
    unknown: int

    def are_within(self, tolerance: float) -> bool:
        """False where a step is unknown, and where nothing was compared."""
        return not self.unknown and self.worst is not None and self.worst <= tolerance


def compared(pairs: Iterable[tuple[float | None, float | None]]) -> LossesCompared:
    """The losses of each step, first and second pass."""
    each = [apart(first, second) for first, second in pairs]
    known = [value for value in each if value is not None]
    return LossesCompared(len(each), max(known, default=None), len(each) - len(known))


def apart(first: float | None, second: float | None) -> float | None:
    """The relative difference of two numbers, by the larger of them: 0 of two zeros, so nothing is divided by zero.

    None where either is absent or not finite.
    """
    if first is None or second is None or not (math.isfinite(first) and math.isfinite(second)):
        return None
    larger = max(abs(first), abs(second))
    return abs(first / larger - second / larger) if larger else 0.0
