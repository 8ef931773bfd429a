"""Facts of a compiled OpenVINO model: its settings, formats of weights and cache, kernels of a profiled request."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from twinlens.executors.in_process.precision_check import longest, shares_by_format, summed
from twinlens.record.executor.record import Fact, observed
from twinlens.spec.precision import BITS

_WITH_WEIGHTS = ("FullyConnected", "Convolution")
_FUSED = "ScaledDotProductAttentionWithKVCache"
_FORMATS = {
    **{"f32": "fp32", "float32": "fp32", "bf16": "bf16", "bfloat16": "bf16", "f16": "fp16", "float16": "fp16"},
    **{"i8": "int8", "int8_t": "int8", "u8": "int8", "uint8_t": "int8", "i4": "int4", "u4": "int4"},
    **{"int4_t": "int4", "uint4_t": "int4"},
}
_QUOTED = re.compile(r"'(\w+)'")
_SETTINGS = (
    *("INFERENCE_PRECISION_HINT", "KV_CACHE_PRECISION", "KEY_CACHE_PRECISION", "VALUE_CACHE_PRECISION"),
    *("DYNAMIC_QUANTIZATION_GROUP_SIZE", "INFERENCE_NUM_THREADS", "NUM_STREAMS", "ENABLE_CPU_PINNING"),
    *("ENABLE_HYPER_THREADING", "PERFORMANCE_HINT", "EXECUTION_MODE_HINT"),
)


@dataclass(frozen=True, slots=True)
class Product:
    """A product of activations with weights, by the compiled graph: FLOP of the last request (2 per multiply-add),
    elements and format of its weights."""

    flop: float
    elements: int
    format: str


@dataclass(frozen=True, slots=True)
class Node:
    """One executed node: its operator, the kernel that ran it ("brgemm_avx512_bf16"), its time, its FLOP if it is a
    product with weights."""

    operator: str
    kernel: str
    seconds: float
    flop: float = 0.0


def products(graph: Any) -> dict[str, Product]:
    """Products with weights by the name of their node, from `CompiledModel.get_runtime_model()` after a request."""
    return {
        node.get_friendly_name(): _product(node)
        for node in graph.get_ops()
        if _notes(node).get("layerType") in _WITH_WEIGHTS
    }


def _product(node: Any) -> Product:
    sides, made = _sides(node.inputs()[1]), _sides(node.outputs()[0])
    elements, word = math.prod(sides), _notes(node).get("runtimePrecision", "")
    return Product(2.0 * math.prod(made) * elements / sides[0], elements, _FORMATS.get(word, word))


def _sides(port: Any) -> list[int]:
    """Lengths; one that the graph leaves open counts once."""
    return [side.get_length() if side.is_static else 1 for side in port.get_partial_shape()]


def nodes_of(profile: Iterable[Any], known: Mapping[str, Product]) -> list[Node]:
    """The nodes that ran, of `InferRequest.get_profiling_info()`."""
    return [
        Node(
            each.node_type,
            each.exec_type,
            each.real_time.total_seconds(),
            known[each.node_name].flop if each.node_name in known else 0.0,
        )
        for each in profile
        if str(each.status).rpartition(".")[2] == "EXECUTED"
    ]


def shares(nodes: Sequence[Node]) -> dict[str, float]:
    """Share of the FLOP of products with weights by the format that the kernel's name ends with, largest first."""
    return shares_by_format((computed_in(node.kernel), node.flop) for node in nodes if node.flop)


def computed_in(kernel: str) -> str:
    """The format of a kernel by the end of its name: "brgconv_avx512_1x1_I8" computes in int8."""
    word = kernel.rpartition("_")[2].lower()
    return _FORMATS.get(word, word)


def weights_held(known: Mapping[str, Product]) -> dict[str, int]:
    """Bytes of the weights of products by the format that the compiled graph holds them in."""
    return summed((each.format, each.elements * BITS.get(each.format, 32) // 8) for each in known.values())


def kv_held(compiled: Any, request: Any, phases: Mapping[str, Sequence[Node]]) -> tuple[str, int, str]:
    """Format and bytes of the KV cache after a request, and where that was read.

    The setting is in force where attention is fused with the cache; otherwise the states are what they say they are.
    """
    states = [each.state for each in request.query_state()]
    elements = sum(math.prod(each.shape) for each in states)
    if any(node.operator == _FUSED for nodes in phases.values() for node in nodes):
        kind, where = compiled.get_property("KV_CACHE_PRECISION"), "KV_CACHE_PRECISION of the compiled model"
    else:
        kind, where = states[0].element_type, "the states of the request: attention is not fused with them"
    fmt = element_format(kind)
    return fmt, elements * BITS.get(fmt, 32) // 8, where


def paged_format(size: int, elements: int) -> str:
    """The format of a paged cache, which its pipeline does not name, from its bytes; 8 bits bring scales with them."""
    bits = 8 * size / elements
    return {32.0: "fp32", 16.0: "bf16"}.get(bits, "int8" if 8 <= bits < 16 else f"{bits:g} bits")


def element_format(kind: Any) -> str:
    """OpenVINO's word for an element type (`<Type: 'bfloat16'>`) in ours."""
    match = _QUOTED.search(str(kind))
    word = match[1] if match else str(kind)
    return _FORMATS.get(word, word)


def engine_facts(compiled: Any, phases: Mapping[str, Sequence[Node]], version: str) -> dict[str, Fact]:
    """Facts of the runtime, read back from the compiled model: a file's precision says nothing of what is computed."""
    spent = ((f"{node.operator} {node.kernel}", node.seconds) for nodes in phases.values() for node in nodes)
    known = {str(name) for name in compiled.get_property("SUPPORTED_PROPERTIES")}
    settings = {name: _plain(compiled.get_property(name)) for name in _SETTINGS if name in known}
    source = "the compiled model's properties"
    devices = [str(each) for each in compiled.get_property("EXECUTION_DEVICES")]
    return {
        "software.framework.name": observed("openvino", "openvino"),
        "software.framework.version": observed(version, "its package"),
        "software.framework.threads": observed(int(settings["INFERENCE_NUM_THREADS"]), source),
        "software.framework.parallel_backend": observed(devices, source),
        "software.runtime.name": observed("openvino, engine level", "executors/openvino"),
        "software.runtime.version": observed(version, "its package"),
        "compiler.name": observed("OpenVINO CPU plugin", source),
        "compiler.version": observed(version, "its package"),
        "compiler.flags": observed(settings, source),
        "serving.attention": observed(_attention(phases), "its profile"),
        "kernels.selected": observed(longest(spent), "its profile"),
    }


def _attention(phases: Mapping[str, Sequence[Node]]) -> str:
    names = sorted({node.operator for nodes in phases.values() for node in nodes if "Attention" in node.operator})
    return ", ".join(names) or "not fused"


def _notes(node: Any) -> dict[str, str]:
    return {name: str(getattr(value, "value", value)) for name, value in node.get_rt_info().items()}


def _plain(value: Any) -> Any:
    return value if isinstance(value, bool | int | float) else element_format(value)
