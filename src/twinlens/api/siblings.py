"""Siblings of a run: the same work on the same machine in other precisions, with their measured ratios to it."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from twinlens.api.already_tried import already_tried, in_turns
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
from twinlens.stats.paired.ratio import ByTurns
from twinlens.stats.paired.slice_rate import Rates
from twinlens.stats.summary.group import Group, Summary, group
from twinlens.stats.summary.serving import is_served
from twinlens.units import RATIO

_LOADS = ("rate_per_s", "concurrency")
_DECODE = "decode_tokens_per_s"


class Studies:
    """The runs of the studies that some runs belong to, each study read once."""

    def __init__(self, given: Iterable[Material]) -> None:
        self._given = tuple(given)
        self._read: dict[Path, tuple[Material, ...]] = {}
        self._rates: dict[str, Rates] = {}

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
        return already_tried(run, beside.values(), self._rates)

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
            a, b = (next(iter(group(summary for _, summary in side))) for side in (own, others))
            turns = self._turns(a, b, [each[0] for each in (*own, *others)])
            ratio = _ratio(a, b, turns, HEADLINE[run.lens])
            decode = _ratio(a, b, turns, (_DECODE,))
            by_slices = [turn.ranked for turn in turns.values()]
            ranked = all(by_slices) if by_slices else a.ranked and b.ranked
            gates = [one.gate.go for one in b.runs if one.gate is not None]
            return Sibling(seen, ratio, decode, ranked, all(gates) if gates else None)
        return None

    def _turns(self, a: Group, b: Group, runs: list[Run]) -> dict[str, ByTurns]:
        return {each.ratio.metric: each for each in in_turns(a, b, runs, self._rates)}


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
