"""Memory that theory predicts for training an adapter, or for one process of parallel training, put beside what was
counted."""

from __future__ import annotations

from dataclasses import replace

from twinlens.executors.registry import executor
from twinlens.record.estimate import Estimate
from twinlens.record.executor.facts import Estimates
from twinlens.spec.model.shape import DecoderShape, ModelShape
from twinlens.spec.study import RunSpec
from twinlens.spec.workload.workload import TrainingWorkload
from twinlens.theory.activation import Checkpointing
from twinlens.theory.adapter import Tuned, tuned
from twinlens.theory.memory import layout_of
from twinlens.theory.sharding import ShardedMemory, Split, sharded_memory
from twinlens.units import BYTES


def predicted_memory(spec: RunSpec) -> Estimates:
    """Weights, gradients, optimizer state and activations; of parallel training those of the fullest process.

    Empty where all weights are trained in one process or no model runs, and for layers that theory has no formula for.
    """
    if spec.lens == "collective":
        return {}
    if isinstance(spec.workload, TrainingWorkload) and spec.workload.method != "full":
        return _of_adapter(tuned(spec.workload, spec.model.shape, spec.precision))
    held = memory_of_rank(spec)
    if held is None:
        return {}
    method = "theory/sharding.py, the fullest process"
    state = {
        "weights_bytes": held.weights_bytes,
        "gradients_bytes": held.gradients_bytes,
        "optimizer_bytes": held.optimizer_bytes,
    }
    if held.master_bytes:
        state["master_bytes"] = held.master_bytes
    predicted = {f"predicted_{name}": Estimate(float(size), BYTES, method, "modelled") for name, size in state.items()}
    return predicted | {"predicted_activations_bytes": _activations(spec)}


def _activations(spec: RunSpec) -> Estimate:
    """Of one microbatch after its forward pass, on the fullest process: its layers, and the scores once in fp32."""
    shape, workload, divide = spec.model.shape, spec.workload, executor(spec.executor.kind).degrees
    assert isinstance(shape, DecoderShape)
    assert isinstance(workload, TrainingWorkload)
    assert divide is not None
    degrees = divide(spec)
    if degrees.tensor > 1:
        return Estimate.absent(BYTES, "theory takes tensor parallelism with sequence parallelism, which none has here")
    if workload.checkpointing or spec.executor.options.get("attention") == "eager":
        return Estimate.absent(BYTES, "theory has the peak, in which a layer is recomputed or scores are written out")
    if spec.point.precision == "bf16" and degrees.zero < 3:
        return Estimate.absent(BYTES, "autocast keeps casts of weights beside activations, which theory leaves out")
    one = memory_of_rank(spec, microbatches=1)
    assert one is not None
    scores = 4.0 * (degrees.microbatch or workload.global_batch // degrees.data) * workload.seq_len * shape.vocab
    method = "theory/activation.py, one microbatch of the fullest process"
    return Estimate(float(one.activations_bytes) + scores, BYTES, method, "modelled")


def _of_adapter(tune: Tuned | None) -> Estimates:
    if tune is None:
        return {}
    trained, layout, method = tune.parameters, tune.layout, "theory/adapter.py"
    sizes = {
        "weights_bytes": tune.frozen_bytes,
        "adapter_bytes": trained * layout.weights,
        "gradients_bytes": trained * layout.gradients,
        "optimizer_bytes": trained * layout.optimizer,
    }
    return {f"predicted_{name}": Estimate(float(size), BYTES, method, "modelled") for name, size in sizes.items()}


def memory_of_rank(
    spec: RunSpec, microbatches: int | None = None, of: ModelShape | None = None
) -> ShardedMemory | None:
    """None for an executor that divides nothing, and for a model whose division theory does not know.

    `of`: another model that is divided as this one. `microbatches` of a step, of which a pipeline keeps some at once;
    None: as many as there are.
    """
    divide, shape, workload = executor(spec.executor.kind).degrees, of or spec.model.shape, spec.workload
    if divide is None or not isinstance(shape, DecoderShape) or not isinstance(workload, TrainingWorkload):
        return None
    degrees = divide(spec)
    kept: Checkpointing = "full" if workload.checkpointing else "none"
    split = Split(
        data=degrees.data // degrees.copies,
        tensor=degrees.tensor,
        pipeline=degrees.pipeline,
        zero=degrees.zero,
        microbatches=microbatches or degrees.microbatches,
    )
    microbatch = degrees.microbatch or workload.global_batch // degrees.data
    layout = replace(layout_of(spec.precision), cast=0.0)  # what autocast copies is gone after the backward pass
    if degrees.keeps_master:
        layout = replace(layout, master=4.0)
    return sharded_memory(shape, layout, split, microbatch, workload.seq_len, kept)
