"""Searches as their runs have it: search.json names the runs and their order, and every verdict follows from rows."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from dataclasses import replace

from twinlens.errors import BadInput
from twinlens.measurement.summary_file import summary_of
from twinlens.record.beside import SearchRecord, SearchResult, Tried, read_search
from twinlens.record.finding import Finding
from twinlens.record.run import Run
from twinlens.record.store import find_runs
from twinlens.spec.slo import Search, Slo
from twinlens.stats.search.trial import Done, answer, judged, next_value, so_far

_ENDED_EARLY = ("budget", "invalid", "failed", "running")
"""Outcomes that no row tells: what was asked for was used up, or a run did not come to its end."""


def searches_of(runs: Iterable[Run], *, skip_broken: bool = False) -> tuple[SearchRecord, ...]:
    """The searches that these runs belong to, in the runs' order, judged again from the rows of their runs.

    Raises BadInput for a record or a run that is broken; with `skip_broken` such a search is left out.
    """
    folders = dict.fromkeys(run.folder.resolve().parent for run in runs)
    found = []
    for folder in folders:
        with contextlib.suppress(BadInput) if skip_broken else contextlib.nullcontext():
            kept = read_search(folder)
            if kept is not None:
                beside = {run.id: run for run in find_runs(folder)}
                results = tuple(judged_again(each, kept.search, kept.slo, beside) for each in kept.results)
                found.append(replace(kept, results=results))
    return tuple(found)


def tried_of(run: Run, value: float, before: list[Tried], slo: Slo, search: Search) -> Tried:
    """One finished run of a search, judged beside the earlier runs of its value."""
    summary = summary_of(run)
    earlier = [tried for tried in before if tried.value == value]
    verdict, why, shares = judged(summary, slo, search, earlier)
    took_s = run.sections.took_s or summary.verdict.end_s
    judged_rows = summary.verdict.end_row - summary.verdict.begin_row
    gaps_cv = float(getattr(getattr(run.spec.workload, "arrival", None), "cv", 1.0))
    return Tried(run.id, value, verdict, summary.verdict.label, why, took_s, shares, judged_rows, gaps_cv)


def judged_again(kept: SearchResult, search: Search, slo: Slo, runs: Mapping[str, Run]) -> SearchResult:
    """A search as its runs have it. A run that is not there any more, or did not finish, says nothing."""
    tried: list[Tried] = []
    for each in kept.tried:
        run = runs.get(each.run)
        if run is not None and run.is_finished:
            tried.append(tried_of(run, getattr(run.spec.point, search.over), tried, slo, search))
    done = next_value(tried, search, slo)
    if not isinstance(done, Done):  # it ended before it had its answer
        done = so_far(tried, search, slo)
    outcome = kept.outcome if kept.outcome in _ENDED_EARLY else done.outcome
    return SearchResult(kept.where, tuple(tried), done.low, done.high, outcome, _reason(kept, done, search, tried))


def _reason(kept: SearchResult, done: Done, search: Search, tried: list[Tried]) -> Finding:
    """Why the search ended there, with the bounds that its runs have."""
    if not tried:
        return kept.reason
    if kept.outcome == "invalid":
        return replace(kept.reason, because=(tried[-1].why,))
    if kept.outcome not in _ENDED_EARLY or kept.reason.code == "search-budget":
        return answer(done, search)
    own = {name: kept.reason.numbers[name] for name in ("value", "error", "budget_s") if name in kept.reason.numbers}
    spent = {"spent_s": sum(each.took_s for each in tried)} if "budget_s" in own else {}
    return answer(done, search, kept.reason.code, **own | spent)
