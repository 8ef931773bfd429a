"""Ours and theirs in turns, as ratios: groups O T T O and T O O T alternate, so that a linear drift cancels in each.

A few long groups leave an interval of the neighbours' making: with eight, a median's interval is from the least to the
greatest. Many short ones make it narrow, and one that was disturbed moves nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from benchmarks.finding import Finding
from benchmarks.interleave import median_of
from twinlens.units import RATIO, SECONDS

WITHIN = 0.03
FEWEST = 12
Figure = Callable[[], float]
"""Seconds per unit of work, by whoever is asked."""


@dataclass(frozen=True, slots=True)
class Pairs:
    """Means of both figures of a side by group, in seconds. [groups]"""

    ours_s: np.ndarray
    theirs_s: np.ndarray

    def findings(self, what: str, tool: str, note: str = "") -> list[Finding]:
        """Our time, and how far it is over the tool's own."""
        excess = median_of(self.ours_s / self.theirs_s - 1.0, "median of ours/theirs - 1 over groups", RATIO)
        own = median_of(self.ours_s, "median of groups", SECONDS)
        return [Finding(f"{what}: ours", own), Finding(f"{what}: over {tool}", excess, WITHIN, "at most", note)]


def paired(ours: Figure, theirs: Figure, seconds: float) -> Pairs:
    """Groups for at least `seconds`, and twelve of them, after one untimed figure of each."""
    ours()
    theirs()
    found: list[tuple[float, float]] = []
    until_s = time.monotonic() + seconds
    while len(found) < FEWEST or time.monotonic() < until_s:
        found.append(group(ours, theirs, is_ours_outside=len(found) % 2 == 0))
    columns = np.array(found).T
    return Pairs(*columns)


def group(ours: Figure, theirs: Figure, *, is_ours_outside: bool) -> tuple[float, float]:
    """One group: the mean of ours and of theirs."""
    outer, inner = (ours, theirs) if is_ours_outside else (theirs, ours)
    first, between, last = outer(), (inner() + inner()) / 2, outer()
    outside = (first + last) / 2
    return (outside, between) if is_ours_outside else (between, outside)
