"""Orders to llm-compressor for each precision that it makes, as plain data for a process of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from twinlens.spec.precision import precision

_INT4 = {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 32, "symmetric": False}
_INT8 = {"num_bits": 8, "type": "int", "strategy": "channel", "symmetric": True}
_FIXED = {"num_bits": 8, "type": "int", "strategy": "tensor", "symmetric": True, "dynamic": False}
_ROUND = "QuantizationModifier"


@dataclass(frozen=True, slots=True)
class Plan:
    """`modifiers`: names of llm-compressor, in order. `weights`, `inputs`: formats of linear layers in the words of
    compressed-tensors. `calibrates`: it needs prompts. `method`: one phrase for the record."""

    modifiers: tuple[str, ...]
    method: str
    weights: Mapping[str, Any] = field(default_factory=lambda: _INT4)
    inputs: Mapping[str, Any] | None = None
    calibrates: bool = True


PLANS: Mapping[str, Plan] = {
    "int4-weight": Plan((_ROUND,), "round to nearest, asymmetric, groups of 32", calibrates=False),
    "int4-weight-gptq": Plan(("GPTQModifier",), "GPTQ (arXiv 2210.17323), asymmetric, groups of 32"),
    "int4-weight-awq": Plan(("AWQModifier", _ROUND), "AWQ (arXiv 2306.00978), asymmetric, groups of 32"),
    "int8-smoothquant": Plan(
        ("SmoothQuantModifier", _ROUND),
        "SmoothQuant (arXiv 2211.10438), weights by channel, activations by tensor with scales from calibration",
        weights=_INT8,
        inputs=_FIXED,
    ),
}
"""By precision. Formats and groups are those of the precision, whoever makes it."""


def order_for(name: str) -> dict[str, Any]:
    """The plan of a precision as JSON takes it; `dtype`: of all that is not quantised, in torch's word."""
    plan, wide = PLANS[name], precision(name).classes("inference")["kv"]
    return {
        "modifiers": list(plan.modifiers),
        "weights": dict(plan.weights),
        "inputs": None if plan.inputs is None else dict(plan.inputs),
        "dtype": {"bf16": "bfloat16", "fp32": "float32"}[wide],
    }
