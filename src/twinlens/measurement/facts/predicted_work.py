"""FLOP, bytes and idle share of one unit of work by theory, beside what the executor counted, each under its name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from twinlens.errors import BadInput
from twinlens.executors.registry import capabilities, executor
from twinlens.record.estimate import Estimate
from twinlens.record.executor.facts import Estimates
from twinlens.spec.device import find_device
from twinlens.spec.model.any_model import AnyModel
from twinlens.spec.model.config import knows, text_part
from twinlens.spec.model.shape import DecoderShape, ModelShape
from twinlens.spec.point import FROM_LOG
from twinlens.spec.precision import AS_SERVED, BITS, Precision
from twinlens.spec.study import RunSpec
from twinlens.spec.workload.workload import InferenceWorkload, TrainingWorkload
from twinlens.theory.adapter import Tuned, tuned
from twinlens.theory.flop import (
    CONVENTIONS,
    decode_flop,
    forward_flop_per_image,
    parameters,
    prefill_flop,
    training_flop_per_image,
    training_flop_per_token,
)
from twinlens.theory.memory import layout_of
from twinlens.theory.sharding import Split, bubble_share
from twinlens.theory.traffic import decode_step_bytes, prefill_bytes, training_step_bytes
from twinlens.theory.weight_format import widths
from twinlens.units import BYTES, BYTES_PER_S, COUNT, FLOP, FLOP_PER_S, RATIO, show

# Boost clocks are above those of datasheets by some per cent on consumer boards; a timer that is wrong, by factors.
_MOST_OVER_DATASHEET = 1.3
NOTHING: Mapping[str, str] = MappingProxyType({})
_QUOTED_BY = {
    "copy_bytes_per_s": "datasheet_bytes_per_s",
    "read_bytes_per_s": "datasheet_bytes_per_s",
    "matrix_flop_per_s": "datasheet_flop_per_s",
    "matrix_flop_per_s_at": "datasheet_flop_per_s",
    "matrix_burst_flop_per_s": "datasheet_flop_per_s",
}


def theory_of(spec: RunSpec, head: str | None = None, found: Mapping[str, str] = NOTHING) -> Estimates:
    """Work of one step, or of one prefill and one decode step of the whole batch; origin "modelled".

    Absent with the reason for a model of a server's that theory does not know; none where no model runs, or a trainer
    of the user's whose log alone is read. `head`: the
    format of an output head that a quantised folder leaves wider. `found`: formats by tensor class that a runtime took
    in place of the precision's.
    """
    if spec.lens == "collective" or spec.executor.kind == FROM_LOG:
        return {}
    return work_of(spec, asked_model(spec), head, found)


def work_of(spec: RunSpec, ref: AnyModel, head: str | None = None, found: Mapping[str, str] = NOTHING) -> Estimates:
    """The same for a model that is at hand, whatever its name in the spec."""
    shape = ref.shape
    regime = replace(
        spec.precision,
        inference=spec.precision.inference | {name: kept for name, kept in found.items() if kept in BITS},
    )
    if shape is None:
        return _unknown(spec, ref.why)
    count = parameters(shape)
    counted = "exact count from the config" + (", of its text part" if text_part(ref.config) else "")
    work = {
        "parameters": _modelled(count.total, COUNT, counted),
        "active_parameters": _modelled(count.active, COUNT, counted),
    }
    if isinstance(spec.workload, TrainingWorkload):
        return work | _training(spec, spec.workload, shape, regime)
    assert isinstance(spec.workload, InferenceWorkload)
    return work | _inference(spec, spec.workload, shape, regime, head)


def _unknown(spec: RunSpec, why: str) -> Estimates:
    """Nothing of it is known, and each figure says why; parameters, the executor may count."""
    units = ["step"] if spec.lens == "training" else ["prefill", "decode"]
    named = dict.fromkeys(("parameters", "active_parameters"), COUNT)
    named |= {f"{unit}_flop": FLOP for unit in units} | {f"{unit}_bytes": BYTES for unit in units}
    return {name: Estimate.absent(unit, why) for name, unit in named.items()}


def datasheet_of(product: Any, regime: Precision, boards: int = 1) -> Estimates:
    """The datasheet's dense rate and bandwidth of so many devices as the driver names them: as many as the measured
    ceilings are of. Empty for an unknown device, and for boards that differ, of which no one rate is stated."""
    device = find_device(product) if isinstance(product, str) else None
    if device is None:
        return {}
    rate = device.rate(regime.compute)
    source = device.source if boards == 1 else f"{boards} boards; {device.source}"
    quoted = {"datasheet_bytes_per_s": _quoted(boards * device.bandwidth_bytes_per_s, BYTES_PER_S, source)}
    return quoted | ({"datasheet_flop_per_s": _quoted(boards * rate, FLOP_PER_S, source)} if rate else {})


def clocked(bytes_per_s: Any, boards: int = 1) -> Estimates:
    """The most that the memory of so many boards without a datasheet gives, by the driver's clock and bus width: a
    bound for what is measured, and nothing that a share is made with. Empty where the driver does not say it."""
    if not isinstance(bytes_per_s, int | float):
        return {}
    method = "its highest memory clock × bus width, by the driver"
    return {"datasheet_bytes_per_s": Estimate(float(boards * bytes_per_s), BYTES_PER_S, method, "derived")}


def coverage_of(work: Estimates) -> Estimates:
    """Counted FLOP of one real pass over FLOP by theory, at most 1: below it the counter missed products.

    The same for every pass of one spec. Attention written out and recomputation count more than theory, never less.
    """
    for counted, modelled in (("counted_step_flop", "step_flop"), ("counted_prefill_flop", "prefill_flop"),
                              ("counted_image_flop", "image_flop")):  # fmt: skip
        known = work[counted].value if counted in work else None
        if known is not None and modelled in work and (least := work[modelled].value):  # not counted is not 0 %
            share = min(1.0, known / least)
            method = f"FLOP counted on one real pass / FLOP by theory ({work[modelled].method}), at most 1"
            return {"flop_coverage": Estimate(share, RATIO, method, "derived", n=1)}
    return {}


def within_datasheet(ceilings: Estimates, sheet: Estimates) -> Estimates:
    """Ceilings without those that no board reaches: a clock or a stream that was not the board's is no ceiling."""
    possible = dict(ceilings)
    for name, of in _QUOTED_BY.items():
        rate, most = ceilings.get(name), sheet.get(of)
        if rate and most and rate.value and most.value and rate.value > _MOST_OVER_DATASHEET * most.value:
            whose = "the datasheet" if most.origin == "quoted" else "its memory's clock and bus"
            reason = (
                f"measured {show(rate.value, rate.unit)}, above the {show(most.value, most.unit)} of {whose}: "
                "not a rate of this device"
            )
            possible[name] = Estimate.absent(rate.unit, reason, rate.method)
    return possible


def _training(spec: RunSpec, workload: TrainingWorkload, shape: ModelShape, regime: Precision) -> Estimates:
    microbatch = spec.point.microbatch or workload.global_batch
    accumulation = workload.global_batch // microbatch
    if not isinstance(shape, DecoderShape):
        flop = training_flop_per_image(shape) * workload.global_batch
        moved = training_step_bytes(shape, layout_of(regime), microbatch, None, accumulation)
        return _step({"causal": flop}, moved)
    tokens = workload.global_batch * workload.seq_len
    if workload.method != "full":
        return _of_adapter(tuned(workload, shape, regime), workload, microbatch, accumulation)
    by_convention: dict[str, float] = {
        c: training_flop_per_token(shape, workload.seq_len, c) * tokens for c in CONVENTIONS
    }
    moved = training_step_bytes(shape, layout_of(regime), microbatch, workload.seq_len, accumulation)
    return _step(by_convention, moved)


def _of_adapter(tune: Tuned | None, workload: TrainingWorkload, microbatch: int, accumulation: int) -> Estimates:
    if tune is None:
        why = "theory counts adapters on the projections of dense decoders, and these layers are others"
        return {"step_flop": Estimate.absent(FLOP, why), "step_bytes": Estimate.absent(BYTES, why)}
    flop = tune.flop_per_token(workload.seq_len) * workload.global_batch * workload.seq_len
    moved = tune.step_bytes(microbatch, workload.seq_len, accumulation)
    words = "convention causal; weights that stay take no gradient, recomputation not counted"
    least = "compulsory traffic: weights that stay, the adapter and its state, kept activations"
    return {"step_flop": _modelled(flop, FLOP, words), "step_bytes": _modelled(moved, BYTES, least)}


def _step(by_convention: dict[str, float], moved: float) -> Estimates:
    work = {
        f"step_flop_{name.replace('-', '_')}": _modelled(flop, FLOP, f"convention {name}")
        for name, flop in by_convention.items()
    }
    work["step_flop"] = _modelled(by_convention["causal"], FLOP, "convention causal, recomputation not counted")
    work["step_bytes"] = _modelled(moved, BYTES, "compulsory traffic: weights, gradients, state, kept activations")
    return work


def _inference(
    spec: RunSpec, workload: InferenceWorkload, shape: ModelShape, regime: Precision, head: str | None
) -> Estimates:
    batch = spec.point.batch
    if not isinstance(shape, DecoderShape):
        return {"image_flop": _modelled(forward_flop_per_image(shape) * batch, FLOP, "forward pass of the batch")}
    length, answer = workload.input_tokens.max, workload.output_tokens.max
    context = length + answer // 2
    work = {
        "prefill_flop": _modelled(prefill_flop(shape, length) * batch, FLOP, "convention causal, longest prompt"),
        "prefill_bytes": Estimate.absent(BYTES, AS_SERVED.method),
        "decode_flop": _modelled(decode_flop(shape, context) * batch, FLOP, f"one step at {context} tokens of context"),
        "decode_bytes": Estimate.absent(BYTES, AS_SERVED.method),
    }
    if regime == AS_SERVED:  # FLOP do not depend on the formats of a server that is up; its traffic does
        return work
    kept = widths(shape, regime, head)
    formats = kept.weight_bits, kept.kv_bytes, kept.head_bits
    first, each = prefill_bytes(shape, length, batch, *formats), decode_step_bytes(shape, context, batch, *formats)
    return work | {
        "prefill_bytes": _modelled(first, BYTES, "weights once, KV written"),
        "decode_bytes": _modelled(each, BYTES, f"weights and KV at {context} tokens of context"),
    }


def _modelled(value: float, unit: str, method: str) -> Estimate:
    return Estimate(float(value), unit, method, "modelled", n=None)


def _quoted(value: float, unit: str, source: str) -> Estimate:
    return Estimate(float(value), unit, f"datasheet, dense: {source}", "quoted")


_ELSEWHERE = "the model is the server's, and nothing of it is here"


def asked_model(spec: RunSpec) -> AnyModel:
    """Raises BadInput (TL201, TL202) for a model that has to be here and is not, or cannot be read."""
    can = capabilities(spec.executor.kind)
    if can.prompts == "tokens" and (not can.takes_any_type or knows(spec.model.config)):
        spec.model.known()  # it needs the sizes
    try:
        return spec.model
    except BadInput:
        if can.runs != "elsewhere":
            raise
        return AnyModel(name=spec.workload.model, config={}, shape=None, source="the spec", why=_ELSEWHERE)


def predicted_bubble(spec: RunSpec) -> Estimates:
    """Empty for an executor without a pipeline. Interleaved, each rank's v stages divide the bubble by as many."""
    divide = executor(spec.executor.kind).degrees
    if spec.lens == "collective" or divide is None or (degrees := divide(spec)).pipeline == 1:
        return {}
    many = degrees.microbatches * degrees.stages_each
    share = float(bubble_share(Split(pipeline=degrees.pipeline, microbatches=many)))
    method = "(p − 1) / (v·m + p − 1), theory/sharding.py"
    return {"predicted_bubble_share": Estimate(share, RATIO, method, "modelled")}
