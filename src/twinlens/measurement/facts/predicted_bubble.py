"""The idle share that theory predicts for the schedule of a pipeline."""

from __future__ import annotations

from twinlens.executors.registry import executor
from twinlens.record.estimate import Estimate
from twinlens.record.executor.facts import Estimates
from twinlens.spec.study import RunSpec
from twinlens.theory.sharding import Split, bubble_share
from twinlens.units import RATIO


def predicted_bubble(spec: RunSpec) -> Estimates:
    """Empty for an executor without a pipeline. Interleaved, each rank's v stages divide the bubble by as many."""
    divide = executor(spec.executor.kind).degrees
    if spec.lens == "collective" or divide is None or (degrees := divide(spec)).pipeline == 1:
        return {}
    many = degrees.microbatches * degrees.stages_each
    share = float(bubble_share(Split(pipeline=degrees.pipeline, microbatches=many)))
    method = "(p − 1) / (v·m + p − 1), theory/sharding.py"
    return {"predicted_bubble_share": Estimate(share, RATIO, method, "modelled")}
