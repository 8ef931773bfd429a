"""Runs that differ only by their repeat, seen as one: the interval is over run means, never over pooled rows."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from twinlens.record.estimate import Estimate
from twinlens.record.finding import Finding
from twinlens.stats.repeats import over_runs


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether and where a run was steady. `begin_s`, `end_s` bound the steady window, from the start of the run."""

    label: str
    ranked: bool
    reason: str
    begin_row: int
    end_row: int
    begin_s: float
    end_s: float


@dataclass(frozen=True, slots=True)
class Summary:
    """What one run's rows come to. Derived: it can be deleted and rebuilt from the run folder.

    `identity` is equal for runs that are repeats of each other: all that was asked but the repeat, and who ran it.
    """

    run: str
    lens: Literal["training", "inference"]
    state: str
    model: str
    executor: str
    point: dict[str, Any]
    repeat: int
    rows: int
    verdict: Verdict
    metrics: dict[str, Estimate]
    gate: dict[str, Any] | None = None
    notes: tuple[str, ...] = ()
    identity: str = ""
    attempt: int = 1
    findings: tuple[Finding, ...] = ()

    @property
    def ranked(self) -> bool:
        """Whether its numbers may be compared: finished, steady, and nothing was found that disqualifies it."""
        return self.state == "finished" and self.verdict.ranked and not self.disqualified

    @property
    def disqualified(self) -> tuple[Finding, ...]:
        """The findings that keep it from being ranked, whether it was steady or not."""
        return tuple(one for one in self.findings if one.severity == "disqualifies")


@dataclass(frozen=True, slots=True)
class Group:
    """Repeats of one operating point. `ranked` only if every finished run is. `retaken`: finished attempts that others
    disturbed and that were taken again; they are in no figure."""

    lens: Literal["training", "inference"]
    model: str
    point: dict[str, Any]
    runs: tuple[Summary, ...]
    metrics: dict[str, Estimate]
    ranked: bool
    retaken: tuple[Summary, ...] = ()

    @property
    def label(self) -> str:
        """The label all runs share, or "inconsistent" when they disagree on whether the run is steady."""
        labels = sorted({run.verdict.label for run in self.runs})
        if len(labels) == 1:
            return labels[0]
        return " / ".join(labels) if len({run.verdict.ranked for run in self.runs}) == 1 else "inconsistent"


def group(summaries: Iterable[Summary]) -> tuple[Group, ...]:
    """Groups in order of first appearance. Unfinished runs stay in and keep their group from being ranked, unless
    the same repeat was finished later: an interrupted study that was gone on with is as good as one in one go."""
    members: dict[str, list[Summary]] = {}
    for summary in summaries:
        identity = [summary.lens, summary.model, summary.executor, summary.point, summary.identity]
        members.setdefault(json.dumps(identity, sort_keys=True), []).append(summary)
    return tuple(_one(*_attempts(_not_replaced(runs))) for runs in members.values())


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


def _one(runs: list[Summary], retaken: tuple[Summary, ...] = ()) -> Group:
    complete = [run for run in runs if run.state == "finished"] or runs
    names = list(dict.fromkeys(name for run in complete for name in run.metrics))
    return Group(
        lens=runs[0].lens,
        model=runs[0].model,
        point=runs[0].point,
        runs=tuple(runs),
        metrics={name: over_runs([run.metrics[name] for run in complete if name in run.metrics]) for name in names},
        ranked=all(run.ranked for run in runs),
        retaken=retaken,
    )
