"""ONNX Runtime's own profile: kernels by phase, the format of their products, and operators that ran elsewhere."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from twinlens.errors import ExecutorFailed
from twinlens.executors.in_process.precision_check import longest, shares_by_format
from twinlens.record.executor.record import Fact, declared, observed
from twinlens.record.finding import Finding

_TYPES = {"float": "fp32", "float16": "fp16", "bfloat16": "bf16", "double": "fp64", "int8": "int8", "uint8": "int8"}
_PRODUCTS = ("MatMul", "FusedMatMul", "Gemm", "FusedGemm", "Conv", "FusedConv", "NhwcFusedConv")
_BY_WINDOW = ("Conv", "FusedConv", "NhwcFusedConv", "QLinearConv", "ConvInteger")
_INTEGER = (
    *("MatMulInteger", "DynamicQuantizeMatMul", "MatMulIntegerToFloat", "QGemm", "QLinearMatMul", "QLinearConv"),
    *("ConvInteger", "QAttention"),
)
_BLOCKS = "MatMulNBits"
_HERE = "CPUExecutionProvider"
_TIMED = "_kernel_time"


@dataclass(frozen=True, slots=True)
class Node:
    """One call of one operator. `operand`: the format of its first input. `flop`: of a product with weights; 0 of any
    other operator, None of a convolution whose weights the profile does not show."""

    operator: str
    provider: str
    seconds: float
    operand: str
    flop: float | None = 0.0


def read_profile(folder: Path) -> list[dict[str, Any]]:
    """The events of the one profile in a folder. Raises ExecutorFailed (TL302) where there is none."""
    found = sorted(folder.iterdir())
    if not found:
        raise ExecutorFailed("ONNX Runtime wrote no profile, so what ran is not known", code="TL302")
    events: list[dict[str, Any]] = json.loads(found[-1].read_text(encoding="utf-8"))
    return events


def phases_of(
    events: Sequence[Mapping[str, Any]],
    first: str = "prefill",
    later: str = "decode",
    windows: Mapping[str, int] | None = None,
) -> dict[str, list[Node]]:
    """Nodes of the first run of the model, and of those after it. `windows`: weights per output channel of each
    convolution, by the name of its node."""
    runs = sorted((e for e in events if e.get("name") == "model_run"), key=lambda e: e["ts"])
    if not runs:
        return {}
    edge = runs[0]["ts"] + runs[0]["dur"]
    phases: dict[str, list[Node]] = {first: [], later: []}
    for event in events:
        if event.get("cat") == "Node" and str(event.get("name", "")).endswith(_TIMED):
            phases[first if event["ts"] <= edge else later].append(_node(event, windows or {}))
    return {phase: nodes for phase, nodes in phases.items() if nodes}


def _node(event: Mapping[str, Any], windows: Mapping[str, int]) -> Node:
    said = event["args"]
    shapes = said.get("input_type_shape") or [{}]
    word = next(iter(shapes[0]), "")
    operator = said["op_name"]
    flop = _flop(said, windows.get(event["name"].removesuffix(_TIMED))) if _is_product(operator) else 0.0
    return Node(operator, said.get("provider", ""), event["dur"] / 1e6, _TYPES.get(word, word), flop)


def _is_product(operator: str) -> bool:
    return operator in (*_PRODUCTS, *_INTEGER, _BLOCKS)


def _flop(said: Mapping[str, Any], window: int | None) -> float | None:
    """2 per multiply-add. Weights are packed, so they are no tensor here or one of rank 1 or 2; two factors of rank 3
    and more are activations (attention), which counts 0."""
    given, made = (_shapes(said.get(f"{side}_type_shape")) for side in ("input", "output"))
    if not given or not made:
        return None
    if said["op_name"] in _BY_WINDOW:
        return 2.0 * math.prod(made[0]) * window if window else None
    if len(given[0]) > 2 and any(len(shape) > 2 for shape in given[1:]) and said["op_name"] != _BLOCKS:
        return 0.0
    return 2.0 * math.prod(made[0]) * given[0][-1]


def _shapes(said: Sequence[Mapping[str, list[int]]] | None) -> list[list[int]]:
    return [next(iter(each.values()), []) for each in said or ()]


def shares(nodes: Sequence[Node], blocks: str | None) -> dict[str, float]:
    """Share of the FLOP of products with weights by format, largest first; empty where that of one is not known.
    `blocks`: what MatMulNBits was seen to compute in."""
    products = [(fmt, node.flop) for node in nodes if (fmt := _format(node, blocks))]
    return {} if any(flop is None for _, flop in products) else shares_by_format((f, n) for f, n in products if n)


def _format(node: Node, blocks: str | None) -> str | None:
    if node.operator == _BLOCKS:
        return blocks
    if node.operator in _INTEGER:
        return "int8"
    return node.operand if node.operator in _PRODUCTS else None


def strays(phases: Mapping[str, Sequence[Node]], asked: str = _HERE) -> tuple[Finding, ...]:
    """The finding on operators that another provider ran than the one asked for, if any."""
    away = Counter(node.operator for nodes in phases.values() for node in nodes if node.provider != asked)
    if not away:
        return ()
    seconds = dict.fromkeys((True, False), 0.0)
    for nodes in phases.values():
        for node in nodes:
            seconds[node.provider != asked] += node.seconds
    share = seconds[True] / (math.fsum(seconds.values()) or 1.0)
    return (Finding("operators-elsewhere", "warns", asked, {"operators": sorted(away), "share": share}),)


def engine_facts(phases: Mapping[str, Sequence[Node]], threads: int, genai: str) -> dict[str, Fact]:
    """Facts of the runtime as far as its profile and settings say them."""
    ran = [node for nodes in phases.values() for node in nodes]
    providers = Counter(node.provider for node in ran)
    level = {"graph_optimization_level": "ORT_ENABLE_ALL"}
    return {
        "software.framework.name": observed("onnxruntime", "onnxruntime"),
        "software.framework.version": observed(version("onnxruntime"), "its package"),
        "software.framework.threads": declared(threads, "session options: intra_op_num_threads"),
        "software.framework.interop_threads": declared(1, "session options: inter_op_num_threads"),
        "software.framework.parallel_backend": observed(dict(providers), "its profile: calls by execution provider"),
        "software.runtime.name": observed("onnxruntime-genai, engine level" if genai else "onnxruntime", "the package"),
        "software.runtime.version": observed(genai or version("onnxruntime"), "its package"),
        "compiler.name": declared("ONNX Runtime graph optimisation", "session options"),
        "compiler.version": observed(version("onnxruntime"), "its package"),
        "compiler.flags": declared(level, "session options"),
        "kernels.selected": observed(longest((node.operator, node.seconds) for node in ran), "its profile"),
    }
