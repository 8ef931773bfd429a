"""Siblings of a run: the same work on the same machine in other precisions, with their measured ratios to it."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from twinlens.api.runs import material_of, read
from twinlens.diagnosis.evidence import evidence_of
from twinlens.diagnosis.quantise import Sibling
from twinlens.diagnosis.time_split import LowerLoad, first_token_wait
from twinlens.errors import BadInput
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
from twinlens.stats.summary.group import Group, Summary, group
from twinlens.stats.summary.serving import is_served
from twinlens.units import RATIO

_LOAD_PATHS = ("point.rate_per_s", "point.concurrency", "point.admission", "point.timeout_s", "point.in_flight")
_WORK = ("workload.global_batch", "workload.checkpointing")
_LOADS = ("rate_per_s", "concurrency")
_DECODE = "decode_tokens_per_s"


@dataclass(frozen=True, slots=True)
class Known:
    """What was worked out for one run and serves the next: rates of the slices of runs, by their ids, and points."""

    rates: dict[str, Rates] = field(default_factory=dict)
    groups: dict[tuple[str, ...], Group] = field(default_factory=dict)

    def group(self, members: Sequence[Material]) -> Group:
        """The repeats of one point together."""
        ids = tuple(run.id for run, _ in members)
        if ids not in self.groups:
            self.groups[ids] = next(iter(group(summary for _, summary in members)))
        return self.groups[ids]


class Studies:
    """The runs of the studies that some runs belong to, each study read once."""

    def __init__(self, given: Iterable[Material]) -> None:
        self._given = tuple(given)
        self._read: dict[Path, tuple[Material, ...]] = {}
        self._known = Known()

    def siblings(self, run: Run) -> dict[str, Sibling]:
        """By precision; empty of a served run, and where nothing else was measured."""
        if is_served(run):
            return {}
        alike: dict[str, list[Material]] = {}
        for each in {one[0].id: one for one in (*self._of_study(run), *self._given)}.values():
            if each[0].is_finished and _work(each[0]) == _work(run):
                alike.setdefault(each[0].spec.point.precision, []).append(each)
        own = alike.pop(run.spec.point.precision, [])
        found = {name: self._sibling(run, own, others) for name, others in alike.items()}
        return {name: each for name, each in found.items() if each is not None}

    def tried(self, run: Run) -> tuple[Finding, ...]:
        """Remedies that other runs beside it have, with what they gave."""
        beside = {each[0].id: each for each in (*self._of_study(run), *self._given)}
        return already_tried(run, beside.values(), self._known)

    def lower_load(self, run: Run, summary: Summary) -> LowerLoad | None:
        """The same work on the same server at the lowest load that is below this run's; None of a server that says how
        long requests wait in its queue, and where there is no such run."""
        told, load = summary.metrics.get("server_queue_s_mean"), _load(run)
        if not is_served(run) or load is None or (told is not None and told.value is not None):
            return None
        own = _work(run, _LOADS)
        alike = [
            (least[1], each)
            for each in {one[0].id: one for one in (*self._of_study(run), *self._given)}.values()
            if each[0].is_finished and is_served(each[0]) and (least := _load(each[0])) is not None
            and least[0] == load[0] and least[1] < load[1] and _work(each[0], _LOADS) == own
        ]  # fmt: skip
        if not alike:
            return None
        value, (other, of_other) = min(alike, key=lambda each: each[0])
        words = f"{value:g}/s" if load[0] == "rate_per_s" else f"{value:g} in flight"
        return LowerLoad(other.id, words, first_token_wait(other, of_other))

    def _of_study(self, run: Run) -> tuple[Material, ...]:
        folder = run.folder.parent
        if not (folder / "study.json").exists():
            return ()
        if folder not in self._read:
            known = {each[0].folder: each for each in self._given}  # their summaries are there already
            found: list[Material] = []
            for place in sorted(record.parent for record in folder.glob("*/run.json")):
                with contextlib.suppress(BadInput):
                    found += [known[place]] if place in known else material_of(read(place, skip_broken=True))
            self._read[folder] = tuple(found)
        return self._read[folder]

    def _sibling(self, run: Run, own: list[Material], others: list[Material]) -> Sibling | None:
        nearest = sorted(others, key=lambda each: each[0].spec.repeat != run.spec.repeat)
        for each in nearest:
            try:
                seen = evidence_of(*each)
            except BadInput:
                continue
            a, b = (self._known.group(side) for side in (own, others))
            turns = self._turns(a, b, [each[0] for each in (*own, *others)])
            ratio = _ratio(a, b, turns, HEADLINE[run.lens])
            decode = _ratio(a, b, turns, (_DECODE,))
            by_slices = [turn.ranked for turn in turns.values()]
            ranked = all(by_slices) if by_slices else a.ranked and b.ranked
            gates = [one.gate.go for one in b.runs if one.gate is not None]
            return Sibling(seen, ratio, decode, ranked, all(gates) if gates else None)
        return None

    def _turns(self, a: Group, b: Group, runs: list[Run]) -> dict[str, ByTurns]:
        return {each.ratio.metric: each for each in in_turns(a, b, runs, self._known.rates)}


def _ratio(a: Group, b: Group, turns: Mapping[str, ByTurns], names: Iterable[str]) -> Estimate:
    """The rate of b over that of a, from slices that took turns where there are any, else from runs."""
    for name in names:
        if name in turns:
            return turns[name].ratio.ratio
        values = [[e.value for run in side.runs if (e := run.metrics.get(name)) and e.value] for side in (b, a)]
        if all(values):
            hidden = [side.metrics[name].hidden for side in (a, b)]
            return widened(ratio_of_runs(*values), *hidden)
    return Estimate.absent(RATIO, "the two share no rate")


def _load(run: Run) -> tuple[str, float] | None:
    """Which field of the point says the load of a served run, and its value."""
    asked = {name: getattr(run.spec.point, name) for name in _LOADS}
    return next(((name, float(value)) for name, value in asked.items() if value is not None), None)


def _work(run: Run, but: Sequence[str] = ("precision",)) -> str:
    """Equal for runs of the same work on the same stack, whatever their repeat and these fields of the point."""
    asked = run.spec.to_dict()
    point = {name: value for name, value in asked["point"].items() if name not in but}
    machine = run.facts.executor.value("accelerator.product") if run.facts else None
    return json.dumps([asked["workload"], asked["executor"], point, machine], sort_keys=True, default=str)


# Remedies that were tried beside a run: runs of its study that differ from it in one setting, and what that gave.


def already_tried(run: Run, others: Iterable[Material], known: Known) -> tuple[Finding, ...]:
    """One finding for each value of a setting that others of `others` have and the run has not, all else being equal;
    with the ratio of the rate that stands first in its lens."""
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
    found = [_finding(path, before, after, own, members, known) for path, before, after, members in by_change.values()]
    return tuple(each for each in found if each is not None)


def _finding(
    path: str, before: Any, after: Any, own: Sequence[Material], others: Sequence[Material], known: Known
) -> Finding | None:
    a, b = (known.group(side) for side in (own, others))
    ratio, ranked = _ratio_and_rank(a, b, [run for run, _ in (*own, *others)], known.rates)
    if ratio is None:
        return None
    numbers = {"path": path, "from": before, "to": after, "ranked": ranked, "run": others[0][0].id}
    return Finding("already-tried", "notes", path, numbers, {"ratio": ratio})


def _ratio_and_rank(a: Group, b: Group, runs: Sequence[Run], rates: dict[str, Rates]) -> tuple[Estimate | None, bool]:
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
    """Ratios of b over a from slices that took turns. `rates`: of the slices of runs, by their ids; those that
    were not needed before are added."""
    paired = {run.id: run for run in runs if run.sections.pairing}
    for id, run in paired.items():
        if id not in rates:
            rates[id] = row_kind(run).slices(run)
    return by_turns(b, a, paired, {id: rates[id] for id in paired})


def _is_remedy(path: str) -> bool:
    return path in _WORK or (
        path.startswith(("point.", "executor.threads", "executor.options.")) and path not in _LOAD_PATHS
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
