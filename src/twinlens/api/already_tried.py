"""Remedies that were tried beside a run: runs of its study that differ from it in one setting, and what that gave."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from twinlens.record.estimate import Estimate
from twinlens.record.finding import Finding
from twinlens.record.run import Run
from twinlens.reporting.view import Material
from twinlens.stats.estimator.ratio import ratio_of_runs
from twinlens.stats.estimator.repeats import widened
from twinlens.stats.metrics.definition import HEADLINE
from twinlens.stats.paired.ratio import ByTurns, by_turns
from twinlens.stats.paired.slice_rate import Rates
from twinlens.stats.row_kind import row_kind
from twinlens.stats.summary.group import Group, group

_LOADS = ("point.rate_per_s", "point.concurrency", "point.admission", "point.timeout_s", "point.in_flight")
_WORK = ("workload.global_batch", "workload.checkpointing")


def already_tried(run: Run, others: Iterable[Material], rates: dict[str, Rates]) -> tuple[Finding, ...]:
    """One finding for each value of a setting that others of `others` have and the run has not, all else being equal;
    with the ratio of the rate that stands first in its lens. `rates`: of the slices of runs, by their ids; those that
    were not needed before are added."""
    asked, machine = _settings(run), _machine(run)
    own: list[Material] = []
    by_change: dict[tuple[str, str], tuple[str, Any, Any, list[Material]]] = {}
    for each in others:
        other = each[0]
        if not other.is_finished or other.lens != run.lens or _machine(other) != machine:
            continue
        theirs = _settings(other)
        paths = sorted(path for path in asked.keys() | theirs.keys() if asked.get(path) != theirs.get(path))
        if not paths:
            own.append(each)
        elif len(paths) == 1 and _is_remedy(paths[0]):
            path, value = paths[0], theirs.get(paths[0])
            by_change.setdefault((path, repr(value)), (path, asked.get(path), value, []))[3].append(each)
    if not own:
        return ()
    found = [_finding(path, before, after, own, members, rates) for path, before, after, members in by_change.values()]
    return tuple(each for each in found if each is not None)


def _finding(
    path: str, before: Any, after: Any, own: Sequence[Material], others: Sequence[Material], rates: dict[str, Rates]
) -> Finding | None:
    a, b = (next(iter(group(summary for _, summary in side))) for side in (own, others))
    ratio, ranked = _ratio(a, b, [run for run, _ in (*own, *others)], rates)
    if ratio is None:
        return None
    numbers = {"path": path, "from": before, "to": after, "ranked": ranked, "run": others[0][0].id}
    return Finding("already-tried", "notes", path, numbers, {"ratio": ratio})


def _ratio(a: Group, b: Group, runs: Sequence[Run], rates: dict[str, Rates]) -> tuple[Estimate | None, bool]:
    """The rate of b over that of a, from slices that took turns where there are any, else from runs."""
    turns = {each.ratio.metric: each for each in in_turns(a, b, runs, rates)}
    for name in HEADLINE[a.lens]:
        if name in turns:
            return turns[name].ratio.ratio, turns[name].ranked
        values = [[e.value for run in side.runs if (e := run.metrics.get(name)) and e.value] for side in (b, a)]
        if all(values):
            hidden = [side.metrics[name].hidden for side in (a, b)]
            return widened(ratio_of_runs(*values), *hidden), a.ranked and b.ranked
    return None, False


def in_turns(a: Group, b: Group, runs: Iterable[Run], rates: dict[str, Rates]) -> Sequence[ByTurns]:
    """Ratios of b over a from slices that took turns. `rates` as in `already_tried`."""
    paired = {run.id: run for run in runs if run.sections.pairing}
    for id, run in paired.items():
        if id not in rates:
            rates[id] = row_kind(run).slices(run)
    return by_turns(b, a, paired, {id: rates[id] for id in paired})


def _is_remedy(path: str) -> bool:
    return path in _WORK or (
        path.startswith(("point.", "executor.threads", "executor.options.")) and path not in _LOADS
    )


def _settings(run: Run) -> dict[str, Any]:
    """What was asked of the work, by dotted path; neither how it was measured nor which repeat."""
    asked = run.spec.to_dict()
    return {path: value for table in ("workload", "executor", "point") for path, value in _flat(asked[table], table)}


def _flat(value: Any, path: str) -> Iterable[tuple[str, Any]]:
    if isinstance(value, dict):
        for name, each in value.items():
            yield from _flat(each, f"{path}.{name}")
    else:
        yield path, value


def _machine(run: Run) -> Any:
    return run.facts.executor.value("accelerator.product") if run.facts else None
