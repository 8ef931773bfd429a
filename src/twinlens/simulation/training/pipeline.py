"""Pipelines: the order of passes on each stage, and when each begins, from what it waits for.

Orders: GPipe (arXiv 1811.06965), 1F1B and interleaved 1F1B (arXiv 2104.04473; Megatron-LM core 0.14,
`pipeline_parallel/schedules.py`). Not modelled: a sender or a receiver that stops for a transfer, and transfers that
share a link.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

import numpy as np
import numpy.typing as npt

from twinlens.errors import BadInput, nearest

Order = Literal["gpipe", "1f1b", "interleaved"]
Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
NOTHING = -1


class Pass(NamedTuple):
    """One microbatch through one part of the model, forward or backward. `part` counts from the input of the model."""

    part: int
    microbatch: int
    is_backward: bool


@dataclass(frozen=True, slots=True, eq=False)
class Pipeline:
    """A step of a pipeline. Part i of the model lies on stage i modulo `stages`.

    `forward_s`, `backward_s`: seconds of a microbatch on each part, [parts], or of each microbatch, [parts,
    microbatches]; parts are `stages`, or whole multiples of it where `order` is "interleaved". `transfer_s`: from one
    stage to the next, of activations and of gradients, beside the passes.
    """

    stages: int
    microbatches: int
    forward_s: Floats
    backward_s: Floats
    order: Order = "1f1b"
    transfer_s: float = 0.0


@dataclass(frozen=True, slots=True, eq=False)
class Timeline:
    """Passes in the order in which they begin on their stage. Shapes: (passes,).

    `ready_s`: when the stage had what the pass needs from others. `waits_for`: the pass that it waited for while its
    stage was idle, as a place in these arrays; NOTHING where it did not wait. `held` [stages]: the most microbatches
    (of one part each) whose activations a stage keeps at once.
    """

    stage: Ints
    part: Ints
    microbatch: Ints
    is_backward: npt.NDArray[np.bool_]
    ready_s: Floats
    begin_s: Floats
    end_s: Floats
    waits_for: Ints
    held: Ints

    @property
    def makespan_s(self) -> float:
        return float(self.end_s.max())

    @property
    def busy_s(self) -> Floats:
        """Seconds that each stage works, [stages]."""
        return np.asarray(np.bincount(self.stage, self.end_s - self.begin_s, len(self.held)), np.float64)

    @property
    def idle_share(self) -> float:
        """The share of all stages' time in which they wait: the bubble."""
        return 1 - float(self.busy_s.sum()) / (self.makespan_s * len(self.held))


def timeline(asked: Pipeline) -> Timeline:
    """When each pass begins and ends: as soon as its stage is free and what it needs is there. Raises BadInput."""
    parts = _checked(asked)
    lasts = {False: _each(asked.forward_s, asked), True: _each(asked.backward_s, asked)}
    orders = [_order(asked, stage, parts // asked.stages) for stage in range(asked.stages)]
    place: dict[Pass, int] = {}
    rows: list[tuple[int, Pass, float, float, float, int]] = []
    free_s, done = [0.0] * asked.stages, [0] * asked.stages
    while len(rows) < 2 * parts * asked.microbatches:
        before = len(rows)
        for stage, order in enumerate(orders):
            while done[stage] < len(order):
                one = order[done[stage]]
                need = _needed(one, parts)
                if need is not None and need not in place:
                    break
                ready_s, source = 0.0, NOTHING
                if need is not None:
                    source = place[need]
                    moved = asked.transfer_s if rows[source][0] != stage else 0.0
                    ready_s = rows[source][4] + moved
                begin_s = max(free_s[stage], ready_s)
                end_s = begin_s + float(lasts[one.is_backward][one.part, one.microbatch])
                place[one] = len(rows)
                rows.append((stage, one, ready_s, begin_s, end_s, source if ready_s > free_s[stage] else NOTHING))
                free_s[stage] = end_s
                done[stage] += 1
        assert len(rows) > before, "each order runs its passes after those that they need"
    return _timeline(rows, asked.stages)


def _timeline(rows: list[tuple[int, Pass, float, float, float, int]], stages: int) -> Timeline:
    stage, passes, ready_s, begin_s, end_s, source = zip(*rows, strict=True)
    part, microbatch, is_backward = zip(*passes, strict=True)
    where, backward = np.array(stage), np.array(is_backward)
    held = [int(np.cumsum(np.where(backward[where == each], -1, 1)).max()) for each in range(stages)]
    return Timeline(
        where, np.array(part), np.array(microbatch), backward,
        np.array(ready_s), np.array(begin_s), np.array(end_s), np.array(source), np.array(held),
    )  # fmt: skip


def _needed(one: Pass, parts: int) -> Pass | None:
    """The pass whose result this one takes; the forward pass of its own part is before it on the same stage."""
    if not one.is_backward:
        return one._replace(part=one.part - 1) if one.part else None
    if one.part == parts - 1:
        return one._replace(is_backward=False)
    return one._replace(part=one.part + 1)


def _order(asked: Pipeline, stage: int, per_stage: int) -> list[Pass]:
    """Passes of a stage in their order."""
    many, stages = asked.microbatches, asked.stages
    if asked.order == "gpipe":
        forward = [Pass(stage, each, False) for each in range(many)]
        return forward + [Pass(stage, each, True) for each in reversed(range(many))]
    if asked.order == "1f1b":
        ahead, turns = stages - stage - 1, [(0, each) for each in range(many)]
    else:
        ahead = 2 * (stages - stage - 1) + (per_stage - 1) * stages
        groups = range(0, many, stages)
        turns = [(turn, first + each) for first in groups for turn in range(per_stage) for each in range(stages)]
    forward = [Pass(turn * stages + stage, each, False) for turn, each in turns]
    backward = [Pass((per_stage - 1 - turn) * stages + stage, each, True) for turn, each in turns]
    ahead = min(ahead, len(turns))
    steady = [one for pair in zip(forward[ahead:], backward, strict=False) for one in pair]
    return forward[:ahead] + steady + backward[len(turns) - ahead :]


def _checked(asked: Pipeline) -> int:
    """The number of parts."""
    if asked.order not in get_args(Order):
        raise BadInput(f"unknown order of a pipeline {asked.order!r}; {nearest(asked.order, get_args(Order))}")
    if asked.stages < 1 or asked.microbatches < 1:
        raise BadInput("a pipeline has at least one stage and one microbatch")
    parts = len(asked.forward_s)
    per_stage, left = divmod(parts, asked.stages)
    if left or per_stage < 1 or (per_stage > 1 and asked.order != "interleaved"):
        raise BadInput(
            f"{parts} parts do not lie on {asked.stages} stages in the order {asked.order}; give one part a stage, or "
            "a whole number of them each with the order interleaved"
        )
    if asked.order == "interleaved" and asked.microbatches % asked.stages:
        raise BadInput(
            f"the order interleaved needs microbatches that are a multiple of its {asked.stages} stages, not "
            f"{asked.microbatches}"
        )
    if not np.isfinite(asked.transfer_s) or asked.transfer_s < 0:
        raise BadInput(f"transfer_s must be finite and not negative, not {asked.transfer_s}")
    return parts


def _each(seconds: Floats, asked: Pipeline) -> Floats:
    """Seconds by part and microbatch."""
    given = np.asarray(seconds, dtype=np.float64)
    whole = (len(asked.forward_s), asked.microbatches)
    if given.shape not in ((whole[0],), whole) or not np.isfinite(given).all() or given.min() <= 0:
        raise BadInput(f"times of passes must be above 0, one for each of {whole[0]} parts, or {whole[0]} × {whole[1]}")
    return np.broadcast_to(given[:, None] if given.ndim == 1 else given, whole)
