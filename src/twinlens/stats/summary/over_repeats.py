"""One metric of a point from its repeats: which rule joins it, within which bounds, and what a change could hide."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from twinlens.record.estimate import Estimate
from twinlens.record.finding import Validity
from twinlens.stats.estimator.pooled import pooled_quantile
from twinlens.stats.estimator.repeats import FEWEST_RUNS, cut, over_runs, weakest
from twinlens.stats.estimator.widened import widened
from twinlens.stats.metrics.definition import Metric, definition_of, is_impossible, is_of_pace
from twinlens.stats.serving.goodput import good_rate_of_runs

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
        return replace(pooled, origin=weakest(*(each.origin for each in estimates)), runs=len(estimates))
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
