"""Engines of TensorRT from an ONNX file, through its own builder (10.x). Tested with a module of the same names only.

int8 is explicit: the file carries QuantizeLinear and DequantizeLinear with symmetric scales, which TensorRT fuses.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import tensorrt as trt

from twinlens.errors import ExecutorFailed

INPUT, OUTPUT = "pixel_values", "logits"
_FLAGS = {"tf32": "TF32", "fp16": "FP16", "bf16": "BF16", "int8-static": "INT8"}


def logger() -> Any:
    """One that says warnings and errors."""
    return trt.Logger(trt.Logger.WARNING)


def built(graph: Path, precision: str, sides: tuple[int, int, int], batch: int) -> bytes:
    """The serialised engine for one batch size, with detailed profiling. Raises ExecutorFailed (TL302)."""
    said = logger()
    builder = trt.Builder(said)
    network = builder.create_network(0)  # 10.x: the batch is always explicit
    parser = trt.OnnxParser(network, said)
    if not parser.parse_from_file(str(graph)):
        first = parser.get_error(0).desc() if parser.num_errors else "no error was given"
        raise ExecutorFailed(f"TensorRT cannot read the ONNX file: {first}", code="TL302")
    config = builder.create_builder_config()
    config.profiling_verbosity = trt.ProfilingVerbosity.DETAILED
    config.clear_flag(trt.BuilderFlag.TF32)  # on by default
    if flag := _FLAGS.get(precision):
        config.set_flag(getattr(trt.BuilderFlag, flag))
    shapes = builder.create_optimization_profile()
    shapes.set_shape(INPUT, (batch, *sides), (batch, *sides), (batch, *sides))
    config.add_optimization_profile(shapes)
    plan = builder.build_serialized_network(network, config)
    if plan is None:
        raise ExecutorFailed(f"TensorRT cannot build an engine at {precision}; its log says why", code="TL302")
    return bytes(plan)
