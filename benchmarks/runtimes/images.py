"""ResNet-50 at fp32 against OpenVINO's `benchmark_app`, and against the loop of ONNX Runtime's `onnxruntime_perf_test`.

`benchmark_app` is a process of its own, whose latency is wall time. `onnxruntime_perf_test` is in no wheel: its loop
(`Session::Run` on inputs that are bound once) is in `own_tools.py`.
"""

from __future__ import annotations

import argparse
import statistics
from typing import Any

import numpy as np

from benchmarks.finding import Finding, watched, with_neighbours
from benchmarks.runtimes import own_tools
from benchmarks.runtimes.pairs import paired
from benchmarks.runtimes.specs import loaded, spec_of
from twinlens.executors.in_process.inputs import image_sides

MODEL = "resnet-50"
_CALLS = 10
_APP_S = 1


def openvino(options: argparse.Namespace) -> list[Finding]:
    """Our latency over that of benchmark_app, benchmark_app for a second each time."""
    from twinlens.executors.openvino.decoder import GRAPH, VISION

    export, engine, batch = _opened(VISION, "openvino", options)

    def theirs() -> float:
        return own_tools.benchmark_app(export.path / GRAPH, batch.shape, _APP_S, options.threads)

    with watched() as seen:
        pairs = paired(lambda: _latency_s(engine, batch, 2 * _CALLS), theirs, options.seconds)
    note = "wall time; benchmark_app loads the model in a process of its own each time"
    return with_neighbours(pairs.findings(f"{MODEL} openvino fp32", "benchmark_app", note), seen)


def onnxruntime(options: argparse.Namespace) -> list[Finding]:
    """Our latency over that of a loop like onnxruntime_perf_test's, on the same session."""
    from twinlens.executors.onnxruntime.decoder import VISION

    _, engine, batch = _opened(VISION, "onnxruntime", options)

    def theirs() -> float:
        return own_tools.ort_perf_test(engine._session, batch, _CALLS)

    with watched() as seen:
        pairs = paired(lambda: _latency_s(engine, batch, _CALLS), theirs, options.seconds)
    return with_neighbours(pairs.findings(f"{MODEL} onnxruntime fp32", "a loop like onnxruntime_perf_test's"), seen)


def _opened(runtime: Any, kind: str, options: argparse.Namespace) -> tuple[Any, Any, np.ndarray]:
    spec = spec_of(kind, MODEL, "fp32", options.threads)
    export, engine = loaded(runtime, spec)
    sides = image_sides(spec.model.known())
    return export, engine, np.random.default_rng(0).standard_normal((1, *sides), dtype=np.float32)


def _latency_s(engine: Any, batch: np.ndarray, calls: int) -> float:
    """The median of our rows' times."""
    stamps = [engine.answer(batch, 0) for _ in range(calls)]
    return statistics.median((end[0] - begin) / 1e9 for begin, end in stamps)
