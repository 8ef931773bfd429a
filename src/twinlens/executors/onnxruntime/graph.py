"""Contents of an ONNX file: formats of its weights and caches, shapes of its matrix products. No tensor is read."""

from __future__ import annotations

import math
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime

from twinlens.executors.in_process.precision_check import summed
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
    return summed(
        (fmt, out * width * (int(fmt[3:]) if fmt in ("int4", "int8") else _BITS.get(fmt, 32)) // 8)
        for _, (out, width, fmt) in _products(path)
    )


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


# The arithmetic of MatMulNBits: products of int8, or weights widened and multiplied in fp32.
#
# The operator quantises its activations only where this processor has the kernel for that block size; otherwise it
# widens the weights, and the profile shows the same name. So one of the model's own products is computed alone: with
# activations of fp32 its result equals the exact one to rounding, with activations of int8 it is off by about 1 %.

_EXACT = 1e-4
"""Relative error below which no activation was rounded to 8 bits: fp32 gives about 1e-6, int8 about 5e-3."""
_MOST_ROWS = 256


def computed_in(path: Path, rows: int, threads: int) -> str | None:
    """ "int8" or "fp32", of the first such product of the graph with so many rows; None where it has none."""
    node = next((each for each in graph_of(path).node if each.op_type == "MatMulNBits"), None)
    if node is None:
        return None
    how = attributes(node)
    rng = np.random.default_rng(0)
    weights = rng.standard_normal((how["N"], how["K"]), dtype=np.float32)
    packed, scales, exact = quantised(weights, how["bits"], how["block_size"])
    activations = rng.standard_normal((min(rows, _MOST_ROWS), how["K"]), dtype=np.float32)
    seen = _alone(how, packed, scales, activations, threads)
    wanted = activations @ exact.T
    error = float(np.abs(seen - wanted).max() / np.abs(wanted).max())
    return "fp32" if error < _EXACT else "int8"


def quantised(weights: np.ndarray, bits: int, block: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(out, in) fp32 weights as MatMulNBits stores them, their scales, and the values that they stand for."""
    out, width = weights.shape
    blocks = -(-width // block)
    padded = np.zeros((out, blocks * block), np.float32)
    padded[:, :width] = weights
    grouped = padded.reshape(out, blocks, block)
    zero = 1 << (bits - 1)
    scales = np.abs(grouped).max(-1) / (zero - 1)
    integers = np.clip(np.rint(grouped / scales[..., None]) + zero, 0, 2 * zero - 1).astype(np.uint8)
    values = ((integers.astype(np.float32) - zero) * scales[..., None]).reshape(out, -1)[:, :width]
    packed = integers if bits == 8 else integers[..., ::2] | (integers[..., 1::2] << 4)
    return packed, scales.astype(np.float32), values


def _alone(how: dict[str, Any], packed: np.ndarray, scales: np.ndarray, rows: np.ndarray, threads: int) -> np.ndarray:
    helper, kind = onnx.helper, onnx.TensorProto.FLOAT
    stored = [onnx.numpy_helper.from_array(packed, "B"), onnx.numpy_helper.from_array(scales, "scales")]
    node = helper.make_node("MatMulNBits", ["A", "B", "scales"], ["Y"], domain="com.microsoft", **how)
    given = [helper.make_tensor_value_info("A", kind, list(rows.shape))]
    made = [helper.make_tensor_value_info("Y", kind, [len(rows), how["N"]])]
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(
        helper.make_graph([node], "one", given, made, stored), opset_imports=opsets, ir_version=10
    )
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    result: np.ndarray = session.run(None, {"A": rows})[0]
    return result
