"""A step put together: passes of a pipeline, gradients exchanged beside the last of them, and the optimizer.

Each stage exchanges its gradients with its copies as they are made in its last backward pass, while later stages of the
drain still work. Numbers come from theory or from a measurement; exchanges of tensor parallelism stand on the path of
each pass, and are part of its seconds.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from twinlens.errors import BadInput
from twinlens.simulation.training.exchange import Exposed, Link, beside, buckets
from twinlens.simulation.training.pipeline import Pipeline, Timeline, timeline
from twinlens.simulation.work import Floats

BUCKET_BYTES, FIRST_BYTES = 25 * 2**20, 2**20
"""Of PyTorch's DistributedDataParallel (`bucket_cap_mb`)."""


@dataclass(frozen=True, slots=True, eq=False)
class Gradients:
    """Bytes of gradients by layer in the order of backward, one array for each stage; layers of a stage take alike.

    `link`: among the copies of the model.
    """

    layer_bytes: tuple[Floats, ...]
    link: Link
    bucket_bytes: float = BUCKET_BYTES
    first_bytes: float = FIRST_BYTES


@dataclass(frozen=True, slots=True, eq=False)
class Composed:
    """`passes`: the timeline. `exchanges`: those of each stage, from the start of the step; `exposed_s`: from
    the last pass to the last exchange. `total_s`: with the optimizer."""

    passes: Timeline
    exchanges: tuple[Exposed, ...]
    exposed_s: float
    optimizer_s: float

    @property
    def total_s(self) -> float:
        return self.passes.makespan_s + self.exposed_s + self.optimizer_s

    @property
    def shares(self) -> dict[str, float]:
        """Shares of the step by phase; the bubble is in forward and backward as their passes divide the makespan."""
        passes = self.passes
        lasts_s = passes.end_s - passes.begin_s
        backward = float(lasts_s[passes.is_backward].sum() / lasts_s.sum()) * passes.makespan_s / self.total_s
        forward = passes.makespan_s / self.total_s - backward
        exposed, optimizer = self.exposed_s / self.total_s, self.optimizer_s / self.total_s
        return {"forward": forward, "backward": backward, "communicate": exposed, "optimize": optimizer}


def composed(pipeline: Pipeline, optimizer_s: float, gradients: Gradients | None = None) -> Composed:
    """A step of a model whose copies exchange their gradients; none where there is one copy. Raises BadInput."""
    if not 0 <= optimizer_s < np.inf:
        raise BadInput(f"optimizer_s must be finite and not negative, not {optimizer_s}")
    passes = timeline(pipeline)
    if gradients is None:
        return Composed(passes, (), 0.0, optimizer_s)
    if len(gradients.layer_bytes) != pipeline.stages:
        raise BadInput(f"gradients need the bytes of the layers of each of {pipeline.stages} stages")
    exchanges = tuple(_exchanged(passes, stage, gradients) for stage in range(pipeline.stages))
    last_s = max(float(each.end_s[-1]) for each in exchanges)
    return Composed(passes, exchanges, max(0.0, last_s - passes.makespan_s), optimizer_s)


def _exchanged(passes: Timeline, stage: int, gradients: Gradients) -> Exposed:
    """Exchanges of one stage: each layer's gradients are whole in the last backward pass of its part."""
    own = np.flatnonzero((passes.stage == stage) & passes.is_backward)
    last = own[::-1][np.unique(passes.part[own][::-1], return_index=True)[1]]
    last = last[np.argsort(passes.end_s[last])]
    sizes = np.array_split(np.asarray(gradients.layer_bytes[stage], dtype=np.float64), len(last))
    done_s = np.concatenate([
        passes.begin_s[one] + (passes.end_s[one] - passes.begin_s[one]) * (np.arange(len(each)) + 1) / len(each)
        for one, each in zip(last, sizes, strict=True)
    ])  # fmt: skip
    ready_s, bytes_each = buckets(
        np.concatenate(sizes), np.diff(done_s, prepend=0.0), gradients.bucket_bytes, gradients.first_bytes
    )
    lasts_s = gradients.link.seconds("all-reduce", bytes_each)
    return beside(ready_s, lasts_s, float(passes.end_s[last[-1]]))
