"""Image classifiers in ONNX Runtime itself: fp32, or static int8 calibrated on random images."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

from twinlens.errors import ExecutorFailed
from twinlens.executors.in_process.calibration import calibration_images, calibration_said
from twinlens.executors.in_process.engine import Evidence, Runtime
from twinlens.executors.in_process.torch_work import Linear
from twinlens.executors.launch.log import telling_line
from twinlens.executors.onnxruntime.graph import linears, weights_held, weights_size, windows
from twinlens.executors.onnxruntime.trace import engine_facts, phases_of, read_profile, shares, strays
from twinlens.record.executor.record import declared, observed
from twinlens.spec.model.reference import ModelRef
from twinlens.spec.study import RunSpec

_GRAPH, _OPSET = "model.onnx", 18
_RUN = "from twinlens.executors.onnxruntime.vision import main; main()"
_STATISTICS = "least and most of each activation"


class OrtClassifier:
    """One batch of images after another."""

    def __init__(self, folder: Path, spec: RunSpec, ref: ModelRef, threads: int) -> None:
        self._graph, self._spec, self._ref, self._threads = folder / _GRAPH, spec, ref, threads
        self._session: Any = _session(self._graph, threads)

    def answer(self, batch: np.ndarray, tokens: int) -> tuple[int, list[int]]:
        given = {"pixel_values": batch}
        begin_ns = time.monotonic_ns()
        self._session.run(None, given)[0].argmax(-1)
        return begin_ns, [time.monotonic_ns()]

    def log_probabilities(self, one: np.ndarray) -> np.ndarray:
        logits = self._session.run(None, {"pixel_values": one})[0].astype(np.float64)
        logits -= logits.max(-1, keepdims=True)
        result: np.ndarray = (logits - np.log(np.exp(logits).sum(-1, keepdims=True))).astype(np.float32)
        return result

    def evidence(self, batch: np.ndarray) -> Evidence:
        with tempfile.TemporaryDirectory() as folder:
            written, profile = Path(folder) / "optimised.onnx", Path(folder) / "profile"
            profile.mkdir()
            profiled = _session(self._graph, self._threads, str(profile / "of"), str(written))
            profiled.run(None, {"pixel_values": batch})
            profiled.end_profiling()
            phases = phases_of(read_profile(profile), "image", "image", windows(written))
        facts = engine_facts(phases, self._threads, "")
        if self._spec.precision.quantised:
            method = "round to nearest by onnxruntime.quantization: weights by channel, activations by tensor"
            facts["precision.method"] = declared(method, "quantize_static")
            facts["precision.calibration"] = observed(calibration_said(self._ref, _STATISTICS), "its images")
        return Evidence(
            held={"weights": weights_held(self._graph)},
            ran={phase: shares(nodes, None) for phase, nodes in phases.items()},
            missing="the profile has no matrix product",
            facts=facts,
            memory={"weights_bytes": (weights_size(self._graph), "initializers of the graph, scales included")},
            findings=strays(phases),
        )

    def close(self) -> None:
        self._session = None


def main() -> None:
    """`{"weights": folder, "graph": file, "quantised": bool, "symmetric": bool}` on the input; needs torch and
    transformers. "symmetric": zero points are 0, as TensorRT wants them."""
    asked = json.load(sys.stdin)
    shape = _export(Path(asked["weights"]), Path(asked["graph"]))
    if asked["quantised"]:
        _quantise(Path(asked["graph"]), shape, symmetric=asked.get("symmetric", False))


def _export(weights: Path, graph: Path) -> tuple[int, int, int]:
    """The sides of one image: (channels, size, size)."""
    import torch
    import transformers

    model: Any = transformers.AutoModelForImageClassification.from_pretrained(
        weights, dtype=torch.float32, local_files_only=True, trust_remote_code=False
    )

    class Logits(torch.nn.Module):  # type: ignore[misc]  # torch is not followed by the type checker
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, pixel_values: Any) -> Any:
            return self.model(pixel_values=pixel_values).logits

    size = int(getattr(model.config, "image_size", 224))
    sides = (int(model.config.num_channels), size, size)
    names = {"input_names": ["pixel_values"], "output_names": ["logits"]}
    rows = {"pixel_values": {0: "batch"}, "logits": {0: "batch"}}
    example = (torch.zeros(2, *sides),)
    torch.onnx.export(
        Logits().eval(), example, str(graph), dynamic_axes=rows, opset_version=_OPSET, dynamo=False, **names
    )
    return sides


def _quantise(graph: Path, sides: tuple[int, int, int], *, symmetric: bool) -> None:
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    class Images(CalibrationDataReader):  # type: ignore[misc]  # onnxruntime is not followed by the type checker
        def __init__(self) -> None:
            self._left: Iterator[np.ndarray] = iter(calibration_images(sides))

        def get_next(self) -> dict[str, np.ndarray] | None:
            one = next(self._left, None)
            return None if one is None else {"pixel_values": one}

    prepared = graph.with_suffix(".prepared")
    quant_pre_process(str(graph), str(prepared), skip_symbolic_shape=True)
    kinds: dict[str, Any] = {"activation_type": QuantType.QUInt8, "weight_type": QuantType.QInt8}
    if symmetric:
        how = {"ActivationSymmetric": True, "WeightSymmetric": True, "QuantizeBias": False}
        kinds |= {"activation_type": QuantType.QInt8, "extra_options": how}
    quantize_static(str(prepared), str(graph), Images(), quant_format=QuantFormat.QDQ, per_channel=True, **kinds)
    prepared.unlink()


def _make(spec: RunSpec, weights: Path, folder: Path) -> None:
    """Raises ExecutorFailed (TL302) with the exporter's own line."""
    order = {"weights": str(weights), "graph": str(folder / _GRAPH), "quantised": spec.precision.quantised}
    command = [sys.executable, "-c", _RUN]
    done = subprocess.run(command, input=json.dumps(order), capture_output=True, text=True, check=False)
    if done.returncode:
        line = telling_line(done.stderr)
        raise ExecutorFailed(f"{spec.model.name} cannot be exported to ONNX: {line}", code="TL302")


def _made_by(spec: RunSpec) -> str:
    versions = [f"{name} {version(name)}" for name in ("onnxruntime", "onnx", "transformers", "torch")]
    return f"1 {versions} {calibration_said(spec.model.known(), _STATISTICS) if spec.precision.quantised else ''}"


def _session(graph: Path, threads: int, profile: str = "", optimised: str = "") -> Any:
    """`profile`, `optimised`: files to write, with the same names of nodes."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    if profile:
        options.enable_profiling, options.profile_file_prefix = True, profile
        options.optimized_model_filepath, options.log_severity_level = optimised, 3  # it warns that the file is ours
    return onnxruntime.InferenceSession(str(graph), options, providers=["CPUExecutionProvider"])


def _linears(folder: Path) -> list[Linear]:
    return linears(folder / _GRAPH)


VISION = Runtime("onnxruntime-vision", _made_by, _make, _linears, OrtClassifier)
