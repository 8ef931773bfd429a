"""Effects: how far two sides are apart in each metric, with an interval or none, and the floor of noise."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from twinlens.comparison.side import Side
from twinlens.record.estimate import Estimate
from twinlens.record.finding import Finding
from twinlens.stats.estimator.interval import t_quantile
from twinlens.stats.estimator.quantile import own_quantiles, pooled_quantile
from twinlens.stats.estimator.ratio import chance_of, difference, difference_of_runs, ratio, ratio_of_runs
from twinlens.stats.estimator.repeats import FEWEST_RUNS, reach_of, widened, widened_difference
from twinlens.stats.metrics.definition import HEADLINE, definition_of
from twinlens.stats.paired.arrivals import OfArrivals, of_arrivals, shared_arrivals
from twinlens.stats.paired.ratio import ByTurns, by_turns
from twinlens.stats.paired.slice_rate import Rates
from twinlens.stats.summary.group import Group
from twinlens.stats.summary.point import quantile_of
from twinlens.stats.summary.serving import is_served

Way = Literal["slices", "arrivals", "runs", "none"]
_OF_RUNS = ("arrivals", "runs")
_LEFT_OUT = ("client", "server", "peer")  # of the client, of the server's own page, and under other tools' names


@dataclass(frozen=True, slots=True)
class Effect:
    """One metric of both sides. `ratio`: b over a; `difference`: b less a, in the metric's unit.

    `way`: from paired slices, from the same arrivals under both, or from runs. `apart`: whether the two can be told
    apart, by the interval of the difference (of the log ratio, from slices) and never by whether their own intervals
    overlap; None where there is no interval, and False within the noise floor. The first metric is judged by itself,
    all others as one family (`_as_family`): `chance` is how often runs of two equal sides would differ as much in it.
    `smallest`: the smallest relative change that these runs could have shown; `floor`: of this machine between two
    times, None where it was not measured.
    """

    metric: str
    a: Estimate
    b: Estimate
    ratio: Estimate
    difference: Estimate
    way: Way
    apart: bool | None
    smallest: float | None
    floor: float | None = None
    chance: float | None = None

    @property
    def is_worse(self) -> bool | None:
        """Whether b is worse than a, as the metric counts; None where neither way is good, or it cannot be told."""
        better = definition_of(self.metric).better
        if not self.apart or better == "none" or self.a.value is None or self.b.value is None:
            return None
        return (self.b.value < self.a.value) == (better == "more")

    def __json__(self) -> dict[str, Any]:
        return {
            "metric": self.metric, "way": self.way, "apart": self.apart, "worse": self.is_worse,
            "a": self.a, "b": self.b, "ratio": self.ratio, "difference": self.difference,
            "smallest_visible_change": self.smallest, "noise_floor": self.floor, "chance": self.chance,
        }  # fmt: skip


def effects(a: Side, b: Side, rates: Mapping[str, Rates], *, level: float = 0.95) -> tuple[Effect, ...]:
    """The effect in every metric that both sides have, headline first. Sides of two lenses share none.

    `rates`: those of the slices of runs that took turns, by id of the run; a ratio from them goes before one from runs,
    as what disturbed the machine met both. Latencies of runs that met the same arrivals are compared on these.
    """
    if a.lens != b.lens:
        return ()
    runs = {run.id: run for side in (a, b) for run in side.runs if run.sections.pairing}
    turns = {each.ratio.metric: each for each in by_turns(b.group, a.group, runs, rates, level=level)}
    shared = [name for name in a.group.metrics if name in b.group.metrics and _is_shown(name)]
    first = headline(a)
    met = shared_arrivals(a.group, b.group, {run.id: run for side in (a, b) for run in side.runs})
    found = [
        _effect(name, a.group, b.group, turns.get(name), of_arrivals(met, name, level=level), level)
        for name in sorted(shared, key=lambda x: x != first)
    ]
    return _as_family(found, first, level)


def _as_family(found: Sequence[Effect], first: str | None, level: float) -> tuple[Effect, ...]:
    """Effects from runs with `apart` such that two equal sides have one in 1 - level of comparisons, besides the first.

    Holm 1979: from the smallest chance on, each must be below (1 - level) over how many are left. Two equal sides of
    29 metrics were "apart" somewhere in a quarter of comparisons.
    """
    family = sorted(
        (each for each in found if each.metric != first and each.way in _OF_RUNS and each.chance is not None),
        key=lambda each: each.chance or 0.0,
    )
    lost: set[str] = set()
    for place, each in enumerate(family):
        if lost or (each.chance or 0.0) > (1 - level) / (len(family) - place):
            lost.add(each.metric)
    return tuple(replace(each, apart=False) if each.apart and each.metric in lost else each for each in found)


def headline(side: Side) -> str | None:
    """The metric of a side that is said first: its sustained rate; at a given rate its latency, which is the result."""
    given = side.lens == "inference" and is_served(side.runs[0]) and side.group.point.get("concurrency") is None
    latencies = ("ttft_s_p99", "ttft_s_p50", "e2e_latency_s_p50")
    names = latencies if given else HEADLINE[side.lens]
    known = [name for name in names if name in side.group.metrics]
    return next((name for name in known if side.group.metrics[name].value is not None), known[0] if known else None)


def _is_shown(name: str) -> bool:
    return definition_of(name).group not in _LEFT_OUT


def _effect(name: str, a: Group, b: Group, turns: ByTurns | None, paired: OfArrivals | None, level: float) -> Effect:
    ours, theirs = a.metrics[name], b.metrics[name]
    if turns is not None and turns.ranked:
        times = turns.ratio.ratio
        low, high = times.low or 0.0, times.high or math.inf
        gap = Estimate.absent(ours.unit, "points that took turns are compared by their ratio")
        half = math.sqrt(high / low) - 1 if low > 0 else None
        return Effect(name, ours, theirs, times, gap, "slices", not low <= 1 <= high, half)
    values = [_values(group, name) for group in (a, b)]
    absent = next((Estimate.absent(each.unit, each.lacks) for each in (ours, theirs) if each.value is None), None)
    if absent is None and not (a.ranked and b.ranked):
        absent = Estimate.absent(ours.unit, "a side is not valid")
    if absent is not None or ours.unit != theirs.unit:
        absent = absent or Estimate.absent(ours.unit, f"one side is in {ours.unit}, the other in {theirs.unit}")
        return Effect(name, ours, theirs, absent, absent, "none", None, None)
    if paired is not None:
        gap = paired.difference
        least = 0.0 if _apart(gap) else 1 - level
        found = Effect(name, ours, theirs, paired.ratio, gap, "arrivals", _apart(gap), _smallest(gap, ours))
        return _widened(replace(found, chance=max(paired.chance, least)), values)
    if (q := quantile_of(name)) is not None:
        return _widened(_of_quantiles(name, q, a, b, level), values)
    gap = difference_of_runs(values[1], values[0], unit=ours.unit, level=level)
    times = _ratio(values[1], values[0], level)
    chance = chance_of(values[1], values[0]) if gap.low is not None else None
    found = Effect(name, ours, theirs, times, gap, "runs", _apart(gap), _smallest(gap, ours), chance=chance)
    return _widened(found, values)


def _widened(effect: Effect, values: Sequence[Sequence[float]]) -> Effect:
    """The effect of sides of which one is provisional, with what could hide in them: b moved towards a.

    `values`: of the runs of a and of b.
    """
    reach = reach_of(effect.a, effect.b)
    if not reach:
        return effect
    gap = widened_difference(effect.difference, effect.a, effect.b)
    times = widened(effect.ratio, effect.a.hidden, effect.b.hidden)
    chance = effect.chance
    if chance is not None and effect.difference.value is not None:
        off = effect.difference.value
        moved = math.copysign(min(reach, abs(off)), off)
        chance = max(chance, chance_of([value - moved for value in values[1]], values[0]))
    smallest = _smallest(gap, effect.a)
    return replace(effect, ratio=times, difference=gap, apart=_apart(gap), smallest=smallest, chance=chance)


def _of_quantiles(name: str, q: float, a: Group, b: Group, level: float) -> Effect:
    """Quantiles over runs are of all their values together, so their doubt is that of these values and that of runs.

    Each interval is the wider of two: order statistics of both sides (MOVER), and Welch's or Fieller's of the runs.
    """
    ours, theirs = a.metrics[name], b.metrics[name]
    spreads = [[each.spread for each in _finished(side, name) if each.spread is not None] for side in (a, b)]
    values = [[each for each in own_quantiles(side, q) if each is not None] for side in spreads]
    few = next((each for each in (ours, theirs) if each.level is None), None)
    if few is not None or min(map(len, values)) < FEWEST_RUNS:
        why = (few.no_interval if few else None) or f"fewer than {FEWEST_RUNS} runs a side"
        bare = [replace(each, low=None, high=None, level=None, no_interval=why) for each in (theirs, ours)]
        return Effect(name, ours, theirs, ratio(*bare), difference(*bare), "runs", None, None)
    within = [pooled_quantile(side, q, unit=ours.unit, level=level, is_within=True) for side in reversed(spreads)]
    runs = difference_of_runs(values[1], values[0], unit=ours.unit, level=level)
    gap = _no_narrower(difference(*within), [(each or 0.0) - (runs.value or 0.0) for each in (runs.low, runs.high)])
    times = ratio(*within)
    of_runs = _ratio(values[1], values[0], level)
    if of_runs.low is None or of_runs.high is None or not of_runs.value:
        times = replace(times, low=None, high=None, level=None, no_interval=of_runs.lacks)
    elif times.value is not None:
        off = [times.value * (each / of_runs.value - 1) for each in (of_runs.low, of_runs.high)]
        times = _no_narrower(times, off)
    chance = None if gap.low is None else max(chance_of(values[1], values[0]), 0.0 if _apart(gap) else 1 - level)
    return Effect(name, ours, theirs, times, gap, "runs", _apart(gap), _smallest(gap, ours), chance=chance)


def _no_narrower(estimate: Estimate, off: Sequence[float]) -> Estimate:
    """The estimate with bounds at least so far `off` its value; open or absent ones stay so."""
    if estimate.value is None or estimate.low is None or estimate.high is None:
        return estimate
    low, high = min(estimate.low, estimate.value + off[0]), max(estimate.high, estimate.value + off[1])
    return replace(estimate, low=low, high=high, method=f"{estimate.method}, no narrower than runs differ")


def _ratio(b: list[float], a: list[float], level: float) -> Estimate:
    """The ratio of run means; none of what may be 0 or below, where a difference says it."""
    if min(*a, *b) <= 0:
        return Estimate.absent("1", "a ratio needs values above 0; see the difference")
    return ratio_of_runs(b, a, level=level)


def _values(group: Group, name: str) -> list[float]:
    """A metric's value in each run that counts; those without one are not there."""
    return [each.value for each in _finished(group, name) if each.value is not None]


def _finished(group: Group, name: str) -> list[Estimate]:
    """A metric in each run that counts and has it."""
    return [run.metrics[name] for run in group.runs if run.state == "finished" and name in run.metrics]


def _apart(gap: Estimate) -> bool | None:
    if gap.low is None or gap.high is None:
        return None
    return not gap.low <= 0 <= gap.high


def _smallest(gap: Estimate, a: Estimate) -> float | None:
    """Half the width of the difference's interval over the value of a: a change below it would hide in the interval."""
    if gap.low is None or gap.high is None or not a.value:
        return None
    return (gap.high - gap.low) / 2 / abs(a.value)


# The noise floor of a machine: how far two measurements of one thing lie apart (A/A), at different times.

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
