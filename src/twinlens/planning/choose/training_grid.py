"""Training on every pair in every layout: memory, then the time of a step and its parts, as arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from twinlens.planning.choose.pairs import Pairs, Times, multiplied, taken
from twinlens.planning.choose.wanted import TrainingWanted
from twinlens.planning.fit.degree import expert_degrees, pipeline_degrees, tensor_degrees
from twinlens.planning.fit.placement import usable
from twinlens.planning.fit.training import Training, training_bytes
from twinlens.planning.fit.training_answer import MEMORY_SHARE
from twinlens.planning.prediction.training import TrainingLayout, TrainingParts, training_step
from twinlens.theory.sharding import Split

MICROBATCHES = (1, 2, 4)
RECOMPUTE = ("none", "full")


@dataclass(frozen=True, slots=True)
class TrainingWays:
    """Layouts: devices = tensor · pipeline · data. `zero` is 3 (FSDP) without a pipeline and 1 with one."""

    tensor: Any
    pipeline: Any
    data: Any
    expert: Any
    microbatch: Any
    zero: Any
    recompute: Any
    """1: every layer is computed again in backward."""

    @property
    def devices(self) -> Any:
        return self.tensor * self.pipeline * self.data


@dataclass(frozen=True, slots=True)
class TrainingGrid:
    """Rows of what fits: `pair` and `way` are places in the columns; the rest is of each row."""

    pair: Any
    way: Any
    devices: Any
    parts: TrainingParts
    seconds: Any
    """Of a step."""
    tokens_per_s: Any
    needed: Any
    """Bytes on each device, pairs × ways."""
    room: Any
    """Usable bytes on a device of each pair."""


def training_ways(wanted: TrainingWanted, most: int) -> TrainingWays:
    """Every legal layout of at most so many devices whose copies share the batch evenly."""
    shape, rows = wanted.shape, []
    for tensor in tensor_degrees(shape, most):
        for pipeline in pipeline_degrees(shape, most // tensor):
            for data in range(1, most // (tensor * pipeline) + 1):
                each, left = divmod(wanted.sequences, data)
                if left:
                    continue
                for expert in (degree for degree in expert_degrees(shape, data) if data % degree == 0):
                    zero = 0 if data == 1 else 1 if pipeline > 1 else 3
                    rows += [(tensor, pipeline, data, expert, micro, zero, again)
                             for micro in MICROBATCHES if each % micro == 0 for again in (0, 1)]  # fmt: skip
    return TrainingWays(*np.array(rows, dtype=np.float64).T)


def training_grid(
    wanted: TrainingWanted, pairs: Pairs, ways: TrainingWays, allowed: Any, times: Times = Times()
) -> TrainingGrid:
    """Everything that fits. `allowed`: pairs × ways, False where the site forbids it."""
    each = needed_bytes(wanted, ways)
    room = np.array([usable(each, MEMORY_SHARE).number for each in pairs.devices])
    room = times.memory * np.minimum(room, pairs.rates.memory_bytes)
    pair, way = np.nonzero(allowed & (each[None, :] <= room[:, None]))
    parts = train(wanted, pairs, pair, ways, way, times)
    step = parts.total_s
    rate = wanted.sequences * wanted.length / step
    needed = np.broadcast_to(each, (len(room), len(each)))
    return TrainingGrid(pair, way, ways.devices[way], parts, step, rate, needed, room)


def train(
    wanted: TrainingWanted, pairs: Pairs, pair: Any, ways: TrainingWays, way: Any, times: Times = Times()
) -> TrainingParts:
    """Seconds of one step in each row, by cause."""
    layout = TrainingLayout(
        ways.devices[way], ways.tensor[way], ways.pipeline[way], 1.0, 1.0, ways.expert[way],
        np.where(ways.zero[way] == 3, 1.0, 0.0), ways.recompute[way], float(wanted.method != "full"),
    )  # fmt: skip
    rates = multiplied(taken(pairs.rates, pair), times)
    work, fitted = taken(pairs.work, pair), pairs.constants(pair)
    return training_step(work, rates, layout, fitted, wanted.sequences, ways.microbatch[way], wanted.length)


def needed_bytes(wanted: TrainingWanted, ways: TrainingWays) -> Any:
    """Bytes on the fullest device of each layout, by the sum of `plan fit --train`."""
    out = np.zeros(len(ways.data))
    for zero in (0, 1, 3):
        for again, name in enumerate(RECOMPUTE):
            rows = (ways.zero == zero) & (ways.recompute == again)
            if rows.any():
                plan = Training(wanted.subject, wanted.method, context=wanted.length, batch=ways.microbatch[rows],
                                recompute=name)  # type: ignore[arg-type]  # fmt: skip
                stages = ways.pipeline[rows]
                split = Split(ways.data[rows], ways.tensor[rows], stages, 1, ways.expert[rows], zero, 4 * stages)
                out[rows] = sum(training_bytes(plan, split).values())
    return out
