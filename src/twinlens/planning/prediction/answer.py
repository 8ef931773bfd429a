"""Answers to questions: each figure with its band, its parts, and how far calibration is."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from twinlens.errors import BadInput
from twinlens.planning.fit.answer import usable
from twinlens.planning.fit.runtime import runtime_of
from twinlens.planning.fit.serving import Serving, most_sequences
from twinlens.planning.prediction.band import LEVEL, Band, Calibrated, shipped
from twinlens.planning.prediction.place import architecture, is_calibrated_kind, layout_of, rates_of
from twinlens.planning.prediction.question import ServingQuestion, TrainingQuestion
from twinlens.planning.prediction.serving import Tail, closed_loop, closed_tail, open_loop, open_tail
from twinlens.planning.prediction.step_time import decode_step
from twinlens.planning.prediction.training import TrainingLayout, training_step
from twinlens.planning.prediction.work import held_format, stored, work_of
from twinlens.planning.subject import Subject
from twinlens.spec.device import Device
from twinlens.spec.model.shape import DecoderShape
from twinlens.theory.parameter import parameters


@dataclass(frozen=True, slots=True)
class Said:
    """One predicted number in SI units, with the ends of its band at `level` and what the band is of."""

    value: float
    low: float
    high: float
    band: Band
    level: float = LEVEL


@dataclass(frozen=True, slots=True)
class ServingAnswer:
    """What a copy of the model does under the load. `distance`: how many times beyond calibration each number lies."""

    tpot_s: Said
    ttft_s: Said
    prefill_s: float
    wait_s: float
    batch: float
    requests_per_s: float
    answer_tokens_per_s: float
    most_sequences: float
    step_parts_s: Mapping[str, float]
    distance: Mapping[str, float]
    unseen: tuple[str, ...]
    fitted_on: str
    tail: Tail
    """p99 by the queue of the means; no measurement holds it."""


@dataclass(frozen=True, slots=True)
class TrainingAnswer:
    """Time of a step and its parts, which add up to it."""

    step_s: Said
    tokens_per_s: float
    parts_s: Mapping[str, float]
    distance: Mapping[str, float]
    unseen: tuple[str, ...]
    fitted_on: str


def serving_answer(question: ServingQuestion, known: Calibrated | None = None) -> ServingAnswer:
    """Latency and throughput of one copy. Raises BadInput where one sequence has no room, or the queue no end."""
    known = known or shipped()["serving"]
    kept = question.kept
    work, rates = work_of(question.shape, kept), rates_of(question.device, kept, question.engine)
    layout = layout_of(question.engine, question.tensor, question.pipeline, question.data)
    fitted = known.constants.at(serving_groups(question))
    most = float(room(question))
    where = f"{question.devices} × {question.device.name}"
    if most < 1:
        raise BadInput(f"{question.model} in {question.precision} has no room for one sequence on {where}")
    if question.users is not None:
        served = closed_loop(work, rates, layout, fitted, question.users, question.prompt, question.answer,
                             most)  # fmt: skip
        tail = closed_tail(work, rates, layout, fitted, served, question.users, question.prompt, question.answer)
    else:
        served = open_loop(work, rates, layout, fitted, question.requests_per_s, question.prompt,
                           question.answer, most)  # fmt: skip
        if not np.isfinite(served.tpot_s):
            asked = f"{question.requests_per_s:g} requests/s"
            raise BadInput(f"{asked} are more than {where} can serve: the queue has no end")
        tail = open_tail(work, rates, layout, fitted, served, question.prompt, question.answer)
    context = question.prompt + question.answer / 2.0
    parts = decode_step(work, rates, layout, fitted, served.batch, context)
    load = question.users if question.users is not None else float(served.batch)
    return ServingAnswer(
        tpot_s=_said(float(served.tpot_s), "tpot", question, known),
        ttft_s=_said(float(served.ttft_s), "ttft", question, known),
        prefill_s=float(served.prefill_s),
        wait_s=float(served.wait_s),
        batch=float(served.batch),
        requests_per_s=float(served.requests_per_s),
        answer_tokens_per_s=float(served.requests_per_s) * question.answer,
        most_sequences=most,
        step_parts_s={each.name: float(getattr(parts, each.name)) for each in fields(parts)},
        distance=known.outside(
            batch=load, prompt=question.prompt, answer=question.answer, devices=float(question.devices)
        ),
        unseen=_unseen(question, known),
        fitted_on=known.fitted_on,
        tail=tail,
    )


def training_answer(question: TrainingQuestion, known: Calibrated | None = None) -> TrainingAnswer:
    """Time of one step of training; whether it fits is not asked here."""
    known = known or shipped()["training"]
    kept = stored({"mxfp8": "fp8", "fp16": "bf16"}.get(question.precision, question.precision))
    work, rates = work_of(question.shape, kept), rates_of(question.device, kept, question.engine)
    layout = TrainingLayout(
        question.devices,
        question.tensor,
        question.pipeline,
        question.virtual,
        question.context,
        question.expert,
        float(question.gathered),
        float(question.recompute),
        float(question.adapters),
    )
    fitted = known.constants.at(training_groups(question))
    parts = training_step(work, rates, layout, fitted, question.sequences, question.microbatch, question.length)
    step = float(parts.total_s)
    return TrainingAnswer(
        step_s=_said(step, question.metric, question, known),
        tokens_per_s=question.sequences * question.length / step,
        parts_s={each.name: float(getattr(parts, each.name)) for each in fields(parts)},
        distance=known.outside(batch=question.sequences, prompt=question.length, devices=float(question.devices)),
        unseen=_unseen(question, known),
        fitted_on=known.fitted_on,
    )


def refuse_processor(device: Device, known: Calibrated) -> None:
    """Raises BadInput (TL231) for a processor without own runs: constants of accelerators are 6 to 14 times off."""
    if not (known.own or is_calibrated_kind(device)):
        raise BadInput(
            f"{device.name} is a processor, and public measurements calibrate accelerators alone: its speed is not "
            "predicted; give --like RUN of one, or --device this on it",
            code="TL231",
        )


def serving_groups(question: ServingQuestion) -> tuple[str, ...]:
    """Groups of a question, and "own" for the user's own calibration."""
    product = stored(question.precision, question.shape).expert_product
    device = question.device
    return (
        *serving_labels(
            question.engine, device.vendor, architecture(device), product, question.shape, release=question.release
        ),
        "own",
    )


def training_groups(question: TrainingQuestion) -> tuple[str, ...]:
    """Groups of a question, and "own" for the user's own calibration."""
    arch = architecture(question.device)
    labels = training_labels(
        question.engine,
        arch,
        question.precision,
        question.shape,
        release=question.release,
        adapters=question.adapters,
    )
    return (*labels, "own")


def _said(value: float, metric: str, question: Any, known: Calibrated) -> Said:
    named = {"device": question.device.name, "engine": question.engine, "model": question.model}
    band = known.band(metric, **named, groups=getattr(question, "data", 1) > 1)
    return Said(value, value * band.low, value * band.high, band)


def _unseen(question: Any, known: Calibrated) -> tuple[str, ...]:
    names = {"device": question.device.name, "engine": question.engine, "model": question.model}
    return tuple(kind for kind, name in names.items() if name not in known.seen[kind])


# Groups of a question: what a constant may differ by.


def serving_labels(
    engine: str,
    vendor: str,
    arch: str,
    product: str,
    shape: DecoderShape,
    *,
    disaggregated: bool = False,
    scenario: str = "",
    release: str = "",
    era: str = "",
) -> tuple[str, ...]:
    """Groups of a question about serving. `era`: the year of software that is older than the others."""
    own = [f"engine:{engine}", f"arch:{arch}", f"vendor:{vendor}", f"format:{product}", f"engine+arch:{engine}+{arch}"]
    return (
        *own,
        *_kinds(shape),
        *(["disaggregated"] if disaggregated else []),
        *([f"scenario:{scenario}"] if scenario else []),
        *([f"release:{release}"] if release else []),
        *([f"era:{era}"] if era else []),
    )


def training_labels(
    engine: str, arch: str, precision: str, shape: DecoderShape, *, release: str = "", adapters: bool = False
) -> tuple[str, ...]:
    """Groups of a question about training. Releases differ most in mixtures of experts."""
    own = [f"engine:{engine}", f"arch:{arch}", f"format:{precision}"]
    young = [f"release:{release}"] if shape.experts and release else []
    return (*own, *_kinds(shape), *young, *(["adapters"] if adapters else []))


def _kinds(shape: DecoderShape) -> list[str]:
    kinds = {"experts": shape.experts, "latent": shape.mla, "recurrent": shape.recurrent}
    return [name for name, there in kinds.items() if there]


# Room of a question: sequences whose cache fits beside the weights, by the memory of `plan fit`.


def plan_of(question: ServingQuestion) -> Serving:
    """One user of a question as `plan fit` asks about it."""
    subject = question.subject or Subject(question.model, parameters(question.shape).total, question.shape)
    return Serving(
        subject,
        held_format(question.precision, subject),
        kv_element_bytes=question.kept.kv_bytes,
        context=math.ceil(question.prompt + question.answer),
        runtime=runtime_of(question.engine),
        pipeline=question.pipeline,
        groups=question.data,
    )


def room(question: ServingQuestion) -> int:
    """Whole sequences that one copy has room for at a time, over all its groups; 0 where not even one fits."""
    plan, device = plan_of(question), question.device
    bytes_each = usable(device, plan.runtime.memory_share).number
    return int(most_sequences(plan, bytes_each, device.known_memory_bytes, question.tensor))
