"""Rows in slices, for a run that takes turns with others: as `training` and `lockstep` for a run alone."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace

from twinlens.executors.protocol import Server, Trainer
from twinlens.measurement.machine.telemetry import Sampler
from twinlens.measurement.turns.worker_turn import Turn, TurnQueue, Worked
from twinlens.record.arrow import RowWriter
from twinlens.record.codec import encode
from twinlens.record.request import Request
from twinlens.record.store import read_run, update_run
from twinlens.schedule.lockstep import LockstepLoop
from twinlens.spec.study import RunSpec
from twinlens.spec.workload.workload import Images, InferenceWorkload

Work = Callable[[Turn, RowWriter], Worked]
"""Does one turn, adding its rows."""


def take_in_turns(
    work: Work,
    rows: RowWriter,
    turns: TurnQueue,
    sampling: AbstractContextManager[Sampler | None],
    begin_at: Callable[[int], None] = lambda origin_ns: None,
) -> None:
    """Work whenever it is this run's turn, until there are no more. Samples are taken in its turns only.

    `begin_at` is told time zero of the rows, for an executor that does not count from its first work by itself.
    """
    turn = turns.next()  # before the sampling begins, so that samples and rows count from the same moment
    pairing = read_run(rows.folder).sections.pairing
    assert pairing is not None
    with sampling as sampler:
        origin_ns = time.monotonic_ns()
        pairing = replace(pairing, origin_ns=origin_ns)
        begin_at(origin_ns)
        while turn is not None:
            worked = work(turn, rows)
            rows.flush()
            if sampler is not None:
                sampler.pause()
            turns.had(turn, worked, rows.count)
            turn = turns.next()
            if turn is not None and sampler is not None:
                sampler.resume()
    waited = replace(pairing, waited_s=turns.waited_s, waited_cpu_s=turns.waited_cpu_s)
    update_run(rows.folder, pairing=encode(waited))


def steps(trainer: Trainer) -> Work:
    """Optimizer steps: as many as the turn asks for, or until its time is up; one at least."""

    def work(turn: Turn, rows: RowWriter) -> Worked:
        begin_ns: int | None = None
        count = 0
        while True:
            marks = trainer.step()
            rows.add(replace(marks, slice=turn.number))
            begin_ns = marks.begin_ns if begin_ns is None else begin_ns
            count += 1
            worked_s = (marks.end_ns - begin_ns) / 1e9
            if count == turn.observations or (turn.observations is None and worked_s >= turn.seconds):
                return Worked(worked_s, count)

    return work


def batches(server: Server, spec: RunSpec) -> Work:
    """Lockstep batches: as many as the turn asks for, or until its time is up; one at least."""
    workload = spec.workload
    assert isinstance(workload, InferenceWorkload)
    vision = isinstance(workload.data, Images)
    first_group = 0

    def work(turn: Turn, rows: RowWriter) -> Worked:
        nonlocal first_group
        taken: list[tuple[int, int]] = []

        def take(request: Request) -> None:
            rows.add(replace(request, slice=turn.number))
            taken.append((request.intended_ns, request.end_ns))

        schedule = LockstepLoop(
            spec.point.batch,
            None if vision else workload.input_tokens,
            None if vision else workload.output_tokens,
            until_ns=round(turn.seconds * 1e9) if turn.observations is None else 0,
            min_requests=spec.point.batch * (turn.observations or 1),
            seed=spec.seed,
            first_group=first_group,
            from_first=True,
        )
        server.play(schedule, take)
        observations, first_group = schedule.groups - first_group, schedule.groups
        worked_ns = max(end for _, end in taken) - min(begin for begin, _ in taken)
        return Worked(worked_ns / 1e9, observations)

    return work
