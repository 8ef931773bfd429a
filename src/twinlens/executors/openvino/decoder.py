"""OpenVINO: decoders with a stateful graph, and classifiers of images; each answer is an inference request."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import openvino

from twinlens.executors.capabilities import is_as_shipped
from twinlens.executors.in_process.engine import Evidence, Runtime
from twinlens.executors.in_process.export import run_apart
from twinlens.executors.in_process.inputs import calibration_prompts, calibration_said, prompts_said
from twinlens.executors.in_process.precision_check import log_softmax
from twinlens.executors.in_process.torch_work import Linear
from twinlens.executors.openvino.trace import (
    engine_facts,
    kv_held,
    nodes_of,
    products,
    shares,
    weights_held,
)
from twinlens.record.executor.record import declared, observed
from twinlens.spec.model.reference import ModelRef
from twinlens.spec.study import RunSpec
from twinlens.system.document import read_json


class InPlace:
    """`request`: OpenVINO's own. Its inputs lie in arrays of ours, which may be written again while their shapes stay:
    a tensor made for each token takes a tenth of a small one.

    `request.infer` of a mapping looks up, converts and copies each input, and copies all outputs: 0.4 ms were seen.
    """

    def __init__(self, request: Any) -> None:
        self.request = request
        self._inputs: dict[str, np.ndarray] = {}

    def logits(self, inputs: Mapping[str, np.ndarray]) -> np.ndarray:
        """The tensor of logits, by the graph's inputs, each of its own element type; a view."""
        for name, given in inputs.items():
            self._inputs[name] = held = np.array(given, order="C")
            self.request.set_tensor(name, openvino.Tensor(held, shared_memory=True))
        return self._run()

    def logits_again(self, ids: np.ndarray, at: int) -> np.ndarray:
        """The same for other token ids (of the same shape) at another position, all other inputs as they were."""
        self._inputs["input_ids"][...], self._inputs["position_ids"][...] = ids, at
        return self._run()

    def _run(self) -> np.ndarray:
        self.request.infer(share_outputs=True)
        logits: np.ndarray = self.request.get_tensor("logits").data
        return logits


def positions(rows: int, length: int, at: int) -> np.ndarray:
    """(rows, length): `at` and after, in each row."""
    return np.arange(at, at + length)[None].repeat(rows, axis=0)


GRAPH, SERVED_GRAPH = "model.xml", "openvino_model.xml"
LINEARS, PROMPTS = "linears.json", "calibration.npy"
_RUN = "from twinlens.executors.openvino.convert import main; main()"
_METHODS = {
    "int8-weight": "round to nearest, symmetric, one scale per output channel, by nncf; the embedding too",
    "int4-weight": "round to nearest, asymmetric, groups of 32, by nncf; the embedding too",
    "int4-weight-gptq": "GPTQ (arXiv 2210.17323), asymmetric, groups of 32, by nncf; the embedding rounded",
    "int4-weight-awq": "AWQ (arXiv 2306.00978), asymmetric, groups of 32, by nncf; the embedding rounded",
    "int8-smoothquant": "SmoothQuant (arXiv 2211.10438), weights by channel, activations by tensor, by nncf",
}


Step = Callable[[InPlace, np.ndarray, int, np.ndarray], np.ndarray]
"""(request, ids (batch, length), position of the first, positions whose logits are kept) to those logits."""


class OpenVinoDecoder:
    """One batch after another, greedy, of forced length; the cache is emptied before the clock starts."""

    def __init__(
        self, folder: Path, spec: RunSpec, ref: ModelRef, threads: int, graph: str = GRAPH, step: Step | None = None
    ) -> None:
        """`graph`, `step`: another file of the export, and how it is called."""
        self._graph, self._spec, self._threads, self._step = folder / graph, spec, threads, step or _step
        self._is_fixed = step is None
        self._compiled = compiled(self._graph, spec, threads)
        self._request: Any = InPlace(self._compiled.create_infer_request())

    def answer(self, batch: np.ndarray, tokens: int) -> tuple[int, list[int]]:
        return _generate(self._step, self._is_fixed, self._request, batch, tokens)

    def log_probabilities(self, one: np.ndarray) -> np.ndarray:
        self._request.request.reset_state()
        length = one.shape[1]
        return log_softmax(self._step(self._request, one, 0, np.arange(length))[0])

    def evidence(self, batch: np.ndarray) -> Evidence:
        profiled = compiled(self._graph, self._spec, self._threads, PERF_COUNT=True)
        request = InPlace(profiled.create_infer_request())
        first = self._step(request, batch, 0, np.array([batch.shape[1] - 1]))[:, -1].argmax(-1)[:, None]
        phases = {"prefill": nodes_of(request.request.get_profiling_info(), products(profiled.get_runtime_model()))}
        self._step(request, first, batch.shape[1], np.array([0]))
        known = products(profiled.get_runtime_model())
        phases["decode"] = nodes_of(request.request.get_profiling_info(), known)
        cache_format, cache, where = kv_held(profiled, request.request, phases)
        facts = engine_facts(profiled, phases, version("openvino")) | {
            "precision.kv": observed(cache_format, where),
            "serving.chunked_prefill": declared("no", "one inference request for each prompt"),
        }
        if method := _METHODS.get(self._spec.point.precision):
            facts["precision.method"] = declared(method, "nncf")
        if self._spec.precision.calibrated:
            facts["precision.calibration"] = observed(prompts_said(self._spec), "its prompts")
        size = self._graph.with_suffix(".bin").stat().st_size
        return Evidence(
            held={"weights": weights_held(known), "kv": {cache_format: cache}},
            ran={phase: shares(nodes) for phase, nodes in phases.items()},
            missing="the profile has no matrix product",
            facts=facts,
            memory={
                "weights_bytes": (size, "constants of the export; compiled they are packed, and bf16 halves fp32"),
                "kv_bytes": (cache, f"states of one batch after a prefill and a token, {where}"),
            },
            left=_left(self._spec),
        )

    def close(self) -> None:
        self._request = self._compiled = None


def make(spec: RunSpec, weights: Path, folder: Path, of: str = "text") -> None:
    """The export of a decoder for engine level ("text") or openvino-genai ("served"), or of a classifier ("images").

    Raises ExecutorFailed (TL302) with the converter's own line.
    """
    order = {"weights": str(weights), "folder": str(folder), "precision": spec.point.precision, "of": of}
    if spec.precision.calibrated:
        np.save(folder / PROMPTS, calibration_prompts(spec))
    run_apart(["-c", _RUN], f"OpenVINO's converter cannot export {spec.model.name}", order)


def versions(spec: RunSpec) -> str:
    """All but the weights that decides the bytes of an export."""
    made_with = [f"{name} {version(name)}" for name in ("openvino", "nncf", "transformers", "torch")]
    said = prompts_said(spec) if spec.precision.calibrated else ""
    return f"1 {made_with} {spec.point.precision}{said}"


def _left(spec: RunSpec) -> tuple[str, ...]:
    """Weights that are not quantised are made as wide as the products; those that are stay as they were exported."""
    if not is_as_shipped(spec):
        return ()
    return ("activations", "kv", "compute", *(() if spec.precision.quantised else ("weights",)))


def properties(spec: RunSpec, threads: int) -> dict[str, Any]:
    """The formats that the precision names, or none: OpenVINO's own defaults depend on model and machine."""
    conditions = {"INFERENCE_NUM_THREADS": threads, "NUM_STREAMS": 1}
    if is_as_shipped(spec):
        return conditions
    wide = "f32" if spec.precision.classes("inference")["kv"] == "fp32" else "bf16"
    formats = {"INFERENCE_PRECISION_HINT": wide, "KV_CACHE_PRECISION": wide, "DYNAMIC_QUANTIZATION_GROUP_SIZE": 0}
    return formats | conditions


def computes_in_bf16() -> bool:
    """Whether OpenVINO has products in bf16 for this processor; without them it computes in fp32, whatever is asked."""
    return "BF16" in openvino.Core().get_property("CPU", "OPTIMIZATION_CAPABILITIES")


def compiled(graph: Path, spec: RunSpec, threads: int, **more: Any) -> Any:
    """A compiled model of one file of an export."""
    return openvino.Core().compile_model(str(graph), "CPU", properties(spec, threads) | more)


def _generate(step: Step, is_fixed: bool, request: InPlace, prompts: np.ndarray, tokens: int) -> tuple[int, list[int]]:
    """When it began, and when each token was there. `is_fixed`: a token's inputs have the shapes of the one before."""
    request.request.reset_state()
    now, stamps, length = time.monotonic_ns, [], prompts.shape[1]
    last, only = np.array([length - 1]), np.array([0])
    begin_ns = now()
    newest = step(request, prompts, 0, last).argmax(-1)
    stamps.append(now())
    for at in range(length, length + tokens - 1):
        is_again = is_fixed and at > length
        newest = (request.logits_again(newest, at) if is_again else step(request, newest, at, only)).argmax(-1)
        stamps.append(now())
    return begin_ns, stamps


def _step(request: InPlace, ids: np.ndarray, at: int, keep: np.ndarray) -> np.ndarray:
    """Logits (batch, len(keep), vocabulary) after ids (batch, length) at positions `at` and after; a view."""
    rows, length = ids.shape
    given = {"input_ids": ids, "position_ids": positions(rows, length, at), "keep": keep, "beam_idx": order(rows)}
    return request.logits(given)


def order(rows: int) -> np.ndarray:
    """Sequences keep their places: nothing is searched by beams."""
    return np.arange(rows, dtype=np.int32)


def linears(folder: Path) -> list[Linear]:
    """(out, in, stored format) of every linear layer of an export."""
    sizes = read_json(folder / LINEARS)
    return [(int(out), int(width), str(stored)) for out, width, stored in sizes]


RUNTIME = Runtime("openvino", versions, make, linears, OpenVinoDecoder)


# Image classifiers: fp32, bf16, or int8 by nncf.quantize, calibrated on random images.

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
