"""Memory of a measured run as the base of `plan fit`: its model, its lens, its sizes, and its bytes by part."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from twinlens.api.plan.number import UNREADABLE
from twinlens.api.runs import material_of, read
from twinlens.diagnosis.decoder import shape_of
from twinlens.errors import BadInput
from twinlens.planning.fit.runtime import PLAIN, Measured, measured_parts
from twinlens.planning.fit.serving import Serving, serving_parts
from twinlens.planning.fit.training import Training, training_parts
from twinlens.planning.subject import Subject
from twinlens.record.run import Run
from twinlens.spec.precision import BITS
from twinlens.spec.workload.workload import InferenceWorkload, TrainingWorkload
from twinlens.theory.parameter import parameters
from twinlens.theory.sharding import Split

_PARTS = ("weights", "gradients", "optimizer", "activations", "kv", "peak")
_LAYOUTS = {"fp32": "fp32", "bf16": "16-bit-autocast", "fp16": "16-bit-autocast"}
"""How the runs of this program keep their state, by the precision that was asked for."""


@dataclass(frozen=True, slots=True)
class LikeMemory:
    """The run as a plan of its own, and what it measured over the arithmetic of that plan."""

    plan: Serving | Training
    parts: tuple[Measured, ...]


def like_memory(path: str | Path) -> LikeMemory:
    """The run with most parts. Raises BadInput (TL231) for a run that measured none apart."""
    found = [each for run, summary in material_of(read(path)) if (each := _of(run, summary.metrics)) is not None]
    if not found:
        raise BadInput(
            f"--like {str(path)[-60:]!r} measured no memory by part (a server takes its cache beforehand, so its peak "
            "is not what it needs); give a run of the torch executor, in bf16, fp16 or fp32",
            code=UNREADABLE,
        )
    return max(found, key=lambda each: len(each.parts))


def _of(run: Run, metrics: Any) -> LikeMemory | None:
    shape = shape_of(run)
    values = {part: metrics[f"{part}_bytes"].value for part in _PARTS if f"{part}_bytes" in metrics}
    measured = {part: float(value) for part, value in values.items() if value}
    if shape is None or "weights" not in measured:
        return None
    workload, point = run.spec.workload, run.spec.point
    subject = Subject(str(workload.model), int(parameters(shape).total), shape, "the run's config")
    if isinstance(workload, TrainingWorkload):
        if point.precision not in _LAYOUTS:
            return None
        batch = point.microbatch or workload.global_batch
        taught = Training(
            subject, layout=_LAYOUTS[point.precision], context=workload.seq_len, batch=batch,
            recompute="full" if workload.checkpointing else "none",
        )  # fmt: skip
        return LikeMemory(taught, measured_parts(training_parts(taught, Split()), measured, run.id))
    assert isinstance(workload, InferenceWorkload)
    kept = str(run.spec.precision.classes("inference")["kv"])
    context = int(workload.input_tokens.max + workload.output_tokens.max)
    if point.precision not in ("fp32", "bf16", "fp16"):
        return None
    many = point.batch or 1
    served = Serving(subject, point.precision, kept, BITS[kept] / 8, many, context, PLAIN, many)
    return LikeMemory(served, measured_parts(serving_parts(served, 0.0), measured, run.id))
