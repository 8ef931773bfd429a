"""The race of candidates: after each round, who leaves and who leads, from what all did in the same rounds.

Everything is judged by log ratios within rounds, so that a machine that drifts meets both sides alike. A candidate
leaves by Wald's sequential test (1945): the likelihood of what was seen if it equals the leader, over that if it is
better by the gain worth having. One that really is better by that gain is lost with at most `error` chance, however
often anybody looks (Ville's inequality). The spread is pooled over all pairs and taken at its upper side.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.stats import chi2

Values = Mapping[int, Mapping[int, float]]
"""Of each trial the log of its objective in each round, larger is better."""
Why = Literal["not better", "overtaken", "not told apart"]
_UPPER = 0.25
"""The spread is taken where it would be exceeded in one case of four: few pairs often look too alike."""
_PASSES = 8
"""Levels of trials and of rounds are taken away in turns, which comes to their least squares."""
_TOLD_APART, _OF_SIMPLER = 1.96, 4
_WILD = 4.0
"""Spreads from the middle beyond which one round counts no further: a stall of the machine decides no race."""


@dataclass(frozen=True, slots=True)
class Rules:
    """How a race goes. `slots`: candidates at work in a round, the default and the leader among them. `first_look`,
    `most_rounds`: rounds of a candidate before it may leave, and after which it does. `error`: the chance to lose a
    candidate that is better by `least_gain`, the relative gain that is worth having."""

    slots: int = 4
    first_look: int = 3
    most_rounds: int = 12
    error: float = 0.1
    least_gain: float = 0.03


@dataclass(frozen=True, slots=True)
class Leaving:
    """A trial that leaves, and why. `gap`: its mean log ratio to the leader; `rounds`: that they shared."""

    trial: int
    why: Why
    gap: float
    rounds: int


@dataclass(frozen=True, slots=True)
class Decision:
    """Who leads after a round, and who leaves."""

    leader: int
    leaving: tuple[Leaving, ...]


def decided(values: Values, racing: Sequence[int], leader: int, rules: Rules, default: int = 0) -> Decision:
    """The decision after a round. `racing`: the trials at work, of which the default never leaves.

    A candidate that is shown to be better than the leader, or is so far after `most_rounds`, leads from then on; the
    one it overtakes leaves. Candidates are looked at in the order of their trials.
    """
    spread = pooled_spread(values)
    leaving = list[Leaving]()
    for trial in [each for each in racing if each not in (leader, default)]:
        gaps = shared(values, trial, leader)
        if gaps.size < rules.first_look:
            continue
        mean, evidence = float(gaps.mean()), _evidence(gaps, spread, math.log1p(rules.least_gain))
        over = gaps.size >= rules.most_rounds
        if evidence >= -math.log(rules.error) or (over and mean > 0):
            if leader != default:
                leaving.append(Leaving(leader, "overtaken", -mean, gaps.size))
            leader = trial
        elif evidence <= math.log(rules.error):
            leaving.append(Leaving(trial, "not better", mean, gaps.size))
        elif over:
            leaving.append(Leaving(trial, "not told apart", mean, gaps.size))
    return Decision(leader, tuple(leaving))


def simpler(values: Values, racing: Sequence[int], leader: int, rules: Rules, default: int = 0) -> Decision:
    """The decision after a round in which candidates leave out a setting of the leader: one leads from then on where it
    is not worse by the gain worth having, or cannot be told from the leader after `most_rounds`.

    A leader of several settings meets several such candidates, and each may wrongly lead: so the chance is smaller.
    """
    spread, gain, error = pooled_spread(values), math.log1p(rules.least_gain), rules.error / _OF_SIMPLER
    for trial in [each for each in racing if each not in (leader, default)]:
        gaps = shared(values, trial, leader)
        if gaps.size < rules.first_look:
            continue
        mean, worse = float(gaps.mean()), _evidence(-gaps, spread, gain)
        alike = gaps.size >= rules.most_rounds and mean >= -min(gain / 2, _TOLD_APART * spread / math.sqrt(gaps.size))
        if worse <= math.log(error) or alike:
            return Decision(trial, (Leaving(leader, "not told apart", -mean, gaps.size),))
        if worse >= -math.log(error) or gaps.size >= rules.most_rounds:
            return Decision(leader, (Leaving(trial, "not better", mean, gaps.size),))
    return Decision(leader, ())


def shared(values: Values, trial: int, other: int) -> np.ndarray:
    """Log ratios of a trial to another in the rounds that both had [rounds]."""
    mine, theirs = values.get(trial, {}), values.get(other, {})
    return np.array([mine[each] - theirs[each] for each in sorted(mine.keys() & theirs.keys())])


def pooled_spread(values: Values) -> float:
    """The standard deviation of one log ratio between two trials of a round, from what is left of each round and trial
    when their own levels are taken away; its upper side. Infinite below four degrees of freedom."""
    trials = {trial: row for trial, row in values.items() if len(row) > 1}
    rounds = {each: place for place, each in enumerate(sorted({each for row in trials.values() for each in row}))}
    freedom = sum(map(len, trials.values())) - len(trials) - len(rounds) + 1
    if len(trials) < 2 or freedom < 4:
        return math.inf
    of_trial = np.repeat(np.arange(len(trials)), [len(row) for row in trials.values()])
    of_round = np.array([rounds[each] for row in trials.values() for each in row])
    seen = np.array([value for row in trials.values() for value in row.values()])
    counts = np.bincount(of_trial), np.bincount(of_round)
    for _ in range(_PASSES):  # what is wild lifts the levels of its trial and round, so both are found again without it
        rest = seen
        for _ in range(_PASSES):
            rest = rest - (np.bincount(of_trial, rest) / counts[0])[of_trial]
            rest = rest - (np.bincount(of_round, rest) / counts[1])[of_round]
        limit = _WILD * 1.4826 * float(np.median(np.abs(rest)))
        kept = np.clip(rest, -limit, limit) if limit > 0 else rest
        if (kept == rest).all():
            break
        seen = seen - rest + kept
    return math.sqrt(2 * float(kept @ kept) / float(chi2.ppf(_UPPER, freedom)))


def _evidence(gaps: np.ndarray, spread: float, gain: float) -> float:
    """The log likelihood ratio of "better by `gain`" against "equal", of gaps with this spread."""
    if not 0 < spread < math.inf:
        return 0.0 if spread else math.copysign(math.inf, float(gaps.mean()) - gain / 2)
    middle = float(np.median(gaps))
    kept = np.clip(gaps, middle - _WILD * spread, middle + _WILD * spread)
    return float((gain * kept - gain * gain / 2).sum()) / (spread * spread)
