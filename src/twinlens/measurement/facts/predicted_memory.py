"""Memory that theory predicts for one process of parallel training, put beside what its ranks counted."""

from __future__ import annotations

from dataclasses import replace

from twinlens.executors.registry import executor
from twinlens.record.estimate import Estimate
from twinlens.record.executor.facts import Estimates
from twinlens.spec.model.shape import DecoderShape
from twinlens.spec.study import RunSpec
from twinlens.spec.workload.workload import TrainingWorkload
from twinlens.theory.memory import Checkpointing, layout_of
from twinlens.theory.sharding import ShardedMemory, Split, sharded_memory
from twinlens.units import BYTES


def predicted_memory(spec: RunSpec) -> Estimates:
    """Weights, gradients and optimizer state of the fullest process; empty for an executor that divides nothing."""
    held = memory_of_rank(spec)
    if held is None:
        return {}
    method = "theory/sharding.py, the fullest process"
    state = {
        "weights_bytes": held.weights_bytes,
        "gradients_bytes": held.gradients_bytes,
        "optimizer_bytes": held.optimizer_bytes,
    }
    return {f"predicted_{name}": Estimate(float(size), BYTES, method, "modelled") for name, size in state.items()}


def memory_of_rank(spec: RunSpec) -> ShardedMemory | None:
    """None for an executor that divides nothing, and for a model whose division theory does not know."""
    divide, shape, workload = executor(spec.executor.kind).degrees, spec.model.shape, spec.workload
    if divide is None or not isinstance(shape, DecoderShape) or not isinstance(workload, TrainingWorkload):
        return None
    degrees = divide(spec)
    share = workload.global_batch // degrees.data
    kept: Checkpointing = "full" if workload.checkpointing else "none"
    split = Split(data=degrees.data, tensor=degrees.tensor, zero=degrees.zero)
    microbatch = spec.point.microbatch or share
    layout = replace(layout_of(spec.precision), cast=0.0)  # what autocast copies is gone after the backward pass
    return sharded_memory(shape, layout, split, microbatch, workload.seq_len, kept)
