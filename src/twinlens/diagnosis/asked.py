"""Parts of a spec that a diagnosis needs: the model, how it was computed, on how many devices, and its target."""

from __future__ import annotations

from typing import Any

from twinlens.diagnosis.decoder import Decoder
from twinlens.diagnosis.flip import Trained
from twinlens.diagnosis.phase import Phase, known
from twinlens.errors import BadInput
from twinlens.record.executor.field import formats_of
from twinlens.record.run import Run
from twinlens.spec.model.shape import DecoderShape
from twinlens.spec.precision import AS_FOUND, AS_SERVED, Precision
from twinlens.spec.workload.workload import InferenceWorkload, TrainingWorkload
from twinlens.stats.summary.serving import is_served
from twinlens.theory.memory import layout_of
from twinlens.theory.traffic import training_step_bytes


def shape_of(run: Run) -> DecoderShape | None:
    """The shape of the model; None where it is not here any more, or has no layers of a decoder."""
    try:
        shape: Any = run.spec.model.shape
    except BadInput:
        return None
    return shape if isinstance(shape, DecoderShape) else None


def decoder_of(run: Run, phases: tuple[Phase, ...]) -> Decoder | None:
    """The decoder that ran in this process; None where batches are uneven, or its shape or formats are not known."""
    workload, regime, shape = run.spec.workload, run.spec.precision, shape_of(run)
    decode = next((phase for phase in phases if phase.name == "decode" and phase.seconds), None)
    if decode is None or shape is None or not isinstance(workload, InferenceWorkload):
        return None
    if is_served(run) or regime == AS_SERVED:
        return None
    prompt, answer = workload.input_tokens.max, workload.output_tokens.max
    return Decoder(shape, regime, run.spec.point.batch, prompt, answer, decode.kernel_bytes)


def trained_of(run: Run) -> Trained | None:
    """A training step of a decoder as work per sample, in one microbatch; None of accumulation, of an adapter's
    training and of other models."""
    workload, shape, facts = run.spec.workload, shape_of(run), run.facts
    flop = known(facts.work, "step_flop") if facts else None
    if not isinstance(workload, TrainingWorkload) or shape is None or flop is None or run.spec.precision == AS_FOUND:
        return None
    if (run.spec.point.microbatch or workload.global_batch) != workload.global_batch:
        return None
    if workload.method != "full":
        return None
    layout = layout_of(run.spec.precision)
    one, two = (float(training_step_bytes(shape, layout, many, workload.seq_len)) for many in (1, 2))
    return Trained(workload.global_batch, flop / workload.global_batch, 2 * one - two, two - one)


def precision_of(run: Run) -> Precision | None:
    """The precision that was asked of an engine in this process; None where a server or loop has its own."""
    return None if is_served(run) or run.spec.precision in (AS_SERVED, AS_FOUND) else run.spec.precision


def engine_formats_of(run: Run) -> dict[str, str]:
    """Formats that the matrix engine multiplies natively, or emulates; empty where it is not known."""
    return formats_of(run.facts.executor.value("accelerator.architecture")) if run.facts else {}


def devices_of(run: Run) -> int:
    """Devices that one model ran on; a run that says nothing of it had one."""
    told = run.facts.executor.value("training.world_size") if run.facts else None
    return told if isinstance(told, int) and told > 0 else 1


def slo_share_of(run: Run) -> float | None:
    """The share of requests that must keep the SLO; None without one."""
    workload = run.spec.workload
    slo = workload.slo if isinstance(workload, InferenceWorkload) else None
    return None if slo is None else slo.quantile
