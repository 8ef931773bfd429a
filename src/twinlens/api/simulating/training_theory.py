"""A training modelled by theory: the step of the planner's calibrated roofline, its pipeline played pass by pass."""

from __future__ import annotations

from collections.abc import Mapping

from twinlens.api.simulating.basis import device_named
from twinlens.api.simulating.settings import UNREADABLE
from twinlens.api.simulating.training_basis import factors_of, pipelined, step_of, workload_of
from twinlens.api.simulating.training_settings import TrainingSettings
from twinlens.errors import BadInput
from twinlens.planning.capacity.training import memory_of
from twinlens.planning.fit.training_answer import usual_zero
from twinlens.planning.prediction.answer import refuse_processor, training_answer
from twinlens.planning.prediction.band import shipped
from twinlens.planning.prediction.question import TrainingQuestion
from twinlens.simulation.training.course import Constant, Course
from twinlens.simulation.training.forecast import Known
from twinlens.simulation.training.steps import Lognormal
from twinlens.spec.model.shape import DecoderShape
from twinlens.spec.study import RunSpec

_TO_95 = 1.959964 / 1.644854
"""Of a constant's interval at 95 % over a band that holds nine of ten."""


def modelled(spec: RunSpec, name: str, said: TrainingSettings, devices: int) -> Known:
    """A step as `plan capacity` predicts it, with the band of its predictions. Raises BadInput."""
    question = _question(spec, name, said, devices)
    refuse_processor(question.device, shipped()["training"])
    answer = training_answer(question)
    parts = {each.removesuffix("_s"): seconds for each, seconds in answer.parts_s.items()}
    parts = _faster(parts, said.factors)
    moved_inside, moved = parts["tensor"] + parts["expert"], parts["data"]
    inside = sum(parts[each] for each in ("products", "attention", "elementwise", "overhead")) + moved_inside
    made = None
    if question.pipeline > 1:
        many = round(question.sequences / (question.microbatch * _copies(question)))
        stages = question.pipeline * question.virtual
        passes = 3.0 - question.adapters + question.recompute
        each_s = inside / many / question.virtual
        made = pipelined([each_s / passes] * stages, [each_s * (1 - 1 / passes)] * stages, many, said,
                         {"optimizer_s": parts["optimizer"], "exposed_s": moved})  # fmt: skip
    total_s = made.total_s if made is not None else inside + moved + parts["optimizer"]
    bubble = made.passes.idle_share * made.passes.makespan_s / total_s if made is not None else 0.0
    exchanged = (moved_inside + moved) / total_s
    shares = {"compute": 1 - bubble - exchanged, "communication": exchanged, "bubble": bubble}
    band = answer.step_s.band
    level = Constant(1.0, band.low**_TO_95, band.high**_TO_95)
    doubts = [f"steps are modelled within × {band.low:.2f} to × {band.high:.2f} ({band.kind})"]
    if (memory := memory_of(question)) is not None and memory.fits is False:
        doubts.append("a step does not fit in the memory of each device, as `twinlens plan fit` counts it")
    if question.devices > 1 and said["jitter"] is None:
        doubts.append("how much ranks vary is not known (--set jitter=5%): no rank waits for it here")
    course = Course(
        0, Lognormal(total_s, said["jitter"] or 0.0), factors_of(question.devices, said), level=level,
        source=f"theory and {question.devices} × {question.device.name}, as {question.engine}",
    )  # fmt: skip
    named, timeline = f"{question.devices} × {question.device.name}", made.passes if made is not None else None
    lacks = ("save", "restart", "startup", "data")
    return Known(course, step_of(spec), shares, "modelled", named, timeline, tuple(doubts), lacks)


def _copies(question: TrainingQuestion) -> int:
    return int(question.devices // (question.tensor * question.pipeline * question.context))


def _question(spec: RunSpec, name: str, said: TrainingSettings, devices: int) -> TrainingQuestion:
    """The step as a question to the planner. Raises BadInput (TL250) for a division that leaves something over."""
    workload, shape = workload_of(spec), spec.model.shape
    if not isinstance(shape, DecoderShape):
        raise BadInput(f"{workload.model} is no decoder: its steps are not modelled", code=UNREADABLE)
    many, tensor, stages = said["ranks"] or devices, said["tensor"] or 1, said["pipeline"] or 1
    parts = said["parts"] or 1
    if many % (tensor * stages):
        raise BadInput(f"{many} ranks do not divide into groups of {tensor * stages} (tensor {tensor} × pipeline "
                       f"{stages}); take a multiple of that", code=UNREADABLE)  # fmt: skip
    if shape.layers % (stages * parts):
        raise BadInput(f"{shape.layers} layers do not divide into {stages * parts} parts of a pipeline; take a divisor "
                       "of them", code=UNREADABLE)  # fmt: skip
    if stages == 1 and (lonely := next((each for each in ("parts", "schedule") if said[each] is not None), None)):
        raise BadInput(f"{lonely} is of a pipeline, and there is none: --set pipeline=4", code=UNREADABLE)
    copies = many // (tensor * stages)
    if workload.global_batch % copies:
        raise BadInput(f"a batch of {workload.global_batch} sequences does not divide among {copies} copies of the "
                       "model; --set workload.global_batch=…", code=UNREADABLE)  # fmt: skip
    own = workload.global_batch // copies
    microbatch = own // said["microbatches"] if said["microbatches"] else min(spec.point.microbatch or own, own)
    if not microbatch or own % microbatch or (said["microbatches"] and own // microbatch != said["microbatches"]):
        raise BadInput(f"{own} sequences of a copy do not divide into microbatches of "
                       f"{microbatch or 'less than one'}", code=UNREADABLE)  # fmt: skip
    return TrainingQuestion(
        workload.model, shape, device_named(said["device"] or name), spec.point.precision, many,
        float(workload.global_batch), float(workload.seq_len), float(microbatch), tensor, stages, parts,
        gathered=many > 1 and usual_zero(tensor, stages, 1) == 3, recompute=workload.checkpointing,
        adapters=workload.method != "full", engine="fsdp" if tensor * stages == 1 else "megatron",
    )  # fmt: skip


def _faster(parts: Mapping[str, float], factors: Mapping[str, float]) -> dict[str, float]:
    """Parts of a step on a machine whose parts are so many times as fast."""
    of = {"products": "compute", "attention": "compute", "elementwise": "bandwidth", "optimizer": "bandwidth",
          "tensor": "link", "expert": "link", "data": "link", "overhead": "overhead"}  # fmt: skip
    return {name: seconds / factors.get(of.get(name, ""), 1.0) for name, seconds in parts.items()}
