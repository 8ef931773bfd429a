"""ONNX Runtime: decoders by onnxruntime-genai's own builder and Generator, or its Engine, and classifiers of images."""

from __future__ import annotations

import json
import tempfile
import time
from dataclasses import replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import onnxruntime_genai as genai

from twinlens.executors.in_process.engine import Evidence, Runtime, SteppedEngine, cache_elements_of_a_token
from twinlens.executors.in_process.export import run_apart
from twinlens.executors.in_process.inputs import calibration_said
from twinlens.executors.in_process.player import Gained, Running
from twinlens.executors.in_process.precision_check import log_softmax
from twinlens.executors.onnxruntime.export import GRAPH, linears_of, made_by, make
from twinlens.executors.onnxruntime.graph import computed_in, kv_format, weights_held, weights_size, windows
from twinlens.executors.onnxruntime.trace import engine_facts, phases_of, read_profile, shares, strays
from twinlens.record.executor.record import declared, observed, unknown
from twinlens.spec.model.reference import ModelRef
from twinlens.spec.precision import BITS
from twinlens.spec.study import RunSpec
from twinlens.spec.workload.workload import InferenceWorkload

_PRECISIONS = {"fp32": "fp32", "int8-dynamic": "int8", "int4-dynamic": "int4"}
"""Ours to the builder's. Its int8 and int4 store blocks of 32 and quantise activations to int8 (accuracy level 4)."""
_PROFILED_TOKENS = 4


class OrtDecoder:
    """One batch after another, greedy, of forced length; the KV cache of each is allocated before its clock starts."""

    def __init__(self, folder: Path, spec: RunSpec, ref: ModelRef, threads: int) -> None:
        self._folder, self._spec, self._ref, self._threads = folder, spec, ref, threads
        self._model: Any = _load(folder, threads)

    def answer(self, batch: np.ndarray, tokens: int) -> tuple[int, list[int]]:
        return _generate(self._model, batch, tokens)

    def log_probabilities(self, one: np.ndarray) -> np.ndarray:
        generator = _generator(self._model, one, 1)
        generator.append_tokens(one.astype(np.int32))
        return log_softmax(generator.get_output("logits")[0])

    def evidence(self, batch: np.ndarray) -> Evidence:
        graph = self._folder / GRAPH
        with tempfile.TemporaryDirectory() as folder:
            profiled = _load(self._folder, self._threads, profile=str(Path(folder) / "profile"))
            _generate(profiled, batch, _PROFILED_TOKENS)
            del profiled  # the file is written when the session ends
            phases = phases_of(read_profile(Path(folder)))
        rows = {"prefill": batch.size, "decode": len(batch)}
        products = {phase: computed_in(graph, rows[phase], self._threads) for phase in phases}
        cache_format = kv_format(graph)
        workload = self._spec.workload
        assert isinstance(workload, InferenceWorkload)
        held = len(batch) * (workload.input_tokens.max + workload.output_tokens.max)
        cache = held * cache_elements_of_a_token(self._ref) * BITS.get(cache_format, 32) // 8
        facts = engine_facts(phases, self._threads, version("onnxruntime-genai")) | {
            "serving.attention": observed("GroupQueryAttention", "the graph"),
            "serving.chunked_prefill": declared("no", "onnxruntime-genai, model.decoder.chunk_size is not set"),
        }
        if self._spec.precision.quantised:
            method = "round to nearest, symmetric, blocks of 32, by onnxruntime-genai's builder"
            facts["precision.method"] = declared(method, "the builder's defaults")
            facts["precision.detail"] = declared("a scale of 32 bits for each block", "the graph")
        return Evidence(
            held={"weights": weights_held(graph), "kv": {cache_format: cache}},
            ran={phase: shares(nodes, products[phase]) for phase, nodes in phases.items()},
            missing="the profile has no matrix product",
            facts=facts,
            memory={
                "weights_bytes": (weights_size(graph), "initializers of the graph, scales included"),
                "kv_bytes": (cache, "past key and value buffers of one batch, from their shape and type"),
            },
            findings=strays(phases),
        )

    def close(self) -> None:
        self._model = None


def _make(spec: RunSpec, weights: Path, folder: Path) -> None:
    """Raises ExecutorFailed (TL302) with the builder's own line."""
    with tempfile.TemporaryDirectory() as scratch:
        command = ["-m", "onnxruntime_genai.models.builder", "-i", str(weights), "-o", str(folder), "-e", "cpu"]
        command += ["-p", _PRECISIONS[spec.point.precision], "-c", scratch]
        failed = f"onnxruntime-genai's builder cannot export {spec.model.name}"
        run_apart(command, failed, makes=folder / GRAPH)


def _made_by(spec: RunSpec) -> str:
    versions = [f"{name} {version(name)}" for name in ("onnxruntime-genai", "onnx", "transformers", "torch")]
    return f"{versions} {_PRECISIONS[spec.point.precision]}"


def session_options(threads: int) -> dict[str, Any]:
    """The settings of every session of a run."""
    return {"intra_op_num_threads": threads, "inter_op_num_threads": 1, "graph_optimization_level": "ORT_ENABLE_ALL"}


def _load(folder: Path, threads: int, profile: str = "") -> Any:
    session = session_options(threads) | ({"enable_profiling": profile} if profile else {})
    config = genai.Config(str(folder))
    config.overlay(json.dumps({"model": {"decoder": {"session_options": session}}}))
    return genai.Model(config)


def _generator(model: Any, prompts: np.ndarray, tokens: int) -> Any:
    params = genai.GeneratorParams(model)
    longest = prompts.shape[1] + tokens
    params.set_search_options(max_length=longest, min_length=longest, batch_size=len(prompts), do_sample=False)
    return genai.Generator(model, params)


def _generate(model: Any, prompts: np.ndarray, tokens: int) -> tuple[int, list[int]]:
    generator, given = _generator(model, prompts, tokens), prompts.astype(np.int32)
    now, stamps = time.monotonic_ns, []
    begin_ns = now()
    generator.append_tokens(given)  # the prefill; a token is chosen from its logits by the first call below
    for _ in range(tokens):
        generator.generate_next_token()
        stamps.append(now())
    return begin_ns, stamps


RUNTIME = Runtime("onnxruntime", _made_by, _make, linears_of, OrtDecoder)


MOST_TOGETHER = 8
_EVENTS = 64
_NOT_ENDED = genai.FinishReason.NONE


class OrtSteps:
    """One onnxruntime-genai Engine.

    On a processor its batches are static: a request that arrives while one runs waits until all of that batch have
    ended (seen with 0.18; its paged cache, which lets requests join, needs CUDA or WebGPU).
    """

    def __init__(self, folder: Path, spec: RunSpec, threads: int) -> None:
        most = int(spec.executor.options.get("most_together", MOST_TOGETHER))
        config = genai.Config(str(folder))
        batching = {"engine": {"static_batching": {"max_batch_size": most}}}
        config.overlay(json.dumps({"model": {"decoder": {"session_options": session_options(threads)}}} | batching))
        self._engine: Any = genai.Engine(genai.Model(config))
        self._events = self._engine.create_event_buffer(_EVENTS)

    def evidence(self, found: Evidence, batch: np.ndarray) -> Evidence:
        """Of the same export, run as one batch: the engine runs the same graph."""
        together = int(self._engine.get_capabilities().configured_max_batch_size)
        facts = {
            "software.runtime.name": observed("onnxruntime-genai, Engine in this process", "the package"),
            "serving.batching": observed("static: a batch ends before the next begins", "its events, version 0.18"),
            "serving.max_sequences": observed(together, "Engine.get_capabilities"),
            "point.batch_achieved": unknown("the engine does not say how many sequences a step had"),
        }
        return replace(found, facts=dict(found.facts) | facts)

    def close(self) -> None:
        self._engine = self._events = None

    def begin(self, ids: np.ndarray, tokens: int) -> Any:
        handle = self._engine.create_request()
        turn = genai.TurnOptions(handle)
        turn.set_max_generated_tokens(tokens)
        turn.set_min_generated_tokens(tokens)
        turn.set_do_sample(False)
        handle.begin_turn(ids.astype(np.int32), turn)
        return handle

    def step(self, running: list[Running]) -> list[Gained]:
        events, gained = self._events, list[Gained]()
        self._engine.run(events)
        for place in range(len(events)):  # to iterate over it ends in an exception, which takes longer than all of this
            event = events[place]
            one = running[0] if len(running) == 1 else _of(event.request, running)
            is_ended = event.finish_reason != _NOT_ENDED
            tokens = 1
            if is_ended:  # this event may bring no token
                tokens = int(one.left > sum(count for each, count, _ in gained if each is one))
                one.handle.close()
            gained.append((one, tokens, is_ended))
        return gained


def _of(handle: Any, running: list[Running]) -> Running:
    return next(each for each in running if each.handle == handle)


def _served(folder: Path, spec: RunSpec, ref: ModelRef, threads: int) -> SteppedEngine:
    return SteppedEngine(OrtSteps(folder, spec, threads), partial(OrtDecoder, folder, spec, ref, threads))


SERVED = Runtime(RUNTIME.name, RUNTIME.made_by, RUNTIME.make, RUNTIME.linears, _served)


# Image classifiers, without onnxruntime-genai: fp32, or static int8 calibrated on random images.

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
