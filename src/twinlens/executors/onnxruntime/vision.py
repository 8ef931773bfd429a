"""Image classifiers in ONNX Runtime itself: fp32, or static int8 calibrated on random images."""

from __future__ import annotations

import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

from twinlens.executors.in_process.engine import Evidence, Runtime
from twinlens.executors.in_process.inputs import calibration_said
from twinlens.executors.in_process.precision_check import log_softmax
from twinlens.executors.onnxruntime.export import GRAPH, linears_of, made_by, make
from twinlens.executors.onnxruntime.graph import weights_held, weights_size, windows
from twinlens.executors.onnxruntime.trace import engine_facts, phases_of, read_profile, shares, strays
from twinlens.record.executor.record import declared, observed
from twinlens.spec.model.reference import ModelRef
from twinlens.spec.study import RunSpec

_STATISTICS = "least and most of each activation"


class OrtClassifier:
    """One batch of images after another."""

    def __init__(self, folder: Path, spec: RunSpec, ref: ModelRef, threads: int) -> None:
        self._graph, self._spec, self._ref, self._threads = folder / GRAPH, spec, ref, threads
        self._session: Any = _session(self._graph, threads)

    def answer(self, batch: np.ndarray, tokens: int) -> tuple[int, list[int]]:
        given = {"pixel_values": batch}
        begin_ns = time.monotonic_ns()
        self._session.run(None, given)[0].argmax(-1)
        return begin_ns, [time.monotonic_ns()]

    def log_probabilities(self, one: np.ndarray) -> np.ndarray:
        return log_softmax(self._session.run(None, {"pixel_values": one})[0])

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


def _session(graph: Path, threads: int, profile: str = "", optimised: str = "") -> Any:
    """`profile`, `optimised`: files to write, with the same names of nodes."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    if profile:
        options.enable_profiling, options.profile_file_prefix = True, profile
        options.optimized_model_filepath, options.log_severity_level = optimised, 3  # it warns that the file is ours
    return onnxruntime.InferenceSession(str(graph), options, providers=["CPUExecutionProvider"])


VISION = Runtime("onnxruntime-vision", partial(made_by, statistics=_STATISTICS), make, linears_of, OrtClassifier)
