"""Text of TensorRT's EngineInspector (JSON, detailed): layers, the formats they take, the weights they hold."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from twinlens.executors.in_process.precision_check import shares_by_format, summed
from twinlens.spec.precision import BITS

_FORMATS = (
    ("int8", "int8"),
    ("fp8", "fp8-e4m3"),
    ("bf16", "bf16"),
    ("bfloat16", "bf16"),
    ("fp16", "fp16"),
    ("half", "fp16"),
    ("fp32", "fp32"),
    ("float", "fp32"),
)
"""Words of its descriptions of tensors to ours, the first that occurs: "bfloat16" holds "float", too."""
_PRODUCTS = ("conv", "gemm", "matmul", "matrix")


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer of an engine. `operand`: the format of its first input, "" where the text does not say. `weights`:
    elements and format of its weights. `flop`: of a product with weights, None where its weights are not shown (layers
    that Myelin fused), 0 of what is no product."""

    name: str
    kernel: str
    operand: str
    weights: tuple[int, str]
    flop: float | None


def layers(text: str) -> list[Layer]:
    """Raises ValueError where an engine was built with names of layers only."""
    found = json.loads(text).get("Layers", [])
    if any(isinstance(each, str) for each in found):
        raise ValueError("the engine was built without detailed profiling verbosity")
    return [_layer(each) for each in found]


def shares(found: Sequence[Layer]) -> dict[str, float]:
    """Share of the FLOP of products with weights by the format of their operands; empty where one is not known."""
    products = [layer for layer in found if layer.flop != 0.0]
    if any(layer.flop is None or not layer.operand for layer in products):
        return {}
    return shares_by_format((layer.operand, layer.flop) for layer in products if layer.flop)


def weights_held(found: Sequence[Layer]) -> dict[str, int]:
    """Bytes of the weights of products by format."""
    return summed((fmt, count * BITS.get(fmt, 32) // 8) for count, fmt in (layer.weights for layer in found) if count)


def format_said(words: str) -> str:
    """ "Thirty-two wide channel vectorized row major Int8 format." is int8; "" where no format is named."""
    lower = words.lower()
    return next((ours for word, ours in _FORMATS if word in lower), "")


def _layer(said: Mapping[str, Any]) -> Layer:
    given, made = said.get("Inputs") or [{}], said.get("Outputs") or [{}]
    weights = said.get("Weights") or {}
    count, kind = int(weights.get("Count", 0)), format_said(str(weights.get("Type", "")))
    kernel = str(said.get("TacticName", ""))
    words = f"{said.get('LayerType', '')} {said.get('ParameterType', '')} {kernel}".lower()
    flop: float | None = 0.0
    if any(word in words for word in _PRODUCTS):
        sides, maps = made[0].get("Dimensions", []), said.get("OutMaps")
        known = bool(count and maps and sides and min(sides) > 0)
        flop = 2.0 * math.prod(sides) * count / int(maps) if known and maps else None
    operand = format_said(str(given[0].get("Format/Datatype", "")))
    return Layer(str(said.get("Name", "")), kernel, operand, (count, kind), flop)
