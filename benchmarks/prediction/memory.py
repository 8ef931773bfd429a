"""Rows of memory: predicted by formulas without a fitted constant."""

from __future__ import annotations

from benchmarks.prediction.cases import Case
from benchmarks.prediction.model import rates_of, shape_of
from twinlens.planning.prediction.memory import (
    Pipeline,
    cache_bytes,
    megatron_activation_bytes,
    megatron_state_bytes,
    sampler_peak_bytes,
)
from twinlens.theory.weight_format import stored_bytes, weight_format


def predicted_bytes(case: Case) -> float:
    """Bytes on a device that a row of memory measured."""
    shape, layout = shape_of(case), case.layout
    if "share" in case.more:
        weights = stored_bytes(shape, weight_format(case.precision)) / layout["tensor"]
        peak = float(sampler_peak_bytes(shape))
        left = cache_bytes(float(rates_of(case).memory_bytes), float(str(case.more["share"])), weights, peak)
        return {"weights": weights, "activation_peak": peak, "kv_cache_available": float(left)}[str(case.more["part"])]
    recompute = "full" if layout["recompute"] else "selective" if case.more["selective"] else "none"
    split = Pipeline(
        layout["tensor"],
        layout["pipeline"],
        layout["virtual"],
        sequence_parallel=bool(case.more["sequence-parallel"]),
        recompute=recompute,
    )
    if case.more["part"] == "state":
        return float(megatron_state_bytes(shape, split))
    return float(megatron_activation_bytes(shape, split, case.answer, case.prompt))
