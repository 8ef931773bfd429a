"""The arithmetic of MatMulNBits: products of int8, or weights widened and multiplied in fp32.

The operator quantises its activations only where this processor has the kernel for that block size; otherwise it
widens the weights, and the profile shows the same name. So one of the model's own products is computed alone: with
activations of fp32 its result equals the exact one to rounding, with activations of int8 it is off by about 1 %.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime

from twinlens.executors.onnxruntime.graph import attributes, graph_of

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
