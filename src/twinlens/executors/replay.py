"""Plays a recorded run again: one precious hour on a machine becomes a fixture for every layer above.

`[executor.options]`: `run`, the folder of the recorded run. Rows, facts and times are those recorded; nothing is
measured, so the record says that it is a replay.
"""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

from twinlens.errors import BadInput
from twinlens.executors.capabilities import (
    ALL_ARRIVALS,
    ALL_FAMILIES,
    Capabilities,
    Executor,
    Option,
    refuse_unknown_options,
)
from twinlens.executors.protocol import Say, TakesRow
from twinlens.record.executor.facts import Facts
from twinlens.record.executor.record import ExecutorRecord
from twinlens.record.finding import Finding
from twinlens.record.request import Request
from twinlens.record.run import Run
from twinlens.record.step import Marks
from twinlens.record.store import read_run
from twinlens.schedule.request import Schedule
from twinlens.spec.study import RunSpec
from twinlens.spec.workload.workload import Method


class ReplayTrainer:
    """The recorded steps, one after another."""

    def open(self, spec: RunSpec, say: Say) -> Facts:
        run = _recorded(spec)
        self._rows = iter(run.table.to_pylist())
        return _facts(run)

    def step(self) -> Marks:
        return Marks(**next(self._rows))

    def close(self) -> None:
        pass


class ReplayServer:
    """The recorded requests, whatever the schedule asks: what was measured cannot be asked again."""

    def open(self, spec: RunSpec, say: Say) -> Facts:
        run = _recorded(spec)
        self._rows = iter(run.table.to_pylist())
        return _facts(run)

    def play(self, schedule: Schedule, rows: TakesRow) -> None:
        for row in self._rows:
            row |= {"chunk_ns": tuple(row["chunk_ns"]), "chunk_tokens": tuple(row["chunk_tokens"])}
            rows(Request(**row))

    def close(self) -> None:
        pass


def _recorded(spec: RunSpec) -> Run:
    refuse_unknown_options("replay", spec.executor.options, ("run",))
    folder = spec.executor.options.get("run")
    if not isinstance(folder, str):
        raise BadInput('replay needs the recorded run: --set executor.options.run="runs/…"', code="TL207")
    run = read_run(folder)
    if run.lens != spec.lens:
        raise BadInput(f"{folder} is a run of the {run.lens} lens; it cannot be replayed as {spec.lens}", code="TL207")
    return run


def _facts(run: Run) -> Facts:
    replayed = Finding("replayed", "notes", "", {"run": run.id, "recorded_utc": run.started_utc})
    if run.facts is None:
        return Facts(ExecutorRecord({}), findings=(replayed,))
    return replace(run.facts, findings=(*run.facts.findings, replayed))


EXECUTOR = Executor(
    Capabilities(
        runs="recorded",
        families=ALL_FAMILIES,
        arrivals=ALL_ARRIVALS,
        serves_adapters=(),
        methods=dict.fromkeys(get_args(Method), ()),
        options={"run": Option("", description="The folder of the recorded run.")},
    ),
    trainer=ReplayTrainer,
    server=ReplayServer,
)
