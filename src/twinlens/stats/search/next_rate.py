"""The highest rate that still meets an SLO: first bracketed, then refined. Pure: it asks for a rate or says it is done.

rule, history = SearchRule(start=1.0), []
while not isinstance(ask := next_rate(history, rule), Done):
    history.append(Trial(ask, standing(measure(ask), slo)))
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from twinlens.spec.slo import Standing

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
