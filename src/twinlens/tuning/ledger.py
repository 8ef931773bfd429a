"""The ledger of a tuning: what was proposed, begun, seen in each round and decided, as rows that are only appended.

One JSON object a line, on disk before the next thing happens: a kill loses at most the line that was being written,
which is dropped when the ledger is read again.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from twinlens.errors import BadInput
from twinlens.record.codec import OPTIONAL, decode, encode
from twinlens.system import json_lines
from twinlens.system.document import json_of

FILE = "ledger.jsonl"
Outcome = Literal[
    "not better", "overtaken", "not told apart", "constraint", "left out", "refused", "failed to start",
    "out of memory", "timed out", "failed", "no value", "budget", "raced to the end",
]  # fmt: skip
"""How a trial ended. `left out`: before anything was started; `raced to the end`: the default and the winner."""
COSTS_NOTHING = ("left out",)
"""Outcomes before which nothing was started: they use up no trial of the budget."""


@dataclass(frozen=True, slots=True)
class Begun:
    """The first row: the bound by its hash, and the version that searched."""

    bound: str
    twinlens: str
    at_utc: str
    event: Literal["begun"] = "begun"


@dataclass(frozen=True, slots=True)
class Proposed:
    """A candidate. `settings`: by short name, empty for the default; `why`: default, tpe, random, grid, or the setting
    of the leader that it takes back."""

    trial: int
    settings: Mapping[str, Any]
    why: str
    event: Literal["proposed"] = "proposed"


@dataclass(frozen=True, slots=True)
class Started:
    """A candidate is up. `run`: the name of its run folder, `observed`: what its executor says of the settings."""

    trial: int
    run: str
    startup_s: float | None
    spent_s: float
    observed: Mapping[str, Any] = field(default_factory=dict, metadata=OPTIONAL)
    event: Literal["started"] = "started"


@dataclass(frozen=True, slots=True)
class Round:
    """What a candidate did in a round; None where it had no value, and why. `value`: in the unit of the objective, or
    where candidates take turns, steps, batches or requests per second, whose ratios are those of the objective."""

    trial: int
    round: int
    value: float | None
    spent_s: float
    run: str = ""
    why: str = ""
    event: Literal["round"] = "round"


@dataclass(frozen=True, slots=True)
class Margin:
    """A constraint, the value that a candidate had, with its interval, and whether it keeps the limit."""

    metric: str
    limit: float
    value: float | None
    low: float | None
    high: float | None
    keeps: bool | None
    why: str = ""


@dataclass(frozen=True, slots=True)
class Left:
    """A trial is over. `gap`: its log ratio to the leader over the `rounds` that they shared."""

    trial: int
    outcome: Outcome
    why: str = ""
    gap: float | None = None
    rounds: int = 0
    margins: tuple[Margin, ...] = ()
    spent_s: float = 0.0
    event: Literal["left"] = "left"


@dataclass(frozen=True, slots=True)
class Decided:
    """A round is over: who leads, and who left, in one row, so that a kill leaves no half of a decision."""

    round: int
    leader: int
    left: tuple[Left, ...] = ()
    event: Literal["decided"] = "decided"


@dataclass(frozen=True, slots=True)
class Phase:
    """From here on the leader is made simpler, or the search is over, and why."""

    phase: Literal["simplify", "over"]
    why: str
    event: Literal["phase"] = "phase"


Entry = Begun | Proposed | Started | Round | Left | Decided | Phase
_KINDS: Mapping[str, type[Entry]] = {
    "begun": Begun, "proposed": Proposed, "started": Started, "round": Round, "left": Left,
    "decided": Decided, "phase": Phase,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Trial:
    """A candidate, folded from its rows. `values`: of the objective by round, `absent`: rounds without one; `outcome`
    None: it races still."""

    number: int
    settings: Mapping[str, Any]
    why: str
    values: Mapping[int, float] = field(default_factory=dict)
    absent: tuple[int, ...] = ()
    runs: tuple[str, ...] = ()
    startup_s: float | None = None
    spent_s: float = 0.0
    observed: Mapping[str, Any] = field(default_factory=dict)
    outcome: Outcome | None = None
    reason: str = ""
    gap: float | None = None
    margins: tuple[Margin, ...] = ()

    @property
    def round_s(self) -> float:
        """Wall time of one of its rounds, on average; 0.0 where it has none."""
        rounds = len(self.values) + len(self.absent)
        return max(0.0, self.spent_s - (self.startup_s or 0.0)) / rounds if rounds else 0.0


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a tuning stands, folded from its ledger. `rounds`: begun so far, of which `decided` are over; `spent_s`:
    wall time at work. `why_over`: why no more candidates were proposed."""

    bound: str = ""
    trials: tuple[Trial, ...] = ()
    leader: int = 0
    rounds: int = 0
    decided: int = 0
    spent_s: float = 0.0
    phase: Literal["search", "simplify", "over"] = "search"
    why_over: str = ""

    @property
    def racing(self) -> tuple[int, ...]:
        """The trials that are at work."""
        return tuple(trial.number for trial in self.trials if trial.outcome is None)

    @property
    def counted(self) -> int:
        """Trials that the budget has paid for."""
        return sum(trial.outcome not in COSTS_NOTHING for trial in self.trials)


def folded(standing: Standing, entry: Entry) -> Standing:
    """The standing after one more row."""
    match entry:
        case Begun():
            return replace(standing, bound=entry.bound)
        case Proposed():
            trial = Trial(entry.trial, entry.settings, entry.why)
            return replace(standing, trials=(*standing.trials, trial))
        case Decided():
            for left in entry.left:
                standing = _of_trial(standing, left)
            return replace(standing, leader=entry.leader, decided=entry.round + 1)
        case Phase():
            return replace(standing, phase=entry.phase, why_over=standing.why_over or entry.why)
    return _of_trial(standing, entry)


def _of_trial(standing: Standing, entry: Started | Round | Left) -> Standing:
    trial = standing.trials[entry.trial]
    if isinstance(entry, Started):
        now = replace(
            trial, runs=(*trial.runs, *filter(None, [entry.run])), startup_s=_sum(trial.startup_s, entry.startup_s),
            spent_s=trial.spent_s + entry.spent_s, observed=entry.observed or trial.observed,
        )  # fmt: skip
    elif isinstance(entry, Round):
        seen = trial.values if entry.value is None else {**trial.values, entry.round: entry.value}
        runs = (*trial.runs, entry.run) if entry.run and entry.run not in trial.runs else trial.runs
        absent = trial.absent if entry.value is not None else (*trial.absent, entry.round)
        now = replace(trial, values=seen, absent=absent, runs=runs, spent_s=trial.spent_s + entry.spent_s)
    else:
        now = replace(
            trial, outcome=entry.outcome, reason=entry.why, gap=entry.gap, margins=entry.margins or trial.margins,
            spent_s=trial.spent_s + entry.spent_s,
        )  # fmt: skip
    trials = (*standing.trials[: trial.number], now, *standing.trials[trial.number + 1 :])
    if isinstance(entry, Left) and entry.trial == standing.leader and entry.outcome != "raced to the end":
        standing = replace(standing, leader=0)
    rounds = max(standing.rounds, entry.round + 1) if isinstance(entry, Round) else standing.rounds
    return replace(standing, trials=trials, spent_s=standing.spent_s + entry.spent_s, rounds=rounds)


def _sum(before: float | None, more: float | None) -> float | None:
    """Starts so far; None where none was timed by itself."""
    return before if more is None else more + (before or 0.0)


def fold(entries: Iterable[Entry]) -> Standing:
    """The standing after all rows."""
    standing = Standing()
    for entry in entries:
        standing = folded(standing, entry)
    return standing


class Ledger:
    """The ledger of one folder, open for more rows. `standing`: after those it has."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE
        entries, whole = _read(self.path)
        if self.path.exists() and whole < self.path.stat().st_size:
            os.truncate(self.path, whole)
        self.standing = fold(entries)
        self.is_new = not entries

    def add(self, entry: Entry) -> None:
        """Append a row and wait until it is on disk. Raises OSError where there is no room for it."""
        json_lines.append(self.path, encode(entry))
        self.standing = folded(self.standing, entry)


def read_ledger(folder: Path) -> tuple[Entry, ...]:
    """The rows of a tuning's folder, without a last one that is not whole. Raises BadInput (TL205)."""
    if not (folder / FILE).exists():
        raise BadInput(f"{str(folder)!r} is not a tuning: it has no {FILE}", code="TL205")
    return _read(folder / FILE)[0]


def _read(path: Path) -> tuple[tuple[Entry, ...], int]:
    """The whole rows of a ledger, and where they end [bytes]; none of a file that is not there."""
    if not path.exists():
        return (), 0
    whole, entries = 0, list[Entry]()
    for number, line in enumerate(path.read_bytes().splitlines(keepends=True), start=1):
        if not line.endswith(b"\n"):
            break
        try:
            data = json_of(line.decode())
            entries.append(decode(_KINDS[data["event"]], data))
        except (ValueError, KeyError, TypeError) as error:
            raise BadInput(f"line {number} of {path} cannot be read ({error}); restore it", code="TL205") from None
        whole += len(line)
    return tuple(entries), whole
