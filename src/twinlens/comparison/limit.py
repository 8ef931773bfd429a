"""Limits for a pipeline: "p99 ttft +5%" fails where a metric is shown to be that much above the baseline."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from twinlens.comparison.effect import Effect
from twinlens.comparison.side import Side, is_same, one_metric
from twinlens.comparison.verdict import Comparison
from twinlens.errors import BadInput
from twinlens.record.estimate import Estimate
from twinlens.record.finding import Finding
from twinlens.stats.estimator.interval import t_quantile
from twinlens.stats.metrics.definition import METRICS

_FORM = re.compile(r"^\s*(?P<metric>.+?)\s*(?P<sign>[+\-−])\s*(?P<percent>\d+(?:\.\d+)?)\s*%\s*$")
_MOST_TIMES = 20
"""Above this a limit is where the ratio is, for all that anybody will measure."""


@dataclass(frozen=True, slots=True)
class Limit:
    """A metric and the relative change at which it fails: +0.05 is 5 % above the baseline, -0.05 is 5 % below."""

    metric: str
    change: float


def limit_of(text: str) -> Limit:
    """A limit from "p99 ttft +5%": a metric by its id or its label, its words in any order. Raises BadInput (TL227)."""
    form = _FORM.match(text)
    if form is None:
        raise BadInput(f"a limit is a metric and a change, such as 'TTFT p99 +5%', not {text[:60]!r}", code="TL227")
    change = float(form["percent"]) / 100 * (1 if form["sign"] == "+" else -1)
    if change in (0.0, -0.0) or change <= -1:
        raise BadInput(f"a limit is above +0% or between -0% and -100%, not {text[:60]!r}", code="TL227")
    return Limit(one_metric(form["metric"]), change)


def failures(
    comparisons: Sequence[Comparison], limits: Sequence[Limit], missed: Sequence[tuple[Side, str]] = ()
) -> Iterator[Finding]:
    """A finding for each limit that a comparison does not keep, and for each that cannot be judged.

    `limit-passed`: the whole interval of the ratio lies beyond the limit. `limit-unjudged`: the limit lies inside the
    interval, or there is none: that is no pass. Nor is a point of the baseline that no comparison has: `missed`, see
    `Pairs`. A limit on a metric of one lens is held against runs of that lens, where there are any.
    """
    lenses = {each.a.lens for each in comparisons} | {side.lens for side, _ in missed}
    for comparison in comparisons:
        for limit in limits:
            if _concerns(limit, comparison.a.lens, lenses):
                effect = next((each for each in comparison.effects if is_same(each.metric, limit.metric)), None)
                yield from _judged(comparison, limit, effect)
    for side, folder in missed:
        for limit in limits:
            if _concerns(limit, side.lens, lenses):
                numbers = {"limit": limit.change, "name": side.name, "missing": True, "folder": folder}
                yield Finding("limit-unjudged", "disqualifies", limit.metric, numbers)


def _concerns(limit: Limit, lens: str, lenses: Collection[str]) -> bool:
    """Whether a limit is held against runs of this lens: of its metric's own, or where no run is of that one."""
    asked = METRICS[limit.metric]
    alike = {each.lens for each in METRICS.values() if each.label == asked.label}
    return "both" in alike or lens in alike or not alike & set(lenses)


def _absent(comparison: Comparison, metric: str) -> dict[str, Any]:
    """Why there is no effect: a metric of the other lens has its namesakes here; else who has it, and who does not."""
    asked = METRICS[metric]
    if asked.lens in (comparison.a.lens, "both"):
        having = [name for name, side in (("A", comparison.a), ("B", comparison.b)) if metric in side.group.metrics]
        if len(having) == 2:
            return {"reason": f"it is a figure of the {asked.group}, which is not compared"}
        return {"reason": f"only {having[0]} has it" if having else "neither side has it"}
    known = (METRICS[each.metric].label for each in comparison.effects if each.metric in METRICS)
    return {"of_lens": asked.lens, "namesakes": [label for label in known if label.endswith(f" {asked.label}")]}


def _judged(comparison: Comparison, limit: Limit, effect: Effect | None) -> Iterator[Finding]:
    numbers = {"limit": limit.change, "name": comparison.b.name, "verdict": comparison.verdict}
    if effect is None or effect.ratio.value is None or effect.ratio.low is None or effect.ratio.high is None:
        numbers |= _absent(comparison, limit.metric) if effect is None else {"reason": effect.ratio.lacks}
        yield Finding("limit-unjudged", "disqualifies", limit.metric, numbers)
        return
    low, high, at = effect.ratio.low, effect.ratio.high, 1 + limit.change
    beyond, within = (low > at, high <= at) if limit.change > 0 else (high < at, low >= at)
    evidence = {"ratio": effect.ratio}
    if beyond:
        yield Finding("limit-passed", "disqualifies", limit.metric, numbers, evidence)
    elif not within:
        runs = min(len(side.group.runs) for side in (comparison.a, comparison.b))
        undecided = {"runs": runs, "needed": runs_needed(effect.ratio, at, runs)}
        yield Finding("limit-unjudged", "disqualifies", limit.metric, numbers | undecided, evidence)


def runs_needed(ratio: Estimate, at: float, runs: int) -> int | None:
    """How many runs a side would part a ratio from `at`, if its value and their scatter stay: `runs` did not.

    The half of the interval on the side of `at` shrinks as Student's t over the root of the number. None where it would
    take more than `_MOST_TIMES` as many, so that more of them are no way to decide.
    """
    value, low, high = ratio.value, ratio.low, ratio.high
    if value is None or low is None or high is None or min(value, low, at) <= 0 or runs < 2:
        return None
    half, distance = math.log(high / value if at > value else value / low), abs(math.log(at / value))

    def width(count: int) -> float:
        return t_quantile(0.95, 2 * count - 2) / math.sqrt(count)

    enough = (
        count for count in range(runs + 1, _MOST_TIMES * runs + 1) if half * width(count) < distance * width(runs)
    )
    return next(enough, None)
