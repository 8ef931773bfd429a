"""Image classifiers in TensorRT: an engine of one batch size on one GPU. Tested with a module of the same names only.

Not seen on a GPU: times, formats that its builder chooses, layers that Myelin fuses (their weights are not shown, so
what they computed in is then unknown, and said to be).
"""

from __future__ import annotations

import time
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import tensorrt as trt
import torch

from twinlens.errors import ExecutorFailed
from twinlens.executors.in_process.engine import Evidence, Runtime
from twinlens.executors.in_process.inputs import calibration_said, image_sides
from twinlens.executors.in_process.precision_check import log_softmax, longest
from twinlens.executors.onnxruntime.export import GRAPH, linears_of, made_by, make
from twinlens.executors.tensorrt.inspect import layers, shares, weights_held
from twinlens.record.executor.record import declared, observed
from twinlens.spec.model.reference import ModelRef
from twinlens.spec.study import RunSpec

_STATISTICS = "largest magnitude of each activation, symmetric"


class LayerTimes(trt.IProfiler):  # type: ignore[misc]  # tensorrt is not followed by the type checker
    """Seconds by layer, as TensorRT reports them after an execution."""

    def __init__(self) -> None:
        trt.IProfiler.__init__(self)
        self.seconds: dict[str, float] = {}

    def report_layer_time(self, layer_name: str, ms: float) -> None:
        """Called by TensorRT, once per layer and execution."""
        self.seconds[layer_name] = self.seconds.get(layer_name, 0.0) + ms / 1e3


class TensorRtClassifier:
    """One batch of images after another, in buffers of torch's on the GPU."""

    def __init__(self, folder: Path, spec: RunSpec, ref: ModelRef, threads: int) -> None:
        self._spec, self._ref, self._sides = spec, ref, image_sides(ref)
        self._device = _device_of(spec)
        plan = built(folder / GRAPH, spec.point.precision, self._sides, spec.point.batch)
        self._runtime = trt.Runtime(logger())
        self._engine: Any = self._runtime.deserialize_cuda_engine(plan)
        if self._engine is None:
            raise ExecutorFailed("TensorRT cannot load the engine that it built", code="TL302")
        self._context: Any = self._engine.create_execution_context()
        shape = (spec.point.batch, *self._sides)
        self._given = torch.empty(shape, dtype=torch.float32, device=self._device)
        self._context.set_input_shape(INPUT, shape)
        self._made = torch.empty(
            tuple(self._context.get_tensor_shape(OUTPUT)), dtype=torch.float32, device=self._device
        )
        self._context.set_tensor_address(INPUT, self._given.data_ptr())
        self._context.set_tensor_address(OUTPUT, self._made.data_ptr())
        self._stream = torch.cuda.Stream(self._device)

    def answer(self, batch: np.ndarray, tokens: int) -> tuple[int, list[int]]:
        """Between the borders of the torch executor: images lie on the GPU before, and classes after."""
        self._fill(batch)
        begin_ns = time.monotonic_ns()
        with torch.cuda.stream(self._stream):
            self._execute()
            self._made.argmax(-1)
        self._stream.synchronize()
        return begin_ns, [time.monotonic_ns()]

    def log_probabilities(self, one: np.ndarray) -> np.ndarray:
        whole = np.repeat(one, self._spec.point.batch, axis=0)  # the engine has one batch size
        return log_softmax(self._run(whole)[:1])

    def evidence(self, batch: np.ndarray) -> Evidence:
        times = LayerTimes()
        self._context.profiler = times
        self._run(batch)
        inspector = self._engine.create_engine_inspector()
        inspector.execution_context = self._context
        found = layers(inspector.get_engine_information(trt.LayerInformationFormat.JSON))
        slowest = longest(times.seconds.items())
        kernels = {layer.name: layer.kernel or layer.name for layer in found}
        facts = {
            "software.framework.name": observed("tensorrt", "tensorrt"),
            "software.framework.version": observed(version("tensorrt"), "its package"),
            "software.runtime.name": observed("tensorrt, engine level", "executors/tensorrt"),
            "software.runtime.version": observed(version("tensorrt"), "its package"),
            "compiler.name": declared("TensorRT builder", "tensorrt"),
            "compiler.version": observed(version("tensorrt"), "its package"),
            "kernels.selected": observed([kernels.get(name, name) for name in slowest], "its profiler"),
        }
        if self._spec.precision.quantised:
            facts["precision.calibration"] = observed(calibration_said(self._ref, _STATISTICS), "its images")
        return Evidence(
            held={"weights": weights_held(found)},
            ran={"image": ran} if (ran := shares(found)) else {},
            missing="the engine inspector does not show the weights of every product (layers fused by Myelin)",
            facts=facts,
        )

    def close(self) -> None:
        self._context = self._engine = None

    def _run(self, batch: np.ndarray) -> np.ndarray:
        self._fill(batch)
        with torch.cuda.stream(self._stream):
            self._execute()
            logits: np.ndarray = self._made.cpu().numpy()
        return logits

    def _fill(self, batch: np.ndarray) -> None:
        """The batch in the engine's input, there when this returns."""
        with torch.cuda.stream(self._stream):
            self._given.copy_(torch.from_numpy(np.ascontiguousarray(batch)))
        self._stream.synchronize()

    def _execute(self) -> None:
        if not self._context.execute_async_v3(self._stream.cuda_stream):
            raise ExecutorFailed("TensorRT could not execute a batch; its log says why", code="TL302")


def _device_of(spec: RunSpec) -> torch.device:
    return torch.device(spec.executor.device if spec.executor.device.startswith("cuda") else "cuda")


VISION = Runtime(
    "tensorrt", partial(made_by, statistics=_STATISTICS), partial(make, symmetric=True), linears_of, TensorRtClassifier
)


# int8 is explicit: the file carries QuantizeLinear and DequantizeLinear with symmetric scales, which TensorRT fuses.

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
