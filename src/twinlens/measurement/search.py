"""The highest rate that meets an SLO: one run after another, each where the ones before say that it tells most."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from twinlens.errors import BadInput, ExecutorFailed, Interrupted
from twinlens.measurement.preflight.refuse import refuse_what_cannot_run
from twinlens.measurement.server.shared import SharedServer, shared_server
from twinlens.measurement.study import Event, Outcome, Watch, measure_one
from twinlens.measurement.study_folder import held_folder
from twinlens.measurement.summary_file import summary_of
from twinlens.record.finding import Finding
from twinlens.record.run import Run
from twinlens.record.runs import Runs
from twinlens.record.search import SearchRecord, SearchResult, Tried, read_search, write_search
from twinlens.record.store import end_study, find_runs, is_ended, read_run, read_study, update_run
from twinlens.spec.consistency import refuse_unsearchable
from twinlens.spec.search import Search
from twinlens.spec.slo import Slo
from twinlens.spec.study import RunSpec, Study
from twinlens.spec.workload.workload import InferenceWorkload
from twinlens.stats.search.next_rate import Done
from twinlens.stats.search.trial import answer, judged, next_value, so_far

Now = Callable[[], float]


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
    for spec in study.point_runs():
        refuse_what_cannot_run(spec)
    with held_folder(study, out, unfinished_search, fresh=fresh) as folder:
        outcome = _searched(study, search, slo, folder, watch, now_s)
        if shown:
            end_study(folder)
    return outcome


def _searched(study: Study, search: Search, slo: Slo, folder: Path, watch: Watch, now_s: Now) -> Outcome:
    known = {run.spec.fingerprint(): run for run in _finished(folder)}
    not_begun = Finding("search-not-begun", "notes")
    found = [SearchResult(where, (), None, None, "running", not_begun) for where in study.points()]
    failures: list[ExecutorFailed] = []
    with shared_server(folder) as servers:
        for place, where in enumerate(study.points()):

            def keep(so_far: SearchResult, place: int = place) -> None:
                found[place] = so_far
                write_search(SearchRecord(folder, search, slo, tuple(found)))

            way = _Way(study, search, slo, folder, where, known, servers, now_s)
            try:
                keep(way.walk(keep, partial(_watched, watch, place, len(found), search)))
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
            found = read_search(record.parent)
        except BadInput:
            continue  # a broken neighbour is no reason to stop
        # The newest of the same has its answer: asking again means searching again.
        is_over = found is not None and all(one.is_over for one in found.found)
        return None if is_over and is_ended(record.parent) else record.parent
    return None


def _asked(study: Study) -> tuple[Search, Slo]:
    if study.search is None:
        raise BadInput("this spec has no search; --at rate_per_s=search asks for one", code="TL202")
    refuse_unsearchable(study.search, study.workload, study.point, study.sweep, study.protocol)
    assert isinstance(study.workload, InferenceWorkload)
    assert study.workload.slo is not None
    return study.search, study.workload.slo


def _finished(folder: Path) -> list[Run]:
    try:
        return [run for run in find_runs(folder) if run.is_finished]
    except BadInput:
        return []  # not one run yet, or a torn one: what cannot be read is measured again


class _Way:
    """One search on its way: what was tried so far, and what its runs took."""

    def __init__(
        self,
        study: Study,
        search: Search,
        slo: Slo,
        folder: Path,
        where: dict[str, Any],
        known: dict[str, Run],
        servers: SharedServer,
        now_s: Now,
    ) -> None:
        self._study, self._search, self._slo = study, search, slo
        self._folder, self._where, self._known = folder, where, known
        self._servers, self._now_s = servers, now_s
        self._tried: list[Tried] = []

    def walk(self, keep: Callable[[SearchResult], None], watch: Callable[..., None]) -> SearchResult:
        """Measure until there is an answer, which is returned. Raises ExecutorFailed for a run that did not finish."""
        while not isinstance(ask := next_value(self._tried, self._search), Done):
            before = sum(one.value == ask for one in self._tried)
            spec = self._study.trial(self._where, ask, before)
            run = self._known.get(spec.fingerprint())
            if run is None and (spent := self._spent(spec)):
                return replace(self._found(so_far(self._tried, self._search), spent), outcome="budget")
            done = so_far(self._tried, self._search)
            run = run or self._measured(spec, ask, keep, partial(watch, len(self._tried) + 1, spec, done))
            earlier = [one for one in self._tried if one.value == ask]
            verdict, why, shares = judged(summary := summary_of(run), self._slo, self._search, earlier)
            took_s = run.sections.took_s or summary.verdict.end_s
            self._tried.append(Tried(run.id, ask, verdict, summary.verdict.label, why, took_s, shares))
            invalid = sum(one.value == ask and one.verdict == "invalid" for one in self._tried)
            if invalid >= self._search.tries:  # once may be a neighbour's doing
                limit = Finding("search-client-limit", "notes", because=(why,))
                return replace(self._found(so_far(self._tried, self._search), limit), outcome="invalid")
            done = so_far(self._tried, self._search)
            keep(replace(self._found(done, answer(done, self._search, "search-running")), outcome="running"))
        return self._found(ask)

    def _spent(self, spec: RunSpec) -> Finding | None:
        """Why the search ends where one more run does not fit into the budget of seconds."""
        budget_s = self._search.budget_s
        spent_s = sum(one.took_s for one in self._tried)
        next_s = max([spec.protocol.duration_s, *(one.took_s for one in self._tried)])
        if budget_s is None or spent_s + next_s <= budget_s:
            return None
        done = so_far(self._tried, self._search)
        return answer(done, self._search, "search-seconds-spent", budget_s=budget_s, spent_s=spent_s)

    def _measured(
        self, spec: RunSpec, value: float, keep: Callable[[SearchResult], None], say: Callable[..., None]
    ) -> Run:
        begin_s = self._now_s()
        try:
            # A value tried again is a repeat to its prompts, and no reason for another server.
            running = self._servers.of(spec.model_copy(update={"repeat": 0}), partial(_phrased, say))
            folder = measure_one(self._folder, spec, say, running)
        except ExecutorFailed as error:
            done = so_far(self._tried, self._search)
            failed = answer(done, self._search, "search-run-failed", value=value, error=str(error))
            keep(replace(self._found(done, failed), outcome="failed"))
            raise ExecutorFailed(f"at {value:g} {self._search.unit}: {error}", code=error.code) from error
        update_run(folder, took_s=round(self._now_s() - begin_s, 3))
        return read_run(folder)

    def _found(self, done: Done, reason: Finding | None = None) -> SearchResult:
        reason = reason or answer(done, self._search)
        return SearchResult(self._where, tuple(self._tried), done.low, done.high, done.outcome, reason)


def _phrased(say: Callable[..., None], phrase: str) -> None:
    say(phrase, 0.0, 0)


def _watched(
    watch: Watch, place: int, ways: int, search: Search, trial: int, spec: RunSpec, done: Done,
    phrase: str, share: float, rows: int,
) -> None:  # fmt: skip
    value = getattr(spec.point, search.over)
    said = f"at {value:g} {search.unit} ({_bounds(done)}): {phrase}"
    watch(Event(place * search.most_points + trial, ways * search.most_points, spec, said, share, rows))


def _bounds(done: Done) -> str:
    """The interval so far, for the line of progress: "[8, 11.3)"."""
    low, high = ("?" if bound is None else f"{bound:.4g}" for bound in (done.low, done.high))
    return f"[{low}, {high})"
