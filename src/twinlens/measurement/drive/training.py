"""The training lens in real time: steps until the time is up, the target is met, or there is nothing more."""

from __future__ import annotations

import math
from collections.abc import Callable

from twinlens.executors.protocol import Exchanger, Server, Trainer
from twinlens.executors.registry import capabilities
from twinlens.measurement.drive.hopeless import is_settled
from twinlens.record.arrow import RowWriter
from twinlens.record.request import Request
from twinlens.record.step import Marks
from twinlens.schedule.lockstep import LockstepLoop
from twinlens.spec.study import RunSpec
from twinlens.spec.workload.workload import Images, InferenceWorkload, TrainingWorkload
from twinlens.stats.metrics.training import target_nats


def give_up_s(limit_s: float) -> float:
    """When a run ends without its least number of rows: it is too short, and says so, but holds up no study."""
    return 3 * limit_s + 10.0


TellProgress = Callable[[float, int], None]
"""Told how far a run is (0-1) and how many rows there are."""


def train(trainer: Trainer, spec: RunSpec, rows: RowWriter, progress: TellProgress, entropy_rate: float | None) -> int:
    """Take steps; how often the run was doubled as it had not settled when its time was up (`protocol.extend`)."""
    assert isinstance(spec.workload, TrainingWorkload)
    target_loss = target_nats(spec.workload, entropy_rate)
    limit_s, extended = spec.protocol.duration_s, 0
    if capabilities(spec.executor.kind).runs == "recorded":
        limit_s = math.inf  # it ends where the recording ends
    taken = 0
    while True:
        try:
            marks = trainer.step()
        except StopIteration:
            return extended
        rows.add(marks)
        if marks.kind == "step":
            taken += 1
        elapsed_s = marks.end_ns / 1e9
        progress(min(1.0, elapsed_s / limit_s), rows.count)
        if _is_met(marks, target_loss):
            return extended
        is_enough = taken >= spec.protocol.min_rows or elapsed_s >= give_up_s(limit_s)
        if elapsed_s >= limit_s and is_enough:
            if extended == spec.protocol.extend or target_loss is not None or is_settled(rows, spec):
                return extended
            extended, limit_s = extended + 1, limit_s * 2


def _is_met(marks: Marks, target_loss: float | None) -> bool:
    return marks.kind == "evaluate" and target_loss is not None and marks.loss is not None and marks.loss <= target_loss


def serve(server: Server, spec: RunSpec, rows: RowWriter, progress: TellProgress) -> int:
    """Play batches; how often the run was doubled as it had not settled when its time was up (`protocol.extend`)."""
    workload, batch = spec.workload, spec.point.batch
    assert isinstance(workload, InferenceWorkload)
    vision = isinstance(workload.data, Images)
    limit_s, first_group, ended_ns = spec.protocol.duration_s, 0, 0
    for extended in range(spec.protocol.extend + 1):

        def take(request: Request, limit_s: float = limit_s) -> None:
            nonlocal ended_ns
            rows.add(request)
            if request.end_ns != ended_ns:
                ended_ns = request.end_ns
                progress(min(1.0, request.end_ns / 1e9 / limit_s), rows.count)

        schedule = LockstepLoop(
            batch,
            None if vision else workload.input_tokens,
            None if vision else workload.output_tokens,
            until_ns=round(limit_s * 1e9),
            min_requests=max(0, spec.protocol.min_rows * batch - rows.count),
            give_up_ns=round(give_up_s(limit_s) * 1e9),
            seed=spec.seed,
            first_group=first_group,
        )
        server.play(schedule, take)
        first_group, limit_s = schedule.groups, limit_s * 2
        if extended == spec.protocol.extend or is_settled(rows, spec):
            return extended
    return 0


def exchange(exchanger: Exchanger, spec: RunSpec, rows: RowWriter, progress: TellProgress) -> int:
    """Take rows; how often the run was doubled as it had not settled when its time was up (`protocol.extend`)."""
    limit_s, extended = spec.protocol.duration_s, 0
    while True:
        done = exchanger.exchange()
        rows.add_all(done)
        elapsed_s = done[-1].end_ns / 1e9
        progress(min(1.0, elapsed_s / limit_s), rows.count)
        is_enough = rows.count >= spec.protocol.min_rows or elapsed_s >= give_up_s(limit_s)
        if elapsed_s >= limit_s and is_enough:
            if extended == spec.protocol.extend or is_settled(rows, spec):
                return extended
            extended, limit_s = extended + 1, limit_s * 2
