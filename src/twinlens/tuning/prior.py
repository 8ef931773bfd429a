"""Predictions of a candidate before it costs anything: one that cannot keep its limits is left out.

A prediction is never a measurement. Where it has none (a processor, a model of another kind, a load that it does not
know), nothing is left out.
"""

from __future__ import annotations

from twinlens.errors import BadInput
from twinlens.planning.prediction.answer import Said, ServingAnswer, serving_answer
from twinlens.planning.prediction.place import is_calibrated_kind
from twinlens.planning.prediction.question import ServingQuestion, engine_of
from twinlens.planning.prediction.work import STORED
from twinlens.schedule.draw import mean_length
from twinlens.spec.device import Device, find_device
from twinlens.spec.model.shape import DecoderShape
from twinlens.spec.study import RunSpec
from twinlens.spec.tune import Constraint
from twinlens.spec.workload.workload import InferenceWorkload
from twinlens.system.nvml import open_gpus

_TAILS = ("_p90", "_p95", "_p99")
"""Quantiles that lie above the mean, which is what is predicted."""


def device_here(spec: RunSpec) -> Device | None:
    """The first GPU of this machine, as the catalogue knows it; None on a processor, or for one that it does not."""
    if spec.device.kind == "cpu":
        return None
    gpus, _ = open_gpus()
    name = gpus[0].ask("nvmlDeviceGetName") if gpus else None
    return find_device(str(name)) if name else None


def beyond(spec: RunSpec, constraints: tuple[Constraint, ...], device: Device | None) -> str:
    """Why a candidate cannot keep a limit, by twice the band of the prediction, in one sentence; "" where it may."""
    answer = _predicted(spec, device)
    if answer is None:
        return ""
    for constraint in constraints:
        said = _said(constraint.metric, answer)
        if said is None or constraint.at_most is None:
            continue
        least = said.value * (said.low / said.value) ** 2
        if least > constraint.at_most:
            over, still = said.value / constraint.at_most, least / constraint.at_most
            return (
                f"{constraint.metric} is predicted {over:.1f} times over its limit, and {still:.1f} times at twice the "
                "width of the band"
            )
    return ""


def _predicted(spec: RunSpec, device: Device | None) -> ServingAnswer | None:
    workload, point, shape = spec.workload, spec.point, spec.model.shape
    if device is None or not is_calibrated_kind(device) or not isinstance(shape, DecoderShape):
        return None
    if not isinstance(workload, InferenceWorkload) or point.precision not in STORED:
        return None
    if (point.rate_per_s is None) == (point.concurrency is None):
        return None
    prompt, answer = mean_length(workload.input_tokens), mean_length(workload.output_tokens)
    tensor = spec.executor.options.get("tensor_parallel", 1)
    try:
        return serving_answer(
            ServingQuestion(
                workload.model, shape, device, point.precision, prompt, answer,
                users=None if point.rate_per_s is not None else point.concurrency, requests_per_s=point.rate_per_s,
                tensor=tensor if isinstance(tensor, int) else 1,
                engine=engine_of(spec.executor.kind),
            )
        )  # fmt: skip
    except BadInput:
        return None  # whatever keeps a plan from answering is looked at by what refuses a run


def _said(metric: str, answer: ServingAnswer) -> Said | None:
    if not metric.endswith(_TAILS):
        return None
    return answer.ttft_s if metric.startswith("ttft_s") else answer.tpot_s if metric.startswith("tpot_s") else None
