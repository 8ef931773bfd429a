"""Effects: how far two sides are apart in each metric. Ratio and difference have an interval of their own, or none."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from twinlens.comparison.side import Side
from twinlens.record.estimate import Estimate
from twinlens.stats.estimator.ratio import difference_of_runs, ratio_of_runs
from twinlens.stats.metrics.definition import HEADLINE, METRICS
from twinlens.stats.paired.by_turns import ByTurns, Rates, by_turns
from twinlens.stats.summary.group import Group
from twinlens.stats.summary.serving import is_served

Way = Literal["slices", "runs", "none"]
_LEFT_OUT = ("client", "server", "peer")  # of the client, of the server's own page, and under other tools' names


@dataclass(frozen=True, slots=True)
class Effect:
    """One metric of both sides. `ratio`: b over a; `difference`: b less a, in the metric's unit.

    `way`: from paired slices, or from runs. `apart`: whether the two can be told apart, by the interval of the
    difference (of the log ratio, from slices) and never by whether their own intervals overlap; None where there is no
    interval, and False within the noise floor. `smallest`: the smallest relative change that these runs could have
    shown; `floor`: of this machine between two times, None where it was not measured.
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

    @property
    def is_worse(self) -> bool | None:
        """Whether b is worse than a, as the metric counts; None where neither way is good, or it cannot be told."""
        better = METRICS[self.metric].better if self.metric in METRICS else "none"
        if not self.apart or better == "none" or self.a.value is None or self.b.value is None:
            return None
        return (self.b.value < self.a.value) == (better == "more")

    def to_json(self) -> dict[str, Any]:
        """A plain mapping."""
        plain = {"metric": self.metric, "way": self.way, "apart": self.apart, "worse": self.is_worse}
        estimates = {name: getattr(self, name).to_json() for name in ("a", "b", "ratio", "difference")}
        return plain | estimates | {"smallest_visible_change": self.smallest, "noise_floor": self.floor}


def effects(a: Side, b: Side, rates: Mapping[str, Rates], *, level: float = 0.95) -> tuple[Effect, ...]:
    """The effect in every metric that both sides have, headline first. Sides of two lenses share none.

    `rates`: those of the slices of runs that took turns, by id of the run; a ratio from them goes before one from runs,
    as what disturbed the machine met both.
    """
    if a.lens != b.lens:
        return ()
    runs = {run.id: run for side in (a, b) for run in side.runs if run.sections.pairing}
    turns = {each.ratio.metric: each for each in by_turns(b.group, a.group, runs, rates, level=level)}
    shared = [name for name in a.group.metrics if name in b.group.metrics and _is_shown(name)]
    first = headline(a)
    return tuple(
        _effect(name, a.group, b.group, turns.get(name), level) for name in sorted(shared, key=lambda x: x != first)
    )


def headline(side: Side) -> str | None:
    """The metric of a side that is said first: its sustained rate; at a given rate its latency, which is the result."""
    given = side.lens == "inference" and is_served(side.runs[0]) and side.group.point.get("concurrency") is None
    latencies = ("ttft_s_p99", "ttft_s_p50", "e2e_latency_s_p50")
    names = latencies if given else HEADLINE[side.lens]
    known = [name for name in names if name in side.group.metrics]
    return next((name for name in known if side.group.metrics[name].value is not None), known[0] if known else None)


def _is_shown(name: str) -> bool:
    return name not in METRICS or METRICS[name].group not in _LEFT_OUT


def _effect(name: str, a: Group, b: Group, turns: ByTurns | None, level: float) -> Effect:
    ours, theirs = a.metrics[name], b.metrics[name]
    if turns is not None and turns.ranked:
        ratio = turns.ratio.ratio
        low, high = ratio.low or 0.0, ratio.high or math.inf
        gap = Estimate.absent(ours.unit, "points that took turns are compared by their ratio")
        half = math.sqrt(high / low) - 1 if low > 0 else None
        return Effect(name, ours, theirs, ratio, gap, "slices", not low <= 1 <= high, half)
    values = [_values(group, name) for group in (a, b)]
    absent = next((Estimate.absent(each.unit, each.lacks) for each in (ours, theirs) if each.value is None), None)
    if absent is None and not (a.ranked and b.ranked):
        absent = Estimate.absent(ours.unit, "a side is not ranked")
    if absent is not None or ours.unit != theirs.unit:
        absent = absent or Estimate.absent(ours.unit, f"one side is in {ours.unit}, the other in {theirs.unit}")
        return Effect(name, ours, theirs, absent, absent, "none", None, None)
    gap = difference_of_runs(values[1], values[0], unit=ours.unit, level=level)
    ratio = _ratio(values[1], values[0], level)
    return Effect(name, ours, theirs, ratio, gap, "runs", _apart(gap), _smallest(gap, ours))


def _ratio(b: list[float], a: list[float], level: float) -> Estimate:
    """The ratio of run means; none of what may be 0 or below, where a difference says it."""
    if min(*a, *b) <= 0:
        return Estimate.absent("1", "a ratio needs values above 0; see the difference")
    return ratio_of_runs(b, a, level=level)


def _values(group: Group, name: str) -> list[float]:
    """A metric's value in each run that counts; those without one are not there."""
    estimates = (run.metrics.get(name) for run in group.runs if run.state == "finished")
    return [each.value for each in estimates if each is not None and each.value is not None]


def _apart(gap: Estimate) -> bool | None:
    if gap.low is None or gap.high is None:
        return None
    return not gap.low <= 0 <= gap.high


def _smallest(gap: Estimate, a: Estimate) -> float | None:
    """Half the width of the difference's interval over the value of a: a change below it would hide in the interval."""
    if gap.low is None or gap.high is None or not a.value:
        return None
    return (gap.high - gap.low) / 2 / abs(a.value)
