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
from twinlens.record.executor.record import Fact, declared, observed
from twinlens.record.finding import Finding

_TYPES = {"float": "fp32", "float16": "fp16", "bfloat16": "bf16", "double": "fp64", "int8": "int8", "uint8": "int8"}
_PRODUCTS = ("MatMul", "FusedMatMul", "Gemm", "FusedGemm", "Conv", "FusedConv", "NhwcFusedConv")
_INTEGER = (
    *("MatMulInteger", "DynamicQuantizeMatMul", "MatMulIntegerToFloat", "QGemm", "QLinearMatMul", "QLinearConv"),
    *("ConvInteger", "QAttention"),
)
_BLOCKS = "MatMulNBits"
_HERE = "CPUExecutionProvider"
_LONGEST = 8


@dataclass(frozen=True, slots=True)
class Node:
    """One call of one operator. `operand`: the format of its first input."""

    operator: str
    provider: str
    seconds: float
    operand: str


def read_profile(folder: Path) -> list[dict[str, Any]]:
    """The events of the one profile in a folder. Raises ExecutorFailed (TL302) where there is none."""
    found = sorted(folder.iterdir())
    if not found:
        raise ExecutorFailed("ONNX Runtime wrote no profile, so what ran is not known", code="TL302")
    events: list[dict[str, Any]] = json.loads(found[-1].read_text(encoding="utf-8"))
    return events


def phases_of(
    events: Sequence[Mapping[str, Any]], first: str = "prefill", later: str = "decode"
) -> dict[str, list[Node]]:
    """Nodes of the first run of the model, and of those after it."""
    runs = sorted((e for e in events if e.get("name") == "model_run"), key=lambda e: e["ts"])
    if not runs:
        return {}
    edge = runs[0]["ts"] + runs[0]["dur"]
    phases: dict[str, list[Node]] = {first: [], later: []}
    for event in events:
        if event.get("cat") == "Node" and str(event.get("name", "")).endswith("_kernel_time"):
            phases[first if event["ts"] <= edge else later].append(_node(event))
    return {phase: nodes for phase, nodes in phases.items() if nodes}


def _node(event: Mapping[str, Any]) -> Node:
    said = event["args"]
    shapes = said.get("input_type_shape") or [{}]
    word = next(iter(shapes[0]), "")
    return Node(said["op_name"], said.get("provider", ""), event["dur"] / 1e6, _TYPES.get(word, word))


def shares(nodes: Sequence[Node], blocks: str | None) -> dict[str, float]:
    """Share of matrix-product time by format, largest first. `blocks`: what MatMulNBits was seen to compute in."""
    spent: dict[str, float] = {}
    for node in nodes:
        if fmt := _format(node, blocks):
            spent[fmt] = spent.get(fmt, 0.0) + node.seconds
    total = math.fsum(spent.values())
    ordered = sorted(spent.items(), key=lambda item: -item[1])
    return {fmt: seconds / total for fmt, seconds in ordered} if total else {}


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
    spent: dict[str, float] = {}
    providers: Counter[str] = Counter()
    for nodes in phases.values():
        for node in nodes:
            spent[node.operator] = spent.get(node.operator, 0.0) + node.seconds
            providers[node.provider] += 1
    longest = sorted(spent, key=lambda name: -spent[name])[:_LONGEST]
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
        "kernels.selected": observed(longest, "its profile"),
    }
