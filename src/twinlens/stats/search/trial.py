"""Trials of a search: how each rate went, and the rate to try next."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal

from twinlens.record.beside import TrialVerdict, Tried
from twinlens.record.estimate import Estimate
from twinlens.record.finding import Finding
from twinlens.spec.slo import Search, Slo, Standing
from twinlens.stats.estimator.repeats import binomial_bounds
from twinlens.stats.search.limit import highest, more_runs, next_by_curve
from twinlens.stats.serving.goodput import slo_standing
from twinlens.stats.summary.group import Summary
from twinlens.units import RATIO

# Latency that was still rising, and a run too short to say: neither shows that a value can be kept up.
_NO_PASS = ("drift", "slowdown", "too short")
_LOOK = 0.99  # of an interval that ends a search early: it ends at the first of some looks that seems narrow
_NEAR_LIMIT = 3  # values of one search that a run may mistake for the other side of the limit


def judged(
    summary: Summary, slo: Slo, search: Search, before: Sequence[Tried] = ()
) -> tuple[TrialVerdict, Finding, dict[str, tuple[float, int]]]:
    """How a value stands to the SLO after a finished run, why, and the run's shares. `before`: its earlier runs.

    A growing backlog fails whatever the latencies were until the run ended. What the client was too slow for says
    nothing of the server. A run that got slower as it went, or is too short to tell, cannot pass. All runs of a value
    are judged as one, so another run is no second chance; that one looks `tries` times, at a few values so near the
    limit that each may err, is paid for (Bonferroni).
    """
    label, own = summary.verdict.label, _known(summary.metrics, slo)
    if label == "invalid":
        return "invalid", summary.verdict.reason, {}
    if label == "overload":
        return "fail", _labelled(summary), own
    valid = [earlier for earlier in before if earlier.verdict not in ("invalid", "failed")]
    shares = pooled([*(earlier.shares for earlier in valid if earlier.shares), own])
    verdict = slo_standing(shares, slo, 1 - (1 - CONFIDENCE) / (_NEAR_LIMIT * search.tries))
    if verdict == "pass" and label in _NO_PASS:
        return "inconclusive", _labelled(summary), own
    why = _within(shares, slo, len(valid) + 1)
    if verdict == "pass" and any(earlier.label == "overload" for earlier in valid):
        return "inconclusive", Finding("overload-before", "notes", because=(why,)), own
    return verdict, why, own


def pooled(runs: Sequence[Mapping[str, tuple[float, int]]]) -> dict[str, Estimate]:
    """The shares of several runs as one, under their metrics' ids: hits and independent requests are summed."""
    shares = {}
    for name in dict.fromkeys(name for run in runs for name in run):
        known = [run[name] for run in runs if name in run]
        n = sum(count for _, count in known)
        value = sum(share * count for share, count in known) / n
        low, high = binomial_bounds(value, n, CONFIDENCE)
        low, high = min(low, value), max(high, value)
        shares[f"{name}_within"] = Estimate(value, RATIO, "runs as one", "derived", low, high, CONFIDENCE, n)
    return shares


def rule_of(search: Search) -> SearchRule:
    """The rule of `stats.search` that a spec asks for."""
    least, most = search.bounds()
    start = search.rounded(search.start)
    return SearchRule(start, search.width, search.most_points, search.tries, least=least, most=most)


def next_value(tried: Sequence[Tried], search: Search, slo: Slo) -> float | Done:
    """The next value to measure, rounded so that people can read it, or the answer.

    Where the runs' verdicts bracket the limit narrowly, that is the answer; otherwise the curve through all runs says
    what is known and what to measure (`stats.search.limit`), and the verdicts where it has nothing to say.
    """
    done = so_far(tried, search, slo)
    if done.outcome == "narrow" or len(tried) >= search.most_points:
        return done
    ask = _by_verdicts(tried, search)
    if isinstance(ask, Done) and ask.outcome in ("narrow", "none", "all"):
        return ask
    asked = next_by_curve(tried, search, slo)
    if asked is not None:
        return search.rounded(asked)
    return replace(done, outcome=ask.outcome) if isinstance(ask, Done) else ask


def so_far(tried: Sequence[Tried], search: Search, slo: Slo) -> Done:
    """The result if no further run follows: what the curve says, or the verdicts where it says nothing."""
    known = _history(tried)
    if not known:
        return Done(None, None, "budget", 0)
    done = next_rate(known, replace(rule_of(search), most_trials=len(known)))
    assert isinstance(done, Done)
    is_last = len(tried) >= search.most_points
    found = highest(tried, search, slo, CONFIDENCE if is_last else _LOOK)
    if found is None:
        return done
    low, high = found
    if high <= low * (1 + search.width):
        return replace(done, low=low, high=high, outcome="narrow")
    more = more_runs(tried, search, slo, found)
    more_s = more * sum(one.took_s for one in tried) / len(tried)
    return replace(done, low=low, high=high, outcome="budget", more=(more, more_s))


def _by_verdicts(tried: Sequence[Tried], search: Search) -> float | Done:
    rule, history = rule_of(search), _history(tried)
    ask = next_rate(history, rule)
    if isinstance(ask, Done):
        return ask
    value = search.rounded(ask)
    measured = {trial.value for trial in tried}
    if value in measured and ask not in measured:  # no value lies between two neighbours: they are as narrow as can be
        done = next_rate(history, replace(rule, width=math.inf))
        return done if isinstance(done, Done) else Done(None, None, "budget", len(history))
    return value


def answer(done: Done, search: Search, code: str = "", **numbers: float | str) -> Finding:
    """The interval and why it is the answer, as data: `code`, or that of the outcome."""
    known: dict[str, float | str | None] = {"low": done.low, "high": done.high, "unit": search.unit}
    if done.more:
        known |= {"most_points": done.trials + done.more[0], "more_s": done.more[1], "width": search.width}
    return Finding(code or f"search-{done.outcome}", "notes", "", {**known, **numbers})


def _history(tried: Sequence[Tried]) -> list[Trial]:
    """The history for the rule: each value's last verdict, which rests on all its runs. An invalid client says none."""
    last = {trial.value: place for place, trial in enumerate(tried) if trial.verdict not in ("invalid", "failed")}
    standings: dict[TrialVerdict, Standing] = {"pass": "pass", "fail": "fail"}
    return [
        Trial(
            trial.value,
            standings.get(trial.verdict, "inconclusive") if last.get(trial.value) == place else "inconclusive",
        )
        for place, trial in enumerate(tried)
    ]


def _known(metrics: Mapping[str, Estimate], slo: Slo) -> dict[str, tuple[float, int]]:
    """The share within each limit, and how many independent requests it rests on."""
    shares = {name: metrics.get(f"{name}_within") for name in slo.limits()}
    return {
        name: (share.value, share.n) for name, share in shares.items() if share and share.value is not None and share.n
    }


def _labelled(summary: Summary) -> Finding:
    """The label decides, with the reason of its own."""
    return Finding("label-decides", "notes", "", {"label": summary.verdict.label}, because=(summary.verdict.reason,))


def _within(shares: Mapping[str, Estimate], slo: Slo, runs: int) -> Finding:
    """The share of requests within each limit, with its interval: what the verdict rests on."""
    limits = []
    for name, limit in slo.limits().items():
        share = shares.get(f"{name}_within")
        bounds = {"share": share.value, "low": share.low, "high": share.high} if share else {}
        limits.append({"limit": name, "limit_s": limit, "share": None, "low": None, "high": None} | bounds)
    return Finding("slo-shares", "notes", "", {"limits": limits, "quantile": slo.quantile, "runs": runs})


# The highest rate that still meets an SLO: first bracketed, then refined. Pure: it asks for a rate or says it is done.
#
# rule, history = SearchRule(start=1.0), []
# while not isinstance(ask := next_rate(history, rule), Done):
# history.append(Trial(ask, standing(measure(ask), slo)))

# Of an answer: each of its ends is wrong in at most one search in forty, so both together in one in twenty.
CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Trial:
    """One operating point that was measured, and how it stands to the SLO."""

    rate_per_s: float
    standing: Standing


@dataclass(frozen=True, slots=True)
class SearchRule:
    """`start`: where to begin. `width`: the interval is narrow enough when high ≤ low · (1 + width).

    `most_trials`: the whole budget. `tries`: how often one rate is measured while it stays inconclusive.
    `factor`: between rates while bracketing. `least`, `most`: never below or above these.
    """

    start: float
    width: float = 0.05
    most_trials: int = 16
    tries: int = 2
    factor: float = 2.0
    least: float = 1e-3
    most: float = 1e6

    def __post_init__(self) -> None:
        if not (0 < self.least <= self.start <= self.most and self.width > 0 and self.factor > 1):
            raise ValueError("a search needs 0 < least <= start <= most, a width above 0 and a factor above 1")
        if self.most_trials < 1 or self.tries < 1:
            raise ValueError("a search needs at least one trial, and one try for each rate")


SearchEnd = Literal["narrow", "unclear", "budget", "none", "all"]


@dataclass(frozen=True, slots=True)
class Done:
    """The highest rate that meets the SLO lies in [low, high), with `CONFIDENCE`.

    `low`: the highest rate that passed below every one that failed, None where none did. `high`: the lowest rate that
    failed, None where none did. `outcome`: narrow (the interval is narrow enough); unclear (the rates inside it cannot
    be told from the limit at this run length: measure longer); budget (spent first); none (even the least rate
    fails); all (even the most passes). `more`: trials that are expected to make
    it narrow, and their seconds; None where not known.
    """

    low: float | None
    high: float | None
    outcome: SearchEnd
    trials: int
    more: tuple[int, float] | None = None


def next_rate(history: Sequence[Trial], rule: SearchRule) -> float | Done:
    """The next rate to measure, or the answer. Depends on nothing but its arguments."""
    rates = _verdicts(history)
    again = _to_repeat(history, rates, rule)
    low, high = _bracket(rates)
    ask = again if again is not None else _fresh(rates, low, high, rule)
    if isinstance(ask, str):
        return Done(low, high, ask, len(history))
    if len(history) >= rule.most_trials:
        return Done(low, high, "budget", len(history))
    return ask


def pareto(points: Sequence[tuple[float, float]]) -> tuple[int, ...]:
    """Indexes of the points that no other beats in one coordinate without losing in the other, by falling first one.

    For (tokens/s/device, tokens/s/user): more of both is better. Of equal points the first stands for all.
    """
    order = sorted(range(len(points)), key=lambda i: (-points[i][0], -points[i][1], i))
    kept: list[int] = []
    for index in order:
        if not kept or points[index][1] > points[kept[-1]][1]:
            kept.append(index)
    return tuple(kept)


def _verdicts(history: Sequence[Trial]) -> dict[float, Standing]:
    """One verdict a rate: what most of its trials that were clear say; inconclusive where they cancel out."""
    balance: dict[float, int] = {}
    for trial in history:
        step = {"pass": 1, "fail": -1, "inconclusive": 0}[trial.standing]
        balance[trial.rate_per_s] = balance.get(trial.rate_per_s, 0) + step
    return {
        rate: "pass" if sum_ > 0 else "fail" if sum_ < 0 else "inconclusive" for rate, sum_ in sorted(balance.items())
    }


def _bracket(rates: dict[float, Standing]) -> tuple[float | None, float | None]:
    """The lowest failing rate, and the highest passing one below it."""
    high = min((rate for rate, standing in rates.items() if standing == "fail"), default=None)
    passing = (rate for rate, standing in rates.items() if standing == "pass" and (high is None or rate < high))
    return max(passing, default=None), high


def _to_repeat(history: Sequence[Trial], rates: dict[float, Standing], rule: SearchRule) -> float | None:
    """A rate to measure once more: one that is unclear, or a failure below a pass, which a noisy run may be."""
    counts = {rate: sum(trial.rate_per_s == rate for trial in history) for rate in rates}
    best = max((rate for rate, standing in rates.items() if standing == "pass"), default=None)
    for rate, standing in rates.items():
        doubtful = standing == "inconclusive" or (standing == "fail" and best is not None and rate < best)
        if doubtful and counts[rate] < rule.tries:
            return rate
    return None


def _fresh(rates: dict[float, Standing], low: float | None, high: float | None, rule: SearchRule) -> float | SearchEnd:
    """A rate that was not measured yet, or why there is none to ask for."""
    if not rates:
        return rule.start
    if high is None:
        top = max(rates)
        return min(rule.most, top * rule.factor) if top < rule.most else ("all" if low == top else "unclear")
    if low is None:
        bottom = min(rates)
        return (
            max(rule.least, bottom / rule.factor) if bottom > rule.least else ("none" if high == bottom else "unclear")
        )
    marks = [rate for rate in rates if low <= rate <= high]
    gaps = [(upper / lower, lower, upper) for lower, upper in pairwise(marks)]
    ratio, lower, upper = max(gaps)
    if ratio > 1 + rule.width:
        return math.sqrt(lower * upper)
    return "narrow" if len(gaps) == 1 else "unclear"
