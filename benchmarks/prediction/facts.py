"""Facts of a case: the model's shape, how it is stored, ceilings of the device, groups, noise, and whether it fits."""

from __future__ import annotations

import numpy as np

from benchmarks.prediction.case import Case
from twinlens.planning.prediction import place
from twinlens.planning.prediction.answer import serving_labels, training_labels
from twinlens.planning.prediction.place import Rates
from twinlens.planning.prediction.work import Stored, stored, work_of
from twinlens.spec.model.reference import load_model
from twinlens.spec.model.shape import DecoderShape

TRAINING_KINDS = ("train-rate", "train-step")
_NOISE = {"ttft": 0.3, "static": 0.2}
_OTHERS, _EXPERTS, _DENSE = 0.12, 0.2, 0.08


def noise_of(case: Case) -> float:
    """Relative error at which a row begins to count as an outlier: what repeated measurements of its kind differ by.

    TTFT depends on when requests meet, a static batch on software of 2024, experts on how tokens are routed.
    """
    if case.kind in TRAINING_KINDS:
        return _EXPERTS if shape_of(case).experts else _DENSE
    return _NOISE.get(case.kind, _OTHERS)


def shape_of(case: Case) -> DecoderShape:
    shape = load_model(case.model).shape
    assert isinstance(shape, DecoderShape)
    return shape


def stored_of(case: Case) -> Stored:
    if case.kind in TRAINING_KINDS:
        return stored({"mxfp8": "fp8", "fp16": "bf16"}.get(case.precision, case.precision))
    return stored({"mxfp8": "fp8"}.get(case.precision, case.precision), shape_of(case))


def labels(case: Case) -> tuple[str, ...]:
    shape, card = shape_of(case), case.card
    if case.kind in TRAINING_KINDS:
        return training_labels(
            case.engine,
            place.architecture(card),
            case.precision,
            shape,
            release=str(case.more.get("version", "")),
            adapters=case.layout["frozen"] > 0,
        )
    return serving_labels(
        case.engine,
        card.vendor,
        place.architecture(card),
        stored_of(case).expert_product,
        shape,
        disaggregated="workers" in case.layout,
        scenario=str(case.more.get("scenario", "")),
        release=str(case.more.get("release", "")),
        era=str(case.more.get("era", "")),
    )


def rates_of(case: Case) -> Rates:
    return place.rates_of(case.card, stored_of(case), case.engine)


def misfit(case: Case) -> str:
    """Why a case of serving is not predicted: its weights have no room, or it is of a processor. "" where it is."""
    if case.kind in TRAINING_KINDS or case.kind == "memory":
        return ""
    if not place.is_calibrated_kind(case.card):
        return "a processor is not predicted by constants of accelerators"
    if "limit" in case.more:
        return ""
    layout, rates = case.layout, rates_of(case)
    degrees = ("tensor", "data", "pipeline", "stages") if "workers" not in layout else ("tensor", "data", "pipeline")
    devices = float(np.prod([layout.get(name, 1.0) for name in degrees]))
    need = float(work_of(shape_of(case), stored_of(case)).weight_bytes)
    if need <= devices * float(rates.memory_bytes) * 0.98:
        return ""
    room_gb = float(rates.memory_bytes) / 1e9
    return (
        f"weights of {need / 1e9:.0f} GB do not fit on {devices:.0f} × {room_gb:.0f} GB: "
        "the precision or the layout is not as stated"
    )
