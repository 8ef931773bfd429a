"""The search: candidates are proposed, raced in rounds beside the default, and decided on, one row of the ledger each.

It goes on from whatever the ledger holds. When no new candidate is left, or the budget is used up but for a part, the
leader is made simpler: each setting that it changes is taken back, and stays so where the two cannot be told apart.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from twinlens.errors import BadInput, ExecutorFailed
from twinlens.tuning.bound import Bound
from twinlens.tuning.effects import setting_effects
from twinlens.tuning.ledger import (
    Decided,
    Ledger,
    Left,
    Margin,
    Outcome,
    Phase,
    Proposed,
    Round,
    Standing,
    Started,
    Trial,
)
from twinlens.tuning.propose import Settings, key_of, proposed
from twinlens.tuning.race import Leaving, Rules, Values, decided, shared, simpler

_MOST_ABSENT = 2
"""Rounds without a value after which a candidate leaves."""
_FOR_SIMPLER = 0.2
"""The part of the budget that is kept for making the winner simpler."""
_OUTCOMES: Mapping[str, Outcome] = {
    "TL303": "failed to start", "TL304": "timed out", "TL306": "timed out", "TL309": "out of memory",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Up:
    """A candidate that is up: its run folder's name, seconds that starting it took, and the settings as observed.
    `startup_s` None: each of its rounds starts by itself, and is not timed apart."""

    run: str
    startup_s: float | None
    observed: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Seen:
    """What a candidate did in a round; `value` None with `why`. `spent_s`: wall time."""

    value: float | None
    spent_s: float
    run: str = ""
    why: str = ""


class Runner(Protocol):
    """What brings candidates up and lets them work. BadInput and ExecutorFailed that it raises are the candidate's."""

    def is_up(self, trial: Trial) -> bool:
        """Whether a candidate may work."""

    def start(self, trial: Trial) -> Up:
        """Bring a candidate up."""

    def round(self, trial: Trial, number: int, place: int) -> Seen:
        """Let it work in a round, as the `place`-th."""

    def margins(self, trial: Trial, default: Trial) -> tuple[Margin, ...]:
        """How it stands to the constraints, by all that it did so far."""

    def end(self, trial: Trial) -> float:
        """Take it down; wall seconds that took."""


Tell = Callable[[Standing, str], None]
"""Told where the search stands, and what it does now."""
Refuse = Callable[[Settings], str]
"""Why a candidate is left out before it costs anything, in one sentence; "" where it is not."""


@dataclass(frozen=True, slots=True)
class Search:
    """A search at work. `devices`: how many the candidates use."""

    bound: Bound
    ledger: Ledger
    runner: Runner
    refuse: Refuse
    tell: Tell
    devices: int = 1


def search(work: Search) -> Standing:
    """Search until the ledger says that it is over. Raises OSError where a row cannot be written, what the runner
    raises that is no fault of a candidate, and BadInput or ExecutorFailed where the default itself fails."""
    while (standing := work.ledger.standing).phase != "over":
        if standing.rounds > standing.decided:  # a round was begun
            _round(work)
            continue
        if why := _spent(work, standing):
            _next_phase(work, why)
            continue
        _fill(work)
        _bring_up(work)
        if any(trial not in (0, work.ledger.standing.leader) for trial in work.ledger.standing.racing):
            _round(work)
        elif not _may_fill(work, work.ledger.standing):
            _next_phase(work, _why_no_more(work, standing))
    return work.ledger.standing


def gains(work_bound: Bound, standing: Standing) -> Values:
    """Of each trial the log of its objective by round, larger is better."""
    of = work_bound.objective.gain
    return {trial.number: {each: of(value) for each, value in trial.values.items()} for trial in standing.trials}


def rules_of(bound: Bound) -> Rules:
    """The rules of the race that a bound declares."""
    tune = bound.tune
    return Rules(tune.slots, most_rounds=tune.most_rounds, least_gain=tune.least_gain)


# Proposals.


def _fill(work: Search) -> None:
    while len(work.ledger.standing.racing) < work.bound.tune.slots:
        standing = work.ledger.standing
        found = ({}, "default") if not standing.trials else _proposal(work, standing)
        if found is None:
            return
        settings, why = found
        number = len(standing.trials)
        work.ledger.add(Proposed(number, settings, why))
        if number and (sentence := work.refuse(settings)):
            work.ledger.add(Left(number, "left out", sentence))


def _may_fill(work: Search, standing: Standing) -> bool:
    return _proposal(work, standing) is not None


def _proposal(work: Search, standing: Standing) -> tuple[Settings, str] | None:
    tune = work.bound.tune
    if standing.phase == "simplify":
        return _simpler(work, standing)
    if standing.counted >= tune.budget.trials - _kept(work):
        return None
    values = gains(work.bound, standing)
    seen: dict[str, tuple[Settings, float | None]] = {}
    for trial in standing.trials:
        gaps = shared(values, trial.number, 0)
        seen[key_of(trial.settings)] = (trial.settings, float(gaps.mean()) if gaps.size else None)
    return proposed(work.bound.space, work.bound.default, seen, tune.sampler, tune.seed)


def _simpler(work: Search, standing: Standing) -> tuple[Settings, str] | None:
    """The leader without one of its settings, one candidate at a time; None where each was tried."""
    leader = standing.trials[standing.leader]
    if len(leader.settings) < 2 or standing.counted >= work.bound.tune.budget.trials:
        return None
    if any(trial not in (0, standing.leader) for trial in standing.racing):
        return None
    tried = {key_of(trial.settings) for trial in standing.trials if trial.why in leader.settings}
    for name in _least_first(work, standing, leader):
        without = {other: value for other, value in leader.settings.items() if other != name}
        if key_of(without) not in tried:
            return without, name
    return None


def _why_no_more(work: Search, standing: Standing) -> str:
    """Why a phase has no more candidates."""
    if standing.counted >= work.bound.tune.budget.trials - _kept(work):
        return f"its trials are used, but for {_kept(work)} that make a winner simpler"
    return "every candidate was tried" if standing.phase == "search" else "the winner is as simple as it gets"


def _kept(work: Search) -> int:
    """Trials that are kept for making the winner simpler."""
    return min(len(work.bound.space), work.bound.tune.budget.trials // 4)


def _least_first(work: Search, standing: Standing, leader: Trial) -> list[str]:
    """The settings of the leader, those that seem to matter least first."""
    found = setting_effects(standing.trials, gains(work.bound, standing), work.bound.objective.sign)
    size = {(each.setting, repr(each.value)): abs(math.log(each.ratio.value or 1.0)) for each in found}
    return sorted(leader.settings, key=lambda name: size.get((name, repr(leader.settings[name])), 0.0))


def _spent(work: Search, standing: Standing) -> str:
    """Which part of the budget is used up, in words; "" where none is."""
    budget = work.bound.tune.budget
    share = 1.0 if standing.phase == "simplify" else 1.0 - _FOR_SIMPLER
    if standing.spent_s >= share * budget.wall_h * 3600:
        return f"{standing.spent_s / 3600:.2g} of {budget.wall_h:g} wall hours are used"
    if standing.spent_s * work.devices >= share * budget.device_h * 3600:
        return f"{standing.spent_s * work.devices / 3600:.2g} of {budget.device_h:g} device hours are used"
    return ""


def _next_phase(work: Search, why: str) -> None:
    standing = work.ledger.standing
    challengers = [trial for trial in standing.racing if trial not in (0, standing.leader)]
    for number in challengers:
        _take_down(work, Left(number, "budget", why))
    if standing.phase == "search":
        work.ledger.add(Phase("simplify", why))
        return
    for number in standing.racing:
        if number not in challengers:
            _take_down(work, Left(number, "raced to the end"))
    work.ledger.add(Phase("over", why))


def _take_down(work: Search, left: Left) -> None:
    trials = work.ledger.standing.trials
    margins = work.runner.margins(trials[left.trial], trials[0]) if trials[left.trial].runs else ()
    spent_s = work.runner.end(trials[left.trial])
    work.ledger.add(replace(left, margins=margins, spent_s=spent_s))


# Rounds.


def _bring_up(work: Search) -> None:
    for number in work.ledger.standing.racing:
        trial = work.ledger.standing.trials[number]
        if work.runner.is_up(trial):
            continue
        work.tell(work.ledger.standing, "starting")
        begun_s = time.monotonic()
        try:
            up = work.runner.start(trial)
        except (BadInput, ExecutorFailed) as error:
            _failed(work, number, error, time.monotonic() - begun_s)
            continue
        work.ledger.add(Started(number, up.run, up.startup_s, up.startup_s or 0.0, up.observed))


def _round(work: Search) -> None:
    standing = work.ledger.standing
    number = standing.decided
    order = random.Random(f"{work.bound.tune.seed}/{number}").sample(standing.racing, len(standing.racing))
    for place, member in enumerate(order):
        trial = work.ledger.standing.trials[member]
        if number in trial.values or number in trial.absent:
            continue
        begun_s = time.monotonic()
        try:
            if not work.runner.is_up(trial):  # killed in mid-round, and started again
                up = work.runner.start(trial)
                work.ledger.add(Started(member, up.run, up.startup_s, up.startup_s or 0.0, up.observed))
            seen = work.runner.round(trial, number, place)
        except (BadInput, ExecutorFailed) as error:
            _failed(work, member, error, time.monotonic() - begun_s)
            continue
        value = seen.value if seen.value is not None and seen.value > 0 else None
        why = seen.why or ("" if value is not None else "its value is not above 0")
        work.ledger.add(Round(member, number, value, seen.spent_s, seen.run, why))
        work.tell(work.ledger.standing, "racing")
    _decide(work, number)


def _failed(work: Search, number: int, error: BadInput | ExecutorFailed, spent_s: float) -> None:
    """A candidate that fails has used up its trial and the time that it took; where the default does, none is tuned."""
    work.runner.end(work.ledger.standing.trials[number])
    if number == 0:
        kind = type(error)
        raise kind(f"the default, with which every candidate is compared, fails: {error}", code=error.code) from error
    outcome = "refused" if isinstance(error, BadInput) else _OUTCOMES.get(error.code, "failed")
    work.ledger.add(Left(number, outcome, str(error), spent_s=spent_s))


def _decide(work: Search, number: int) -> None:
    standing = work.ledger.standing
    racing, leader = [*standing.racing], standing.leader
    left = [
        Left(trial, "no value", f"{_MOST_ABSENT} rounds without a value")
        for trial in racing
        if trial and len(standing.trials[trial].absent) >= _MOST_ABSENT
    ]
    racing = [trial for trial in racing if trial not in {each.trial for each in left}]
    leader = leader if leader in racing else 0
    values, rules, judge = gains(work.bound, standing), rules_of(work.bound), decided
    if standing.phase == "simplify":
        judge = simpler
    if leader == 0 and _broken(work, 0):
        leader = _first_within(work, values, racing, rules)
    while True:
        found = judge(values, racing, leader, rules)
        broken = _broken(work, found.leader) if found.leader not in (leader, 0) else ()
        if not broken:
            break
        left.append(Left(found.leader, "constraint", _names(broken), margins=broken))
        racing.remove(found.leader)
    left += [_left(work, each) for each in found.leaving]
    ended = [replace(each, spent_s=work.runner.end(standing.trials[each.trial])) for each in left]
    work.ledger.add(Decided(number, found.leader, tuple(ended)))


def _first_within(work: Search, values: Values, racing: Sequence[int], rules: Rules) -> int:
    """Who leads where the default breaks a limit: the best candidate so far that keeps them all, else the default."""
    ready = [each for each in racing if each and shared(values, each, 0).size >= rules.first_look]
    within = [each for each in ready if not _broken(work, each)]
    return max(within, key=lambda each: float(shared(values, each, 0).mean()), default=0)


def _left(work: Search, leaving: Leaving) -> Left:
    trials = work.ledger.standing.trials
    margins = work.runner.margins(trials[leaving.trial], trials[0])
    return Left(leaving.trial, leaving.why, "", leaving.gap, leaving.rounds, margins)


def _broken(work: Search, number: int) -> tuple[Margin, ...]:
    """The constraints of a candidate where it breaks one; none where it breaks none, or they are not known yet."""
    trials = work.ledger.standing.trials
    margins = work.runner.margins(trials[number], trials[0])
    return margins if any(margin.keeps is False for margin in margins) else ()


def _names(margins: Sequence[Margin]) -> str:
    return ", ".join(margin.metric for margin in margins if margin.keeps is False)
