"""Two or more things timed in turns: what drifts (heat, a neighbour) then meets all of them alike.

A B B A and B A A B alternate; one such group gives one ratio, in which a linear drift cancels. The figure is the
median of the groups' ratios, with its order-statistic interval: one bad moment spoils one group, not the result.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from twinlens.record.estimate import Estimate
from twinlens.stats.estimator.quantile import quantile
from twinlens.units import RATIO, SECONDS

Block = Callable[[], object]
_FEWEST_GROUPS = 12


@dataclass(frozen=True, slots=True)
class Turns:
    """Seconds of each group's A and B blocks, two of each: wall time and this process's processor time. [groups]"""

    wall_a_s: np.ndarray
    wall_b_s: np.ndarray
    cpu_a_s: np.ndarray
    cpu_b_s: np.ndarray

    def excess(self) -> Estimate:
        """How much longer A takes than B, as a ratio of B: 0.01 is 1 %."""
        return median_of(self.wall_a_s / self.wall_b_s - 1, "median of A/B - 1 over A B B A groups, wall time")

    def excess_s(self) -> Estimate:
        """How much longer one A block takes than one B block, in seconds."""
        return median_of((self.wall_a_s - self.wall_b_s) / 2, "median of A - B over A B B A groups, wall time", SECONDS)

    def cpu_excess(self) -> Estimate:
        """The same in processor time of this process: deaf to neighbours, but it counts threads that only spin."""
        return median_of(self.cpu_a_s / self.cpu_b_s - 1, "median of A/B - 1 over A B B A groups, processor time")


def take_turns(a: Block, b: Block, seconds: float) -> Turns:
    """Time A B B A, B A A B, … after one untimed block of each, for at least `seconds` and 12 groups."""
    a()
    b()
    found: list[tuple[float, float, float, float]] = []
    until_s = time.perf_counter() + seconds
    while len(found) < _FEWEST_GROUPS or time.perf_counter() < until_s:
        wall, cpu = {"a": 0.0, "b": 0.0}, {"a": 0.0, "b": 0.0}
        for which in "abba" if len(found) % 2 == 0 else "baab":
            wall_s, cpu_s = _timed(a if which == "a" else b)
            wall[which] += wall_s
            cpu[which] += cpu_s
        found.append((wall["a"], wall["b"], cpu["a"], cpu["b"]))
    columns = np.array(found).T
    return Turns(*columns)


def median_of(values: Sequence[float] | np.ndarray, method: str, unit: str = RATIO) -> Estimate:
    """The median of independent values with its order-statistic interval; without interval below six."""
    series = np.asarray(values, dtype=np.float64)
    found = quantile(series, 0.5, unit=unit, method_suffix=f", {method}")
    if found.value is not None:
        return found
    if not series.size:
        return Estimate.absent(unit, "no values were taken")
    return Estimate(float(np.median(series)), unit, f"{method}; too few for an interval", "measured", n=series.size)


def bracketed(values: Sequence[float]) -> np.ndarray:
    """Means of neighbours: what a ceiling was around each run between two measurements of it. [n + 1] to [n]"""
    series = np.asarray(values, dtype=np.float64)
    return np.asarray((series[:-1] + series[1:]) / 2)


def _timed(block: Block) -> tuple[float, float]:
    cpu_s, wall_s = time.process_time(), time.perf_counter()
    block()
    return time.perf_counter() - wall_s, time.process_time() - cpu_s
