"""Image classifiers in OpenVINO: fp32, bf16, or int8 by nncf.quantize, calibrated on random images."""

from __future__ import annotations

import time
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from twinlens.executors.in_process.engine import Evidence, Runtime
from twinlens.executors.in_process.inputs import calibration_said
from twinlens.executors.in_process.precision_check import log_softmax
from twinlens.executors.openvino.decoder import GRAPH, compiled, linears, make, versions
from twinlens.executors.openvino.trace import engine_facts, nodes_of, products, shares, weights_held
from twinlens.record.executor.record import declared, observed
from twinlens.spec.model.reference import ModelRef
from twinlens.spec.study import RunSpec

_STATISTICS = "least and most of each activation, biases corrected, by nncf.quantize"


class OpenVinoClassifier:
    """One batch of images after another."""

    def __init__(self, folder: Path, spec: RunSpec, ref: ModelRef, threads: int) -> None:
        self._graph, self._spec, self._ref, self._threads = folder / GRAPH, spec, ref, threads
        self._compiled = compiled(self._graph, spec, threads)
        self._request: Any = self._compiled.create_infer_request()

    def answer(self, batch: np.ndarray, tokens: int) -> tuple[int, list[int]]:
        begin_ns = time.monotonic_ns()
        self._logits(batch).argmax(-1)
        return begin_ns, [time.monotonic_ns()]

    def log_probabilities(self, one: np.ndarray) -> np.ndarray:
        return log_softmax(self._logits(one))

    def evidence(self, batch: np.ndarray) -> Evidence:
        profiled = compiled(self._graph, self._spec, self._threads, PERF_COUNT=True)
        request = profiled.create_infer_request()
        request.infer({"pixel_values": batch})
        known = products(profiled.get_runtime_model())
        nodes = nodes_of(request.get_profiling_info(), known)
        facts = engine_facts(profiled, {"image": nodes}, version("openvino"))
        if self._spec.precision.quantised:
            method = "round to nearest by nncf: weights by channel, activations by tensor"
            facts["precision.method"] = declared(method, "nncf.quantize")
            facts["precision.calibration"] = observed(calibration_said(self._ref, _STATISTICS), "its images")
        size = self._graph.with_suffix(".bin").stat().st_size
        return Evidence(
            held={"weights": weights_held(known)},
            ran={"image": shares(nodes)},
            missing="the profile has no product with weights",
            facts=facts,
            memory={"weights_bytes": (size, "constants of the export; compiled they are packed, and bf16 halves fp32")},
        )

    def close(self) -> None:
        self._request = self._compiled = None

    def _logits(self, batch: np.ndarray) -> np.ndarray:
        self._request.infer({"pixel_values": batch}, share_inputs=True)
        logits: np.ndarray = self._request.get_output_tensor().data
        return logits


def _made_by(spec: RunSpec) -> str:
    said = calibration_said(spec.model.known(), _STATISTICS) if spec.precision.quantised else ""
    return f"{versions(spec)} {said}"


VISION = Runtime("openvino-vision", _made_by, partial(make, of="images"), linears, OpenVinoClassifier)
