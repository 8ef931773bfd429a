"""Contents of an ONNX file: formats of its weights and caches, shapes of its matrix products. No tensor is read."""

from __future__ import annotations

import math
from functools import lru_cache
from pathlib import Path
from typing import Any

import onnx

from twinlens.executors.in_process.torch_work import Linear

FORMATS = {1: "fp32", 2: "uint8", 3: "int8", 6: "int32", 7: "int64", 10: "fp16", 11: "fp64", 16: "bf16"}
"""onnx.TensorProto.DataType, by number."""
_BITS = {"fp32": 32, "uint8": 8, "int8": 8, "int32": 32, "int64": 64, "fp16": 16, "fp64": 64, "bf16": 16}
_PRODUCTS = ("MatMul", "Gemm", "Conv")


@lru_cache(maxsize=4)
def graph_of(path: Path) -> Any:
    """The graph without its tensors' data."""
    return onnx.load(str(path), load_external_data=False).graph


def attributes(node: Any) -> dict[str, Any]:
    """Attributes of a node by name."""
    return {each.name: onnx.helper.get_attribute_value(each) for each in node.attribute}


def linears(path: Path) -> list[Linear]:
    """(out, in, stored format) of every linear layer, in the graph's order; convolutions are none."""
    return [product for kind, product in _products(path) if kind != "Conv"]


def _products(path: Path) -> list[tuple[str, Linear]]:
    """Operator and sizes of every product of activations with weights."""
    graph = graph_of(path)
    stored = _stored(graph)
    found: list[tuple[str, Linear]] = []
    for node in graph.node:
        if node.op_type == "MatMulNBits":
            how = attributes(node)
            found.append((node.op_type, (int(how["N"]), int(how["K"]), f"int{how['bits']}")))
        elif node.op_type in _PRODUCTS and (weight := stored.get(node.input[1])) is not None:
            fmt = FORMATS.get(weight.data_type, str(weight.data_type))
            found.append((node.op_type, (*_sides(node, weight), fmt)))
    return found


def _stored(graph: Any) -> dict[str, Any]:
    """Weights by name. One may stand behind DequantizeLinear."""
    stored = {each.name: each for each in graph.initializer}
    widened = [node for node in graph.node if node.op_type == "DequantizeLinear" and node.input[0] in stored]
    return stored | {node.output[0]: stored[node.input[0]] for node in widened}


def windows(path: Path) -> dict[str, int]:
    """Weights per output channel of each convolution, by the name of its node."""
    graph = graph_of(path)
    stored = _stored(graph)
    return {
        node.name: int(math.prod(stored[name].dims[1:]))
        for node in graph.node
        if "Conv" in node.op_type
        for name in node.input
        if name in stored and len(stored[name].dims) > 2
    }


def weights_held(path: Path) -> dict[str, int]:
    """Bytes of the weights of products by format; scales, norms and looked-up embeddings are not among them."""
    held: dict[str, int] = {}
    for _, (out, width, fmt) in _products(path):
        bits = int(fmt[3:]) if fmt in ("int4", "int8") else _BITS.get(fmt, 32)
        held[fmt] = held.get(fmt, 0) + out * width * bits // 8
    return held


def weights_size(path: Path) -> int:
    """Bytes of all initializers of more than one dimension or element."""
    return sum(
        math.prod(each.dims) * _BITS.get(FORMATS.get(each.data_type, ""), 8) // 8 for each in graph_of(path).initializer
    )


def kv_format(path: Path) -> str:
    """The format of the past keys that the graph takes."""
    for given in graph_of(path).input:
        if "past" in given.name and "key" in given.name:
            kind = given.type.tensor_type.elem_type
            return FORMATS.get(kind, str(kind))
    return "none"


def _sides(node: Any, weight: Any) -> tuple[int, int]:
    dims = list(weight.dims)
    if node.op_type == "Conv":
        return int(dims[0]), int(math.prod(dims[1:]))
    if node.op_type == "Gemm" and attributes(node).get("transB"):
        return int(dims[0]), int(dims[1])
    return int(dims[-1]), int(math.prod(dims[:-1]))
