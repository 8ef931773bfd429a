"""The training lens in real time: steps until the time is up, the target is met, or there is nothing more."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from twinlens.executors.protocol import Trainer
from twinlens.record.rows import RowWriter
from twinlens.record.step import Marks
from twinlens.spec.study import RunSpec
from twinlens.spec.workload import TrainingWorkload
from twinlens.stats.metrics.quality import target_nats
from twinlens.stats.steady import SteadyRule, segment


def give_up_s(limit_s: float) -> float:
    """When a run ends without its least number of rows: it is too short, and says so, but holds up no study."""
    return 3 * limit_s + 10.0


Progress = Callable[[float, int], None]
"""Told how far a run is (0-1) and how many rows there are."""


def train(trainer: Trainer, spec: RunSpec, rows: RowWriter, progress: Progress, entropy_rate: float | None) -> None:
    """Take steps. A run that has not settled when its time is up is doubled, `protocol.extend` times at most."""
    assert isinstance(spec.workload, TrainingWorkload)
    target_loss = target_nats(spec.workload, entropy_rate)
    limit_s, extensions = spec.protocol.duration_s, spec.protocol.extend
    if spec.executor.kind == "replay":
        limit_s = math.inf  # it ends where the recording ends
    durations: list[int] = []
    while True:
        try:
            marks = trainer.step()
        except StopIteration:
            return
        rows.add(marks)
        if marks.kind == "step":
            durations.append(marks.end_ns - marks.begin_ns)
        elapsed_s = marks.end_ns / 1e9
        progress(min(1.0, elapsed_s / limit_s), rows.count)
        if _is_met(marks, target_loss):
            return
        is_enough = len(durations) >= spec.protocol.min_rows or elapsed_s >= give_up_s(limit_s)
        if elapsed_s >= limit_s and is_enough:
            if not extensions or target_loss is not None or _is_settled(durations, spec.protocol.steady_s):
                return
            extensions, limit_s = extensions - 1, limit_s * 2


def _is_met(marks: Marks, target_loss: float | None) -> bool:
    return marks.kind == "evaluate" and target_loss is not None and marks.loss is not None and marks.loss <= target_loss


def _is_settled(durations_ns: list[int], steady_s: float) -> bool:
    return segment(np.array(durations_ns) / 1e9, rule=SteadyRule(min_seconds=steady_s)).ranked
