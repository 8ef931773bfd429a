"""Runners bring candidates up and let them work: all up together and taking turns, or each round a run of its own."""

from __future__ import annotations

import math
import secrets
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from twinlens.errors import BadInput, ExecutorFailed
from twinlens.measurement.search import measure_search
from twinlens.measurement.server.shared import SharedServer
from twinlens.measurement.study import measure_one
from twinlens.measurement.summary_file import store_summary
from twinlens.measurement.turns.conductor import Member
from twinlens.record.beside import read_search
from twinlens.record.codec import encode
from twinlens.record.column import Pairing
from twinlens.record.run import Run
from twinlens.record.sections import Role, Tuned
from twinlens.record.store import read_run, update_run
from twinlens.tuning.bound import WITHIN_SLO, Bound
from twinlens.tuning.ledger import Margin, Trial
from twinlens.tuning.margin import margins_of
from twinlens.tuning.search import Seen, Up

Phrase = Callable[[str], None]
_OVER = "the candidate left the race"


@dataclass(slots=True)
class InTurns:
    """Candidates that are up together, each in a process of its own, of which one works at any moment.

    All slices have as many steps, batches or requests as the default's warm-up needed for `protocol.slice_s`.
    """

    bound: Bound
    folder: Path
    phrase: Phrase
    _up: dict[int, Member] = field(default_factory=dict)
    _pairing: str = field(default_factory=lambda: secrets.token_hex(4))
    _size: int | None = None

    def is_up(self, trial: Trial) -> bool:
        return trial.number in self._up

    def start(self, trial: Trial) -> Up:
        begun_s = time.monotonic()
        spec = self.bound.spec(trial.settings)
        turns = {"pairing": "slices", "ceilings": False, "guards": False}
        spec = spec.model_copy(update={"protocol": spec.protocol.model_copy(update=turns)})
        member = Member(self.folder, spec, Pairing(self._pairing, self.bound.tune.slots, spec.protocol.slice_s))
        try:
            member.opened(lambda spec, phrase, share, rows: self.phrase(phrase))
            member.turn(-1 - trial.number, self._size)
            observed = observed_of(self.bound, read_run(member.run))
        except BaseException:
            member.abandoned(_OVER)
            raise
        self._size = self._size or member.size
        self._up[trial.number] = member
        mark(member.run, self.bound, trial.settings)
        return Up(member.run.name, time.monotonic() - begun_s, observed)

    def round(self, trial: Trial, number: int, place: int) -> Seen:
        member, begun_s = self._up[trial.number], time.monotonic()
        rate = member.turn(number * self.bound.tune.slots + place, self._size)
        return Seen(rate, time.monotonic() - begun_s, member.run.name)

    def margins(self, trial: Trial, default: Trial) -> tuple[Margin, ...]:
        return margins_of(self.bound.tune, _runs(self.folder, trial)[-1:], _runs(self.folder, default)[-1:])

    def end(self, trial: Trial) -> float:
        member, begun_s = self._up.pop(trial.number, None), time.monotonic()
        if member is None:
            return 0.0
        if member.is_gone:
            member.abandoned(_OVER)
            return 0.0
        with suppress(BadInput, ExecutorFailed):  # what a run ends with is written in its folder
            member.end()
            member.ended()
            store_summary(read_run(member.run))
        return time.monotonic() - begun_s

    def close(self) -> None:
        """Stop all that is up, whatever it does."""
        for member in self._up.values():
            member.abandoned("the tuning ended before it")
        self._up.clear()


@dataclass(slots=True)
class InRuns:
    """Candidates of which each round is a run in a fresh process, or a search for the highest rate within the SLO."""

    bound: Bound
    folder: Path
    phrase: Phrase
    servers: SharedServer
    _up: set[int] = field(default_factory=set)

    def is_up(self, trial: Trial) -> bool:
        return trial.number in self._up

    def start(self, trial: Trial) -> Up:
        self._up.add(trial.number)
        return Up("", None, {})

    def round(self, trial: Trial, number: int, place: int) -> Seen:
        begun_s = time.monotonic()
        if self.bound.objective.metric == WITHIN_SLO:
            return self._searched(trial, number, begun_s)
        spec = self.bound.spec(trial.settings, number)
        server = self.servers.of(spec, self.phrase)
        place_of = measure_one(self.folder, spec, lambda phrase, share, rows: self.phrase(phrase), server)
        mark(place_of, self.bound, trial.settings)
        estimate = store_summary(read_run(place_of)).metrics.get(self.bound.objective.metric)
        spent_s = time.monotonic() - begun_s
        if estimate is None or estimate.value is None:
            why = "the run does not have it" if estimate is None else estimate.lacks
            return Seen(None, spent_s, place_of.name, why or "")
        return Seen(estimate.value, spent_s, place_of.name)

    def _searched(self, trial: Trial, number: int, begun_s: float) -> Seen:
        """The highest rate within the SLO, by a search in a folder of its own."""
        study = self.bound.study
        paths = {self.bound.space[name][0].path: (value,) for name, value in trial.settings.items()}
        protocol = study.protocol.model_copy(update={"seed": study.protocol.seed + 1 + number})
        one = study.model_copy(update={"tune": None, "sweep": paths, "protocol": protocol, "name": study.name[:40]})
        self.servers.stop()
        outcome = measure_search(one, self.folder / f"trial-{trial.number}", lambda event: self.phrase(event.phrase))
        found = highest_rate(outcome.folder)
        why = "" if found is not None else "the search found no interval"
        return Seen(found, time.monotonic() - begun_s, f"trial-{trial.number}/{outcome.folder.name}", why)

    def margins(self, trial: Trial, default: Trial) -> tuple[Margin, ...]:
        return margins_of(self.bound.tune, _runs(self.folder, trial), _runs(self.folder, default))

    def end(self, trial: Trial) -> float:
        return 0.0

    def close(self) -> None:
        """Stop the server that is up, if any."""
        self.servers.stop()


def _runs(folder: Path, trial: Trial) -> list[Run]:
    """The runs of a trial that can be read and have rows."""
    found = [read_run(folder / name) for name in trial.runs if (folder / name / "run.json").exists()]
    return [run for run in found if run.table.num_rows]


def mark(run: Path, bound: Bound, settings: Mapping[str, Any], role: Role = "candidate") -> None:
    """Write into a run what it was in the tuning, so that a comparison knows of it."""
    update_run(run, tuned=encode(Tuned(bound.hash, role, bound.terms, settings)))


def observed_of(bound: Bound, run: Run) -> dict[str, Any]:
    """What the executor says of the settings of the space, by short name; those it says nothing of are not there.

    Raises BadInput (TL262) where it runs with other values than were asked.
    """
    facts = run.facts
    if facts is None:
        return {}
    wrong = next((each for each in facts.findings if each.code == "switch-differs"), None)
    if wrong is not None:
        ran, wanted = wrong.numbers.get("observed"), wrong.numbers.get("asked")
        raise BadInput(f"the server runs with {wrong.subject} = {ran} where {wanted} was asked", code="TL262")
    known = {name: facts.executor.value(f"serving.{name}") for name in bound.space}
    return {name: value for name, value in known.items() if value is not None}


def highest_rate(folder: Path) -> float | None:
    """The highest rate within the SLO that a search found: the middle of its interval, by ratio. None where it
    has no interval, as no rate was within the SLO or the search ended before it was narrow."""
    record = read_search(folder)
    found = record.results[0] if record is not None and record.results else None
    if found is None or found.low is None or found.high is None:
        return None
    return math.sqrt(found.low * found.high)
