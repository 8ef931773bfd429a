"""A point from its repeats: the verdict on all together, each metric over them, and greedy agreement.

Published simulation: docs/results/coverage-labels.md; the rule and its reasons: docs/decisions/0080.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import scipy

from twinlens.record.estimate import Estimate
from twinlens.record.finding import Finding, Validity, weakest
from twinlens.stats.steady.slope import Trend, visible
from twinlens.units import RATIO

if TYPE_CHECKING:
    from twinlens.stats.summary.group import Summary, Verdict

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from twinlens.errors import BadInput
from twinlens.record.sections import GreedyAnswers, Response
from twinlens.spec.precision import BITS, precision
from twinlens.stats.compliance import compared
from twinlens.stats.estimator.quantile import pooled_quantile
from twinlens.stats.estimator.repeats import FEWEST_RUNS, cut, mean_of_shares, over_runs, widened
from twinlens.stats.estimator.repeats import weakest as weakest_origin
from twinlens.stats.metrics.definition import Metric, definition_of, is_impossible, is_of_pace
from twinlens.stats.serving.goodput import good_rate_of_runs

_BY_CHANCE = ("drift", "slowdown", "disturbed", "cyclic", "no steady state", "invalid")
"""Labels that a test gives to a steady run now and then: the other repeats may refute them."""
_FALSE_ALARMS = 0.05  # of steady runs that tests call unsteady: 0 to 4 %, more where rows depend strongly
_TOO_MANY = 0.01  # a chance below which so many false alarms are none
_LEVEL = 0.99  # of the test for a change that all repeats share, as for one run
_DOUBTFUL = 1.96  # standard errors of what all share: so much keeps those from valid that did not show it each alone
_IN_COMMON = 0.5  # of what may hide in a run: where no run shows enough by itself, all together must see so much
_NEAR = 5  # times what counts as one level: a refuted run may be no further off, however noisy


@dataclass(frozen=True, slots=True)
class PointVerdict:
    """The state of a point. `label`: the finer reason. `hidden`: the smallest relative change from the first row of a
    run to its last that all repeats together would have shown; None where no slope could be tested. `reason`: what
    is wrong with the repeats together where no single one is to blame."""

    validity: Validity
    label: str
    hidden: float | None = None
    reason: Finding | None = None


def point_verdict(runs: Sequence[Summary]) -> PointVerdict:
    """The verdict on the repeats [>= 1] of one point.

    Not valid where a run did not finish, has a fault that no repeat can refute, or was unsteady and the others do not
    refute it, and where all share a drift. Valid where a change that matters would have shown in all of them together;
    provisional otherwise.
    """
    wrong = [run for run in runs if run.validity == "not valid"]
    others = [run for run in runs if run.validity != "not valid"]
    if wrong and not _refuted(wrong, others):
        return PointVerdict("not valid", _label_of(runs))
    if len(runs) == 1:
        return PointVerdict(runs[0].validity, runs[0].label, runs[0].verdict.least_visible_change)
    return _together(runs)


def _together(runs: Sequence[Summary]) -> PointVerdict:
    """The verdict on repeats in none of which anything wrong was seen, or in which it was refuted."""
    steady = [run for run in runs if run.validity != "not valid"]
    trends = [run.verdict.trend for run in runs if run.verdict.trend]
    own = weakest(run.validity for run in steady)
    slopes = [(trend.change, trend.change_error) for trend in trends if trend.change is not None and trend.change_error]
    if not slopes:
        return PointVerdict(own, " / ".join(sorted({run.label for run in steady})))
    rule, (change, error) = trends[0], _in_common(slopes, math.sqrt(np.mean([each**2 for _, each in slopes])))
    # A slope sees a step less surely than two halves do, and none that is before the window of a run that slowed down.
    halves = [(trend.later, trend.later_error) for trend in trends if trend.later is not None and trend.later_error]
    later, later_error = _in_common(halves, float(np.median([each for _, each in halves]))) if halves else (0.0, 0.0)
    drift = _moved(change, error, rule.delta, f"slopes of {len(slopes)} runs, times the window")
    drift = drift or _moved(later, later_error, rule.delta, f"second half over the first of {len(halves)} runs")
    if drift:
        return PointVerdict("not valid", "drift", None, Finding("drift", "disqualifies", "", {}, {"change": drift}))
    hidden = visible(error, rule.delta, _LEVEL) * min(trend.short for trend in trends)
    mean_error = math.sqrt(math.fsum(trend.level_error**2 for trend in trends)) / len(trends)
    most = rule.most_hidden * (1.0 if any(run.validity == "valid" for run in steady) else _IN_COMMON)
    known = hidden <= most and mean_error <= _NEAR * rule.delta and all(trend.short == 1 for trend in trends)
    doubtful = abs(later) > max(math.log1p(rule.delta), _DOUBTFUL * later_error)
    if all(run.validity == "valid" for run in runs) or ((own == "valid" or known) and not doubtful):
        labels = sorted({run.label for run in steady if run.validity == "valid"})
        begins = any(run.verdict.begin_row for run in steady)
        return PointVerdict("valid", " / ".join(labels) or ("warm-up" if begins else "flat"), hidden)
    return PointVerdict("provisional", "unproven", hidden)


def _in_common(changes: Sequence[tuple[float, float]], each: float) -> tuple[float, float]:
    """The mean of changes [n] of runs, the error of `each` of which is given, and its own: what they differ by counts
    where that is more."""
    values = np.array([change for change, _ in changes])
    apart = float(values.std(ddof=1)) if values.size > 2 else 0.0
    return float(values.mean()), max(each, apart) / math.sqrt(values.size)


def _moved(change: float, error: float, delta: float, method: str) -> Estimate | None:
    """A change of log time that is more than one level, and more than chance; None where it is not."""
    errors = float(scipy.special.ndtri((1 + _LEVEL) / 2)) * error
    if abs(change) <= max(math.log1p(delta), errors):
        return None
    low, value, high = (math.expm1(bound) for bound in (change - errors, change, change + errors))
    return Estimate(value, RATIO, f"mean of the {method}", "derived", low=low, high=high, level=_LEVEL)


def _refuted(wrong: Sequence[Summary], others: Sequence[Summary]) -> bool:
    """Whether runs that a test called unsteady are refuted: no more of them than tests call so by chance, at least as
    many others were steady, and the level is theirs.

    The level of all may differ from that of the others by what counts as one level, or by what their rows scatter.
    """
    by_chance = all(run.state == "finished" and _may_be_chance(run.verdict) and not _own(run) for run in wrong)
    if not by_chance or len(wrong) > len(others) or _chance(len(wrong), len(wrong) + len(others)) < _TOO_MANY:
        return False
    bad, good = ([run.verdict.trend for run in side if run.verdict.trend] for side in (wrong, others))
    if len(bad) < len(wrong) or len(good) < len(others):
        return False
    part = len(bad) / (len(bad) + len(good))
    moved = part * abs(_mean(bad) - _mean(good))
    error = part * math.hypot(*(math.sqrt(sum(one.level_error**2 for one in side)) / len(side) for side in (bad, good)))
    one = math.log1p(good[0].delta)
    return moved <= max(one, min(2 * error, _NEAR * one))


def _may_be_chance(verdict: Verdict) -> bool:
    """Whether a steady run may look like this: tests of levels err, while no steady server stands still."""
    return verdict.label in _BY_CHANCE and verdict.reason.code != "stood-still"


def _chance(wrong: int, runs: int) -> float:
    """The chance that so many of the steady runs of a point, or more, are called unsteady."""
    return math.fsum(
        math.comb(runs, k) * _FALSE_ALARMS**k * (1 - _FALSE_ALARMS) ** (runs - k) for k in range(wrong, runs + 1)
    )


def _mean(trends: Sequence[Trend]) -> float:
    return math.fsum(trend.level for trend in trends) / len(trends)


def _own(run: Summary) -> bool:
    """Whether it has a fault beside not being steady."""
    return any(finding.code not in ("disturbed", "client-limit") for finding in run.disqualified)


def _label_of(runs: Sequence[Summary]) -> str:
    """The label all runs share, or "inconsistent" where some may be compared and others not."""
    labels = sorted({run.label for run in runs})
    if len(labels) == 1:
        return labels[0]
    return " / ".join(labels) if len({run.validity == "not valid" for run in runs}) == 1 else "inconsistent"


# Agreement of greedy answers between points of a study: the fidelity of a system of which only text is seen.

REFERENCE = "it is the reference: the answers of other points are compared with its own"


def greedy_agreement(reference: GreedyAnswers, runs: Sequence[GreedyAnswers], of: str) -> Estimate:
    """The share of the reference's tokens before the first difference, mean over prompts; each prompt over its runs.

    Greedy texts part for good at the first difference, so what follows it says nothing. `of`: names the reference.
    """
    shares = [
        np.mean([_alike(reference, run, place) for run in runs])
        for place, answer in enumerate(reference.answers)
        if answer is not None and answer.tokens and all(run.answers[place] is not None for run in runs)
    ]
    if not shares:
        return Estimate.absent(RATIO, "no prompt was answered by both")
    suffix = f", tokens before the first difference from {of} / tokens of its greedy answer, per prompt"
    over_prompts = mean_of_shares(shares, method=suffix)
    return replace(over_prompts, runs=1)  # an interval over prompts says nothing of other runs


def _alike(reference: GreedyAnswers, run: GreedyAnswers, place: int) -> float:
    first, second = (
        Response(each.text, "", each.tokens) for answers in (reference, run) if (each := answers.answers[place])
    )
    return compared(first, second).alike_tokens / first.tokens


def width(name: str) -> int:
    """Bits of a weight in a precision by name; 0 where nobody here knows them."""
    try:
        return BITS.get(precision(name).classes("inference").get("weights", ""), 0)
    except BadInput:
        return 0


# One metric of a point from its repeats: which rule joins it, within which bounds, and what a change could hide.

Metrics = Mapping[str, Estimate]
"""Of one run, by name."""


def provisional(
    metrics: Metrics, validity: Validity, hidden: float | None, point: dict[str, Any]
) -> dict[str, Estimate]:
    """The metrics of a run or point, those of its pace widened by what could hide where it is provisional.

    At a given rate the server decides how long a request takes, and not how many come.
    """
    if validity != "provisional":
        return dict(metrics)
    rate_is_given = point.get("rate_per_s") is not None
    return {
        name: cut(widened(each, hidden), None, _most(definition_of(name), [each]))
        if is_of_pace(name, rate_is_given=rate_is_given)
        else each
        for name, each in metrics.items()
    }


def over_repeats(name: str, runs: Sequence[Metrics], *, is_open: bool) -> Estimate:
    """One metric over the repeats of a point, from the metrics of each. `is_open`: whether arrivals came at a rate.

    A run that does not have it at all counts as absent and is not left out.
    """
    if name == "goodput_per_s" and is_open and len(runs) >= FEWEST_RUNS and (found := _goodput(runs)) is not None:
        return found
    unit = next(run[name].unit for run in runs if name in run)
    estimates = [run.get(name) or Estimate.absent(unit, "not measured in that run") for run in runs]
    if len(estimates) > 1 and (q := quantile_of(name)) is not None:
        return _of_quantiles(estimates, q)
    metric = definition_of(name)
    return over_runs(estimates, kind=metric.joins, least=metric.least, most=_most(metric, estimates))


def quantile_of(name: str) -> float | None:
    """0.99 of "ttft_s_p99"; None of what is no quantile."""
    end = name.rpartition("_p")[2]
    return int(end) / 100 if "_p" in name and end.isdigit() else None


def _of_quantiles(estimates: list[Estimate], q: float) -> Estimate:
    """A quantile over runs, of all their values together. Without these the mean of the runs' own, and no interval."""
    spreads = [each.spread for each in estimates if each.spread is not None]
    if len(spreads) == len(estimates):
        pooled = pooled_quantile(spreads, q, unit=estimates[0].unit)
        return replace(pooled, origin=weakest_origin(*(each.origin for each in estimates)), runs=len(estimates))
    found = over_runs(estimates)
    if found.level is None:
        return found
    why_not = "quantiles of short runs lie too low, and what they were read from was not kept"
    return replace(found, low=None, high=None, level=None, method="mean of the runs' quantiles", no_interval=why_not)


def _goodput(runs: Sequence[Metrics]) -> Estimate | None:
    """Goodput of an open loop over runs, from the share over runs; None where a run lacks it or had no good request."""
    pairs = [(run.get("goodput_per_s"), run.get("slo_attainment")) for run in runs]
    rates = [good.value / share.value for good, share in pairs if good and share and good.value and share.value]
    if len(rates) < len(runs):
        return None
    return good_rate_of_runs(over_repeats("slo_attainment", runs, is_open=True), rates)


def _most(metric: Metric, estimates: list[Estimate]) -> float | None:
    """The bound of a metric. A ceiling that one run was above is none: its shares have no bound."""
    return None if any(is_impossible(metric.id, estimate) for estimate in estimates) else metric.most
