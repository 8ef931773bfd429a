"""The verb that moves the shipped constants to runs of one's own."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Unpack, get_args

from twinlens.api.documented import Documented
from twinlens.api.plan.reading.options import FORMAT, NAME, Catalogue, Probe, Tensor
from twinlens.api.plan.reading.subject import asked_device
from twinlens.api.question import Question, Verb, argument, asks, option
from twinlens.errors import BadInput
from twinlens.planning.prediction.band import Calibrated, calibrated_from, plain, shipped
from twinlens.planning.prediction.calibrate import Lens, Observation, calibrated, said
from twinlens.planning.prediction.work import STORED
from twinlens.record.run import Run
from twinlens.spec.catalogue import catalogue_of
from twinlens.system.document import read_json
from twinlens.system.home_folder import catalogue_folder
from twinlens.version import __version__

if TYPE_CHECKING:
    from twinlens.api.words import PlanCalibrateWords
    from twinlens.reporting.document.block import Document


from twinlens.api.runs import material_of, read
from twinlens.diagnosis.decoder import shape_of
from twinlens.executors.torch.parallel.entry import microbatch_of, stages_each
from twinlens.executors.torch.parallel.options import KIND as PARALLEL
from twinlens.executors.torch.parallel.options import ParallelOptions
from twinlens.planning.prediction.question import ServingQuestion, TrainingQuestion, engine_of
from twinlens.spec.device import Device, find_device
from twinlens.spec.model.shape import DecoderShape
from twinlens.spec.workload.workload import InferenceWorkload, TrainingWorkload
from twinlens.stats.summary.group import Summary


@dataclass(frozen=True, slots=True)
class Compared:
    """One measured time of a run beside what the public and the own constants say. Seconds."""

    run: str
    metric: str
    measured_s: float
    public_s: float
    own_s: float


@dataclass(frozen=True, slots=True, repr=False)
class Calibration(Documented):
    """Constants of one's own by lens ("serving", "training"), None where no run was of it, and how near they come to
    the runs that made them. `left_out`: runs, and why."""

    serving: Calibrated | None
    training: Calibrated | None
    compared: tuple[Compared, ...]
    left_out: tuple[tuple[str, str], ...] = ()

    def document(self, written: str | None = None) -> Document:
        from twinlens.reporting.plan.calibrate import calibrate_document

        rows = [(each.run, each.metric, each.measured_s, each.public_s, each.own_s) for each in self.compared]
        return calibrate_document(rows, self.left_out, written)

    def to_json(self) -> dict[str, Any]:
        lenses = {"serving": self.serving, "training": self.training}
        rows = [{"run": c.run, "metric": c.metric, "measured_s": c.measured_s, "public_s": c.public_s, "own_s": c.own_s}
                for c in self.compared]  # fmt: skip
        left = [{"run": run, "why": why} for run, why in self.left_out]
        own = {lens: plain(known) for lens, known in lenses.items() if known is not None}
        return {"schema": 1, "twinlens": __version__, **own, "compared": rows, "left_out": left}

    def write(self, path: str | Path) -> None:
        """A file for `tl.plan.constants`."""
        Path(path).write_text(json.dumps(self.to_json(), indent=1) + "\n", encoding="utf-8")


class CalibrateAsked(Question):
    """Which runs the constants of predictions are moved to."""

    runs: Annotated[tuple[Any, ...], argument("Folders of runs or of studies.", "RUN")]
    device: Annotated[str, option("What they ran on, where they do not say.", NAME)] | None = None
    precision: Annotated[str, option("Of the weights: bf16, fp8, nvfp4, int4 …", FORMAT)] | None = None
    tensor: Tensor = 1
    engine: Annotated[str, option("vllm, sglang, trtllm …, where a run does not say.", NAME)] | None = None
    probe: Probe | None = None
    catalogue: Catalogue | None = None


VERB = Verb("plan calibrate", (CalibrateAsked,), "runs --device H100 -o constants.json")


@asks(VERB)
def calibrate(*runs: str | Path | Run, **words: Unpack[PlanCalibrateWords]) -> Calibration:
    """Move the constants of predictions to your own runs, served or trained, and see how near they come.

    They are held to median TTFT and TPOT of each served run, at its rate or its users, and to the median step of each
    that trained on one device or over ranks. `device`: "this" or a `probe` is a device, too; without one, that of each
    run. Raises BadInput for an unknown device or precision, and where no run is of use.
    """
    asked = CalibrateAsked.read(VERB.name, {"runs": runs or None, **words})
    precision = asked.precision
    card, _ = asked_device(asked.device, asked.probe, catalogue_of(catalogue_folder(asked.catalogue)))
    if precision is not None and precision not in STORED:
        raise BadInput(f"unknown precision {precision!r}; predictions know {', '.join(STORED)}")
    observations, left_out = observed(asked.runs, card, precision, asked.tensor, asked.engine)
    found: dict[Lens, Calibrated | None] = {}
    rows: list[Compared] = []
    for lens in get_args(Lens):
        own = [each for each in observations if each[1].lens == lens]
        known = calibrated([each for _, each in own], today=datetime.now(UTC).date()) if own else None
        found[lens] = known
        rows += compared(own, known) if known else []
    return Calibration(found["serving"], found["training"], tuple(rows), tuple(left_out))


def constants(path: str | Path, lens: Lens = "serving") -> Calibrated:
    """Constants that `Calibration.write` wrote. Raises BadInput for another file, and where no run was of the lens."""
    found = own_constants(path)
    if lens not in found:
        raise BadInput(f"{Path(path).name} holds no constants of {lens}: none of its runs was of it")
    return found[lens]


def own_constants(path: str | Path) -> dict[Lens, Calibrated]:
    """The same of every lens that the file has."""
    file = Path(path)
    try:
        written = read_json(file)
        found = {each: calibrated_from(written[each]) for each in get_args(Lens) if each in written}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as wrong:
        raise BadInput(f"{file.name} holds no constants of `plan calibrate`: {wrong}") from None
    if not found:
        raise BadInput(f"{file.name} holds no constants of `plan calibrate`: neither of serving nor of training")
    return found


def compared(observations: Iterable[tuple[str, Observation]], own: Calibrated) -> Iterable[Compared]:
    """What was measured, what the public constants say, and what `own` say."""
    for name, seen in observations:
        for metric, seconds in seen.measured():
            public, mine = (said(seen.question, metric, known) for known in (shipped()[seen.lens], own))
            yield Compared(name, metric, seconds, public.value, mine.value)


# Measured runs as questions of predictions with their answers; runs that are of no use, each with why.


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
            if summary.is_simulated:
                raise BadInput("is simulated, and constants are fitted to what was measured")
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
        engine=engine or engine_of(kind),
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
