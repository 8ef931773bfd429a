"""The noise floor of a machine: how far two measurements of one thing lie apart (A/A), at different times."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from twinlens.comparison.effect import Effect
from twinlens.comparison.side import Side
from twinlens.record.finding import Finding
from twinlens.stats.estimator.interval import t_quantile

FEWEST_TIMES = 3
"""Measurements of one spec on one stack that give a floor: two are one difference, which may be small by luck."""


@dataclass(frozen=True, slots=True)
class Floor:
    """For each machine, lens and metric: `share`, within which 95 % of differences of two such measurements lie, and
    the number of measurements that it rests on."""

    shares: Mapping[tuple[str, str, str], tuple[float, int]]

    def of(self, a: Side, b: Side, metric: str) -> tuple[float, int] | None:
        """The floor of the machine that both sides ran on; None where they ran on two, or it was not measured."""
        machines = {side.group.machine.id for side in (a, b) if side.group.machine}
        if len(machines) != 1:
            return None
        return self.shares.get((machines.pop(), a.lens, metric))


def floor_of(sides: Iterable[Side]) -> Floor:
    """The floor from all runs of some sides: those of one spec on one stack, each study a measurement.

    The logarithms of the study means are pooled over specs; a difference of two has √2 of their deviation, times
    Student's t for as many as there are. Only finished and ranked runs count.
    """
    times: dict[tuple[str, str, str, str], dict[str, list[float]]] = {}
    for side in sides:
        asked = json.dumps({key: value for key, value in side.spec.items() if key != "repeat"}, sort_keys=True)
        for run, summary in zip(side.runs, side.group.runs, strict=True):
            if summary.machine is None or not summary.ranked:
                continue
            for metric, estimate in summary.metrics.items():
                if estimate.value is not None and estimate.value > 0:
                    key = (summary.machine.id, side.lens, metric, asked + summary.machine.stack)
                    times.setdefault(key, {}).setdefault(str(run.folder.parent), []).append(estimate.value)
    pooled: dict[tuple[str, str, str], list[list[float]]] = {}
    for (machine, lens, metric, _), studies in times.items():
        means = [math.log(math.fsum(values) / len(values)) for values in studies.values()]
        pooled.setdefault((machine, lens, metric), []).append(means)
    shares = {key: share for key, sets in pooled.items() if (share := _share(sets)) is not None}
    return Floor(shares)


def _share(sets: Sequence[Sequence[float]]) -> tuple[float, int] | None:
    sets = [each for each in sets if len(each) > 1]
    count = sum(map(len, sets))
    freedom = count - len(sets)
    if freedom < FEWEST_TIMES - 1:
        return None
    squares = math.fsum((value - math.fsum(each) / len(each)) ** 2 for each in sets for value in each)
    return math.expm1(t_quantile(0.95, freedom) * math.sqrt(2 * squares / freedom)), count


def above_floor(effect: Effect, floor: tuple[float, int] | None) -> Effect:
    """An effect from runs is called a difference only where it is larger than the floor. One from slices by turns needs
    none: what changes between two times met both sides alike."""
    if floor is None or effect.way != "runs" or effect.ratio.value is None:
        return effect
    share = floor[0]
    inside = abs(math.log(effect.ratio.value)) <= math.log1p(share) if effect.ratio.value > 0 else False
    return replace(effect, floor=share, apart=False if effect.apart and inside else effect.apart)


def floor_finding(floor: tuple[float, int] | None, effect: Effect | None) -> Finding | None:
    """What is known of the floor in the effect that is said first. None where that effect needs no floor."""
    if effect is None or effect.way != "runs":
        return None
    if floor is None:
        return Finding("floor-not-measured", "notes", effect.metric)
    return Finding("noise-floor", "notes", effect.metric, {"share": floor[0], "times": floor[1]})
