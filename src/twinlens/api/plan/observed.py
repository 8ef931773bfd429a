"""Measured runs as questions of predictions with their answers; runs that are of no use, each with why."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from twinlens.api.runs import material_of, read
from twinlens.diagnosis.decoder import shape_of
from twinlens.errors import BadInput
from twinlens.executors.torch.parallel.degrees import microbatch_of, stages_each
from twinlens.executors.torch.parallel.options import KIND as PARALLEL
from twinlens.executors.torch.parallel.options import ParallelOptions
from twinlens.planning.prediction.calibrate import Lens, Observation
from twinlens.planning.prediction.question import ServingQuestion, TrainingQuestion
from twinlens.planning.prediction.work import STORED
from twinlens.record.run import Run
from twinlens.spec.device import Device, find_device
from twinlens.spec.model.shape import DecoderShape
from twinlens.spec.workload.workload import InferenceWorkload, TrainingWorkload
from twinlens.stats.summary.group import Summary


def observed(
    runs: Iterable[str | Path | Run],
    card: Device | None,
    precision: str | None,
    tensor: int,
    engine: str | None,
    lens: Lens | None = None,
) -> tuple[list[tuple[str, Observation]], list[tuple[str, str]]]:
    """Runs that answer a question of predictions, by name, and those left out with why.

    Without `card` each run is of the device that its driver named. `lens`: the other's runs are left out. Raises
    BadInput where none is of use.
    """
    observations: list[tuple[str, Observation]] = []
    left_out: list[tuple[str, str]] = []
    for run, summary in material_of(_runs(runs)):
        try:
            found = _observation(run, summary, card or _device_of(run), precision, tensor, engine)
            if lens not in (None, found.lens):
                raise BadInput(f"is a run of {'inference' if lens == 'training' else 'training'}")
            observations.append((run.id, found))
        except BadInput as why:
            left_out.append((run.id, str(why)))
    if not observations:
        reasons = "; ".join(f"{name} {why}" for name, why in left_out[:3])
        raise BadInput(f"none of these runs can calibrate: {reasons or 'there are none'}")
    return observations, left_out


def _runs(runs: Iterable[str | Path | Run]) -> list[Run]:
    return [own for each in runs for own in ([each] if isinstance(each, Run) else read(each))]


def _device_of(run: Run) -> Device:
    product = str(run.facts.executor.value("accelerator.product") or "") if run.facts else ""
    if (found := find_device(product)) is None:
        named = f"ran on {product[:60]}, which is not in the catalogue" if product else "does not say its device"
        raise BadInput(f"{named}: name it with --device, or give a --probe of it")
    return found


def _observation(
    run: Run, summary: Summary, card: Device, precision: str | None, tensor: int, engine: str | None
) -> Observation:
    """Raises BadInput with why the run is left out."""
    shape = shape_of(run)
    if shape is None:
        raise BadInput("is of a model that is no decoder here")
    values = {name: each.value for name, each in summary.metrics.items()}
    if isinstance(run.spec.workload, InferenceWorkload):
        served = _served(run, shape, card, precision, tensor, engine)
        found = Observation(served, values.get("tpot_s_p50"), values.get("ttft_s_p50"))
    else:
        if summary.validity != "valid":
            raise BadInput(f"is {summary.validity} ({summary.label})")
        found = Observation(_trained(run, shape, card, precision, engine), step_s=values.get("step_s_p50"))
    if not list(found.measured()):
        raise BadInput("has no time of a step" if found.lens == "training" else "has neither a TPOT nor a TTFT")
    return found


def _served(
    run: Run, shape: DecoderShape, card: Device, precision: str | None, tensor: int, engine: str | None
) -> ServingQuestion:
    workload, point, kind = run.spec.workload, run.spec.point, run.spec.executor.kind
    assert isinstance(workload, InferenceWorkload)
    if point.rate_per_s is None and point.concurrency is None:
        raise BadInput("has neither a rate nor users")
    return ServingQuestion(
        model=workload.model,
        shape=shape,
        device=card,
        precision=precision or (point.precision if point.precision in STORED else "bf16"),
        prompt=_mean(workload.input_tokens),
        answer=_mean(workload.output_tokens),
        users=None if point.rate_per_s is not None else point.concurrency,
        requests_per_s=point.rate_per_s,
        tensor=tensor,
        engine=engine or {"tensorrt-llm": "trtllm", "llama-cpp": "llama.cpp"}.get(kind, kind),
    )


def _trained(
    run: Run, shape: DecoderShape, card: Device, precision: str | None, engine: str | None
) -> TrainingQuestion:
    """One device, or the ranks of `torch-parallel`: FSDP is known by that name to the public rows, too."""
    workload, point, kind = run.spec.workload, run.spec.point, run.spec.executor.kind
    assert isinstance(workload, TrainingWorkload)
    if kind not in ("torch", PARALLEL):
        raise BadInput(f"was trained by {kind}, whose layout is not known")
    named = precision or point.precision
    if named not in STORED:
        raise BadInput(f"trained in {named}, which predictions do not know; say the nearest with --precision")
    options = ParallelOptions.of(run.spec.executor.options) if kind == PARALLEL else ParallelOptions(ranks=1)
    if options.parallel == "hsdp":
        raise BadInput("was sharded within copies (hsdp), which predictions do not know")
    form = run.facts.executor.value("accelerator.form_factor") if run.facts else None
    if options.ranks > 1 and form == "processor":
        raise BadInput(f"has {options.ranks} ranks that shared one processor, which predictions take for one device")
    return TrainingQuestion(
        model=workload.model,
        shape=shape,
        device=card,
        precision=named,
        devices=options.ranks,
        sequences=float(workload.global_batch),
        length=float(workload.seq_len),
        microbatch=float(microbatch_of(run.spec, options)),
        tensor=options.split,
        pipeline=options.stages,
        virtual=stages_each(options),
        gathered=options.parallel == "fsdp2",
        recompute=workload.checkpointing,
        engine=engine or ("fsdp" if options.parallel == "fsdp2" else "torch"),
    )


def _mean(lengths: Any) -> float:
    """Mean length of a law; the middle of a range."""
    for name in ("value", "mean"):
        if hasattr(lengths, name):
            return float(getattr(lengths, name))
    if hasattr(lengths, "values"):
        counts = lengths.counts or (1,) * len(lengths.values)
        return float(sum(v * c for v, c in zip(lengths.values, counts, strict=True)) / sum(counts))
    return (float(lengths.min) + float(lengths.max)) / 2.0
