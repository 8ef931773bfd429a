"""The highest rate that meets an SLO: one run after another, each where the ones before say that it tells most."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from twinlens.errors import BadInput, ExecutorFailed, Interrupted
from twinlens.measurement.event import Watch, phrases, telling
from twinlens.measurement.preflight.refuse import preflight
from twinlens.measurement.search_from_rows import tried_of
from twinlens.measurement.server.shared import SharedServer, shared_server
from twinlens.measurement.study import Outcome, measure_one
from twinlens.measurement.study_folder import held_folder
from twinlens.measurement.summary_file import store_summary
from twinlens.measurement.take_rows import SayProgress
from twinlens.record.beside import SearchRecord, SearchResult, Tried, read_search, write_search
from twinlens.record.finding import Finding
from twinlens.record.run import Run, Runs
from twinlens.record.store import end_study, find_runs, is_ended, read_run, read_study, update_run
from twinlens.spec.consistency import refuse_unsearchable
from twinlens.spec.slo import Search, Slo
from twinlens.spec.study import RunSpec, Study
from twinlens.spec.workload.workload import InferenceWorkload
from twinlens.stats.search.trial import Done, answer, next_value, so_far

Now = Callable[[], float]
TellsTrial = Callable[[int, RunSpec, Done], SayProgress]
"""The progress of a trial: its number from 1, its run, and what the search knows so far."""


def measure_search(
    study: Study,
    out: Path,
    watch: Watch = lambda event: None,
    *,
    fresh: bool = False,
    shown: bool = True,
    now_s: Now = time.monotonic,
) -> Outcome:
    """Search at each point of the sweep, and write search.json after every run.

    An unfinished search of the same spec under `out` is resumed, unless `fresh`: its finished runs are asked for
    again in the same order and not measured again. `shown` as of `measure_study`. Raises BadInput and Interrupted.
    """
    search, slo = _asked(study)
    preflight(study)
    with held_folder(study, out, unfinished_search, fresh=fresh) as folder:
        outcome = _searched(study, search, slo, folder, watch, now_s)
        if shown:
            end_study(folder)
    return outcome


def _searched(study: Study, search: Search, slo: Slo, folder: Path, watch: Watch, now_s: Now) -> Outcome:
    known = {run.spec.fingerprint(): run for run in _finished(folder)}
    not_begun = Finding("search-not-begun", "notes")
    results = [SearchResult(where, (), None, None, "running", not_begun) for where in study.points()]
    failures: list[ExecutorFailed] = []
    with shared_server(folder) as servers:
        asked = _Asked(study, search, slo, folder, known, servers, now_s)
        for place, where in enumerate(study.points()):

            def keep(so_far: SearchResult, place: int = place) -> None:
                results[place] = so_far
                write_search(SearchRecord(folder, search, slo, tuple(results)))

            way = _Way(asked, where, _telling(watch, search, place, len(results)), keep)
            try:
                keep(way.walk())
            except ExecutorFailed as error:
                failures.append(error)
            except KeyboardInterrupt:  # while a server was starting: no run has begun
                sentence = f"interrupted; what was measured is kept in {folder}; run it again to go on"
                raise Interrupted(sentence) from None
    return Outcome(folder, Runs.of(find_runs(folder)), len(known), tuple(failures))


def unfinished_search(study: Study, out: Path) -> Path | None:
    """The newest study folder under `out` that asks for the same search and has no answer yet; None without one."""
    for record in sorted(out.glob("*/study.json"), reverse=True):
        try:
            if read_study(record.parent).fingerprint() != study.fingerprint():
                continue
            search = read_search(record.parent)
        except BadInput:
            continue  # a broken neighbour is no reason to stop
        # The newest of the same has its answer: asking again means searching again.
        is_over = search is not None and all(result.is_over for result in search.results)
        return None if is_over and is_ended(record.parent) else record.parent
    return None


def _asked(study: Study) -> tuple[Search, Slo]:
    if study.search is None:
        raise BadInput("this spec has no search; --at rate_per_s=search asks for one", code="TL202")
    refuse_unsearchable(study.search, study.workload, study.point, study.swept, study.protocol)
    assert isinstance(study.workload, InferenceWorkload)
    assert study.workload.slo is not None
    return study.search, study.workload.slo


def _finished(folder: Path) -> list[Run]:
    try:
        return [run for run in find_runs(folder) if run.is_finished]
    except BadInput:
        return []  # not one run yet, or a torn one: what cannot be read is measured again


@dataclass(frozen=True, slots=True)
class _Asked:
    """Values that all searches of a study share: `known` are its finished runs by fingerprint, `now_s` the wall
    clock."""

    study: Study
    search: Search
    slo: Slo
    folder: Path
    known: dict[str, Run]
    servers: SharedServer
    now_s: Now


class _Way:
    """One search on its way: what was tried so far, and what its runs took."""

    def __init__(
        self, asked: _Asked, where: dict[str, Any], tell: TellsTrial, keep: Callable[[SearchResult], None]
    ) -> None:
        self._asked, self._search, self._where = asked, asked.search, where
        self._tell, self._keep = tell, keep
        self._tried: list[Tried] = []

    def walk(self) -> SearchResult:
        """Measure until there is an answer, which is returned. Raises ExecutorFailed for a run that did not finish."""
        while not isinstance(ask := next_value(self._tried, self._search, self._asked.slo), Done):
            before = sum(tried.value == ask for tried in self._tried)
            spec = self._asked.study.trial(self._where, ask, before)
            run = self._asked.known.get(spec.fingerprint())
            if run is None and (spent := self._spent(spec)):
                return replace(self._found(self._so_far(), spent), outcome="budget")
            done = self._so_far()
            run = run or self._measured(spec, ask, self._tell(len(self._tried) + 1, spec, done))
            store_summary(run)
            self._tried.append(latest := tried_of(run, ask, self._tried, self._asked.slo, self._search))
            invalid = sum(tried.value == ask and tried.verdict == "invalid" for tried in self._tried)
            if invalid >= self._search.tries:  # once may be a neighbour's doing
                limit = Finding("search-client-limit", "notes", because=(latest.why,))
                return replace(self._found(self._so_far(), limit), outcome="invalid")
            done = self._so_far()
            self._keep(replace(self._found(done, answer(done, self._search, "search-running")), outcome="running"))
        return self._found(ask)

    def _so_far(self) -> Done:
        return so_far(self._tried, self._search, self._asked.slo)

    def _spent(self, spec: RunSpec) -> Finding | None:
        """Why the search ends where one more run does not fit into the budget of seconds."""
        budget_s = self._search.budget_s
        spent_s = sum(tried.took_s for tried in self._tried)
        next_s = max([spec.protocol.duration_s, *(tried.took_s for tried in self._tried)])
        if budget_s is None or spent_s + next_s <= budget_s:
            return None
        done = self._so_far()
        return answer(done, self._search, "search-seconds-spent", budget_s=budget_s, spent_s=spent_s)

    def _measured(self, spec: RunSpec, value: float, say: SayProgress) -> Run:
        begin_s = self._asked.now_s()
        try:
            # A value tried again is a repeat to its prompts, and no reason for another server.
            running = self._asked.servers.of(spec.model_copy(update={"repeat": 0}), phrases(say))
            folder = measure_one(self._asked.folder, spec, say, running)
        except ExecutorFailed as error:
            done = self._so_far()
            failed = answer(done, self._search, "search-run-failed", value=value, error=str(error))
            self._keep(replace(self._found(done, failed), outcome="failed"))
            raise ExecutorFailed(f"at {value:g} {self._search.unit}: {error}", code=error.code) from error
        update_run(folder, took_s=round(self._asked.now_s() - begin_s, 3))
        return read_run(folder)

    def _found(self, done: Done, reason: Finding | None = None) -> SearchResult:
        reason = reason or answer(done, self._search)
        return SearchResult(self._where, tuple(self._tried), done.low, done.high, done.outcome, reason)


def _telling(watch: Watch, search: Search, place: int, ways: int) -> TellsTrial:
    """Tells of the trials of one search, the `place`th (from 0) of `ways`."""

    def of_trial(trial: int, spec: RunSpec, done: Done) -> SayProgress:
        where = f"at {getattr(spec.point, search.over):g} {search.unit} ({_bounds(done, search.unit)})"
        tell = telling(watch, place * search.most_points + trial, ways * search.most_points, spec)
        return lambda phrase, share, rows: tell(f"{where}: {phrase}", share, rows)

    return of_trial


def _bounds(done: Done, unit: str) -> str:
    """The interval known so far, for the line of progress: "at least 8 requests/s"."""
    if done.low is None and done.high is None:
        return "not known yet"
    if done.low is None:
        return f"below {done.high:.4g} {unit}"
    return f"at least {done.low:.4g}" + (f" and below {done.high:.4g}" if done.high is not None else "") + f" {unit}"
