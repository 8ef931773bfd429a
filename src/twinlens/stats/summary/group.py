"""Runs that differ only by their repeat, seen as one point: which of them count, and what tells points apart."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from twinlens.record.estimate import Estimate
from twinlens.record.finding import Finding, Validity
from twinlens.record.foreign_text import in_one_line
from twinlens.record.sections import GreedyAnswers
from twinlens.spec.precision import Lens
from twinlens.stats.metrics.fidelity import Gate
from twinlens.stats.steady.disturbed import UNDISTURBED, Disturbed
from twinlens.stats.steady.slope import Trend
from twinlens.stats.summary.point import (
    REFERENCE,
    PointVerdict,
    greedy_agreement,
    over_repeats,
    point_verdict,
    provisional,
    width,
)
from twinlens.units import RATIO

SIMULATED = "simulated"
"""The code of the finding that every simulated run has."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether and where a run was steady. `begin_s`, `end_s` bound the steady window, from the start of the run.

    `disturbed`: what left the level inside it, with its times; all of it is in every figure. `least_visible_change`:
    the smallest relative change that the run would have shown; `cv`: spread of row time over its mean; `trend`: what
    repeats are judged together by; None if not tested.
    """

    label: str
    validity: Validity
    reason: Finding
    begin_row: int
    end_row: int
    begin_s: float
    end_s: float
    disturbed: Disturbed = UNDISTURBED
    least_visible_change: float | None = None
    cv: float | None = None
    trend: Trend | None = None


@dataclass(frozen=True, slots=True)
class Machine:
    """Where a run ran. `id` is equal on one machine, `stack` on one machine with one software and executor.

    `name` and `software` are for people. `is_attached`: a server that was up already; its name is its address, as the
    machine behind it is not known.
    """

    id: str
    name: str
    stack: str
    software: str
    is_attached: bool = False


@dataclass(frozen=True, slots=True, repr=False)
class Summary:
    """The summary of one run's rows. Derived: it can be deleted and rebuilt from the run folder.

    `identity` is equal for runs that are repeats of each other: all that was asked but the repeat, and who ran it;
    `asked` only all that was asked. `settings`: of the executor, as asked. `machine` is None where nothing was
    recorded of it. `notes`: what an executor of somebody else, or of an older version, said in sentences of its own.
    `greedy`: answers that points are compared by. `options`: of a launched server, the switches that were asked, by
    name.
    """

    run: str
    lens: Lens
    state: str
    model: str
    executor: str
    point: dict[str, Any]
    repeat: int
    rows: int
    verdict: Verdict
    metrics: dict[str, Estimate]
    gate: Gate | None = None
    notes: tuple[str, ...] = ()
    identity: str = ""
    attempt: int = 1
    findings: tuple[Finding, ...] = ()
    error: str | None = None
    asked: str = ""
    machine: Machine | None = None
    greedy: GreedyAnswers | None = None
    options: dict[str, Any] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        known = sum(estimate.value is not None for estimate in self.metrics.values())
        described = f"{self.lens}, {self.model}, {self.validity} ({self.label})"
        return in_one_line(f"<Summary {self.run}: {described}, {known} of {len(self.metrics)} metrics measured>")

    @property
    def validity(self) -> Validity:
        """What may be said of it: that of its steadiness where it is finished and nothing disqualifies it."""
        return self.verdict.validity if self.state == "finished" and not self.disqualified else "not valid"

    @property
    def ranked(self) -> bool:
        """Whether its numbers may be compared: valid, or provisional with the interval that this takes."""
        return self.validity != "not valid"

    @property
    def disqualified(self) -> tuple[Finding, ...]:
        """The findings that make it not valid, whether it was steady or not."""
        return tuple(finding for finding in self.findings if finding.severity == "disqualifies")

    @property
    def is_simulated(self) -> bool:
        """Whether its rows come from a law and nothing was measured."""
        return any(finding.code == SIMULATED for finding in self.findings)

    @property
    def label(self) -> str:
        """The label to show: that of the steady test; of a steady run that is disqualified, why (a code)."""
        return self.disqualified[0].code if self._was_steady and self.disqualified else self.verdict.label

    @property
    def _was_steady(self) -> bool:
        return self.verdict.validity != "not valid"


@dataclass(frozen=True, slots=True)
class Group:
    """Repeats of one operating point, with the verdict on all together. `retaken`: finished attempts that others
    disturbed and that were taken again; they are in no figure. `tag`: the letter of its machine where there are
    several, "" where there is one. `switches`: options in which it differs from most points of its model, empty for
    the default among them; None where no points differ. `executor`: its kind where points of its model differ in it, ""
    where they do not."""

    lens: Lens
    model: str
    point: dict[str, Any]
    runs: tuple[Summary, ...]
    metrics: dict[str, Estimate]
    verdict: PointVerdict
    retaken: tuple[Summary, ...] = ()
    tag: str = ""
    switches: dict[str, Any] | None = None
    executor: str = ""

    @property
    def machine(self) -> Machine | None:
        """Where its runs ran."""
        return self.runs[0].machine

    @property
    def validity(self) -> Validity:
        """What may be said of it, from all its repeats together."""
        return self.verdict.validity

    @property
    def ranked(self) -> bool:
        """Whether its numbers may be compared: valid, or provisional with the interval that this takes."""
        return self.validity != "not valid"

    @property
    def is_simulated(self) -> bool:
        """Whether its rows come from a law and nothing was measured."""
        return self.runs[0].is_simulated

    @property
    def label(self) -> str:
        """The finer reason of its state: a label of steadiness, "inconsistent", or the code of a fault."""
        return self.verdict.label

    @property
    def fault(self) -> tuple[str, str, tuple[Finding, ...]]:
        """State, label and reasons of the first run that is not valid, or those of all together; of a point that is."""
        if self.verdict.reason is not None:
            return "finished", self.label, (self.verdict.reason,)
        run = next((run for run in self.runs if not run.ranked), self.runs[0])
        return run.state, run.label, run.disqualified[:1] or (run.verdict.reason,)


def mean_of_attempts(group: Group, name: str) -> Estimate | None:
    """A metric's mean over all finished attempts, those that were taken again included; None where none was.

    Runs of a ranked group are those that others left alone, so its rate is above that of the machine as it was.
    """
    estimates = [run.metrics[name] for run in (*group.runs, *group.retaken) if name in run.metrics]
    values = [each.value for each in estimates if each.value is not None]
    if not group.retaken or not values:
        return None
    method = f"mean of {len(values)} attempts, those taken again included; no interval: they are no sample of runs"
    return Estimate(sum(values) / len(values), estimates[0].unit, method, "derived", n=len(values))


def group(summaries: Iterable[Summary]) -> tuple[Group, ...]:
    """Groups in order of first appearance; a run that is given twice (a copy, a folder and its child) counts once.

    Unfinished runs stay in and keep their group from being ranked, unless the same repeat was finished later: an
    interrupted study that was resumed is as good as one in one go.
    """
    kept, _ = once(summaries)
    members: dict[str, list[Summary]] = {}
    for summary in sorted(kept, key=lambda one: one.machine is None):  # of those who say it, first
        identity = [summary.lens, summary.model, summary.executor, summary.point, summary.identity]
        key = json.dumps(identity, sort_keys=True)
        if summary.machine is None and summary.asked:
            # It ended before it knew who ran: it is a try at what the others were asked, whoever they are.
            key = next((name for name, runs in members.items() if runs[0].asked == summary.asked), key)
        members.setdefault(key, []).append(summary)
    place = {id(one): number for number, one in enumerate(kept)}
    for runs in members.values():
        runs.sort(key=lambda one: place[id(one)])
    ordered = sorted(members.values(), key=lambda runs: place[id(runs[0])])
    groups = tuple(_group_of(*_attempts(_not_replaced(runs))) for runs in ordered)
    return _with_agreement(_with_switches(_with_executors(_tagged(groups))))


def _tagged(groups: tuple[Group, ...]) -> tuple[Group, ...]:
    """The groups with letters of their machines, in order of appearance, if there is more than one."""
    ids = list(dict.fromkeys(member.machine.id for member in groups if member.machine))
    if len(ids) < 2:
        return groups
    letters = {id: _LETTERS[place] if place < len(_LETTERS) else f"{place + 1}" for place, id in enumerate(ids)}
    return tuple(replace(member, tag=letters[member.machine.id]) if member.machine else member for member in groups)


def _with_executors(groups: tuple[Group, ...]) -> tuple[Group, ...]:
    """The groups with the kind of executor that measured each, where a model has several on a machine."""
    kinds: dict[tuple[str, str, str], set[str]] = {}
    for each in groups:
        kinds.setdefault((each.lens, each.model, each.tag), set()).add(each.runs[0].executor)
    return tuple(
        replace(each, executor=each.runs[0].executor) if len(kinds[each.lens, each.model, each.tag]) > 1 else each
        for each in groups
    )


def _with_switches(groups: tuple[Group, ...]) -> tuple[Group, ...]:
    """The groups with the options in which each differs from most points of its model on its machine.

    The value that more than half of the points have is the usual one; where there is none, that of the runtime is.
    """
    alike: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for each in groups:
        alike.setdefault((each.lens, each.model, each.tag), []).append(each.runs[0].options)
    told = []
    for each in groups:
        others, mine = alike[each.lens, each.model, each.tag], each.runs[0].options
        names = sorted({name for options in others for name in options})
        differ = [name for name in names if any(options.get(name) != others[0].get(name) for options in others)]
        kept = {
            name: mine.get(name, "auto")
            for name in differ
            if mine.get(name) != _usual([options.get(name) for options in others])
        }
        told.append(replace(each, switches=kept) if differ else each)
    return tuple(told)


def _usual(values: list[Any]) -> Any:
    """The value of more than half; None where no value is."""
    return next((value for value in values if 2 * values.count(value) > len(values)), None)


def _with_agreement(groups: tuple[Group, ...]) -> tuple[Group, ...]:
    """The groups with the agreement of their greedy answers with those of the first group of the widest precision.

    Only groups of one model that were asked the same prompts are compared, and one alone has no reference.
    """
    asked: dict[tuple[str, str], list[Group]] = {}
    for each in groups:
        if answers := _greedy(each):
            asked.setdefault((each.model, answers[0].prompts), []).append(each)
    added: dict[int, Estimate] = {}
    for alike in asked.values():
        reference = max(alike, key=lambda each: width(str(each.point.get("precision"))))
        for each in alike if len(alike) > 1 else ():
            named = str(reference.point.get("precision"))
            added[id(each)] = (
                Estimate.absent(RATIO, REFERENCE)
                if each is reference
                else greedy_agreement(_greedy(reference)[0], _greedy(each), named)
            )
    return tuple(
        replace(each, metrics=each.metrics | {"greedy_agreement": added[id(each)]}) if id(each) in added else each
        for each in groups
    )


def _greedy(group: Group) -> list[GreedyAnswers]:
    return [run.greedy for run in group.runs if run.greedy]


_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def once(summaries: Iterable[Summary]) -> tuple[tuple[Summary, ...], tuple[str, ...]]:
    """Each run once, in order, and the ids of those that were given more than once. A finished copy is preferred.

    A copy has the id of its run, the same identity and the same machine; a folder that was edited is another run.
    """
    kept: dict[tuple[str, str, str], Summary] = {}
    again: list[str] = []
    for summary in summaries:
        key = summary.run, summary.identity, summary.machine.stack if summary.machine else ""
        if key in kept:
            again.append(summary.run)
        if key not in kept or (summary.state == "finished" and kept[key].state != "finished"):
            kept[key] = summary
    return tuple(kept.values()), tuple(dict.fromkeys(again))


def _not_replaced(runs: list[Summary]) -> list[Summary]:
    finished = {run.repeat for run in runs if run.state == "finished"}
    return [run for run in runs if run.state == "finished" or run.repeat not in finished]


def _attempts(runs: list[Summary]) -> tuple[list[Summary], tuple[Summary, ...]]:
    """The runs that count, and the attempts that were taken again: of each repeat the last attempt counts."""
    last: dict[int, int] = {}
    for run in runs:
        last[run.repeat] = max(run.attempt, last.get(run.repeat, 0))
    return [run for run in runs if run.attempt == last[run.repeat]], tuple(
        run for run in runs if run.attempt < last[run.repeat]
    )


def _group_of(runs: list[Summary], retaken: tuple[Summary, ...] = ()) -> Group:
    complete = [run for run in runs if run.state == "finished"] or runs
    names = list(dict.fromkeys(name for run in complete for name in run.metrics))
    verdict = point_verdict(runs)
    is_open = runs[0].point.get("concurrency") is None
    own = [run.metrics for run in complete]
    metrics = {name: over_repeats(name, own, is_open=is_open) for name in names}
    if len(complete) > 1:  # the interval of one run is as wide as it must be already
        metrics = provisional(metrics, verdict.validity, verdict.hidden, runs[0].point)
    return Group(
        lens=runs[0].lens,
        model=runs[0].model,
        point=runs[0].point,
        runs=tuple(runs),
        metrics=metrics,
        verdict=verdict,
        retaken=retaken,
    )
