"""Rows of memory: predicted by the arithmetic of `plan fit` and of the theory, without a fitted constant."""

from __future__ import annotations

from benchmarks.prediction.case import Case
from benchmarks.prediction.facts import rates_of, shape_of
from benchmarks.prediction.megatron import megatron_bytes, megatron_state_bytes
from twinlens.planning.fit.serving import Serving, serving_parts
from twinlens.planning.subject import Subject
from twinlens.theory.memory import LAYOUTS
from twinlens.theory.parameter import parameters

_MEGATRON = LAYOUTS["16-bit-fp32-master-and-gradients"].total


def predicted_bytes(case: Case) -> float:
    """Bytes on a device that a row of memory measured."""
    return _served(case) if "share" in case.more else _trained(case)


def _served(case: Case) -> float:
    """A part that vLLM reports at start, or what it leaves for the cache."""
    shape, room = shape_of(case), float(rates_of(case).memory_bytes)
    plan = Serving(Subject(case.model, parameters(shape).total, shape), case.precision)
    tensor = int(case.layout["tensor"])
    parts = {each.name: float(each.value or 0) for each in serving_parts(plan, room, tensor) if each.name != "kv"}
    left = room * float(str(case.more["share"])) - sum(parts.values())
    told = {"weights": parts["weights"], "activation_peak": parts["activations"], "kv_cache_available": left}
    return told[str(case.more["part"])]


def _trained(case: Case) -> float:
    """State, or activations, on a device of Megatron."""
    shape, layout = shape_of(case), case.layout
    tensor, pipeline = layout["tensor"], layout["pipeline"]
    if case.more["part"] == "state":
        return float(megatron_state_bytes(shape, _MEGATRON, tensor=tensor, pipeline=pipeline))
    recompute = "full" if layout["recompute"] else "selective" if case.more["selective"] else "none"
    return float(megatron_bytes(
        shape, case.answer, case.prompt, recompute, tensor=tensor, pipeline=pipeline, chunks=layout["virtual"],
        sequence_parallel=bool(case.more["sequence-parallel"]),
    ))  # fmt: skip
