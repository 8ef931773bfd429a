"""A decoder in ONNX Runtime: exported by onnxruntime-genai's own builder, prefill and decode through its Generator."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime_genai as genai

from twinlens.executors.in_process.engine import Evidence, Runtime
from twinlens.executors.in_process.player import Gained, Running, Stepper
from twinlens.executors.in_process.precision_check import log_softmax
from twinlens.executors.in_process.torch_work import Linear, run_apart
from twinlens.executors.onnxruntime.graph import computed_in, kv_format, linears, weights_held, weights_size
from twinlens.executors.onnxruntime.trace import engine_facts, phases_of, read_profile, shares, strays
from twinlens.executors.protocol import TakesRow
from twinlens.record.executor.record import declared, observed, unknown
from twinlens.schedule.request import Schedule, ScheduledRequest
from twinlens.spec.model.reference import DecoderShape, ModelRef
from twinlens.spec.precision import BITS
from twinlens.spec.study import RunSpec
from twinlens.spec.workload.workload import InferenceWorkload

_PRECISIONS = {"fp32": "fp32", "int8-dynamic": "int8", "int4-dynamic": "int4"}
"""Ours to the builder's. Its int8 and int4 store blocks of 32 and quantise activations to int8 (accuracy level 4)."""
_GRAPH = "model.onnx"
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
        graph = self._folder / _GRAPH
        with tempfile.TemporaryDirectory() as folder:
            profiled = _load(self._folder, self._threads, profile=str(Path(folder) / "profile"))
            _generate(profiled, batch, _PROFILED_TOKENS)
            del profiled  # the file is written when the session ends
            phases = phases_of(read_profile(Path(folder)))
        rows = {"prefill": batch.size, "decode": len(batch)}
        products = {phase: computed_in(graph, rows[phase], self._threads) for phase in phases}
        cache_format = kv_format(graph)
        cache = _cache_elements(self._ref, self._spec) * BITS.get(cache_format, 32) // 8
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
        run_apart(command, failed, makes=folder / _GRAPH)


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


def _cache_elements(ref: ModelRef, spec: RunSpec) -> int:
    assert isinstance(ref.shape, DecoderShape)
    assert isinstance(spec.workload, InferenceWorkload)
    context = spec.workload.input_tokens.max + spec.workload.output_tokens.max
    config = ref.config
    heads = int(config.get("num_key_value_heads") or config["num_attention_heads"])
    width = int(config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"])
    return 2 * int(config["num_hidden_layers"]) * heads * width * context * spec.point.batch


def _linears(folder: Path) -> list[Linear]:
    return linears(folder / _GRAPH)


RUNTIME = Runtime("onnxruntime", _made_by, _make, _linears, OrtDecoder)


MOST_TOGETHER = 8
_EVENTS = 64
_NOT_ENDED = genai.FinishReason.NONE


class OrtServed:
    """Plays schedules to one onnxruntime-genai Engine, in this thread: what is due is begun, then one step for all.

    Requests arrive at any time, and the engine batches them itself. On a processor its batches are static: a request
    that arrives while one runs waits until all of that batch have ended (seen with 0.18; its paged cache, which lets
    requests join, needs CUDA or WebGPU).
    """

    def __init__(self, folder: Path, spec: RunSpec, ref: ModelRef, threads: int) -> None:
        self._beside = partial(OrtDecoder, folder, spec, ref, threads)
        self._decoder: OrtDecoder | None = None
        self._most = int(spec.executor.options.get("most_together", MOST_TOGETHER))
        config = genai.Config(str(folder))
        batching = {"engine": {"static_batching": {"max_batch_size": self._most}}}
        config.overlay(json.dumps({"model": {"decoder": {"session_options": session_options(threads)}}} | batching))
        self._engine: Any = genai.Engine(genai.Model(config))
        self._events = self._engine.create_event_buffer(_EVENTS)
        self._stepper: Stepper | None = None

    def answer(self, batch: np.ndarray, tokens: int) -> tuple[int, list[int]]:
        return self._of_evidence().answer(batch, tokens)

    def log_probabilities(self, one: np.ndarray) -> np.ndarray:
        return self._of_evidence().log_probabilities(one)

    def evidence(self, batch: np.ndarray) -> Evidence:
        """Of the same export, run as one batch: the engine runs the same graph."""
        found = self._of_evidence().evidence(batch)
        together = int(self._engine.get_capabilities().configured_max_batch_size)
        facts = {
            "software.runtime.name": observed("onnxruntime-genai, Engine in this process", "the package"),
            "serving.batching": observed("static: a batch ends before the next begins", "its events, version 0.18"),
            "serving.max_sequences": observed(together, "Engine.get_capabilities"),
            "point.batch_achieved": unknown("the engine does not say how many sequences a step had"),
        }
        return replace(found, facts=dict(found.facts) | facts)

    def stepper(self, prompt: Callable[[ScheduledRequest], np.ndarray]) -> Stepper:
        """A player with a clock of its own; `prompt` gives the token ids of a request, (length,)."""
        return Stepper(lambda scheduled: self._begun(scheduled, prompt(scheduled)), self._stepped)

    def play(self, schedule: Schedule, rows: TakesRow, prompt: Callable[[ScheduledRequest], np.ndarray]) -> None:
        """As `Server.play`; `prompt` as for `stepper`."""
        self._decoder = None  # its copy of the weights was for evidence
        if self._stepper is None:
            self._stepper = self.stepper(prompt)
        self._stepper.play(schedule, rows)

    def _of_evidence(self) -> OrtDecoder:
        """The same export without the engine, loaded when it is first wanted: it is no part of the engine's load."""
        if self._decoder is None:
            self._decoder = self._beside()
        return self._decoder

    def close(self) -> None:
        self._engine = self._events = self._decoder = self._stepper = None

    def _begun(self, scheduled: ScheduledRequest, ids: np.ndarray) -> Any:
        handle = self._engine.create_request()
        turn = genai.TurnOptions(handle)
        turn.set_max_generated_tokens(scheduled.output_tokens)
        turn.set_min_generated_tokens(scheduled.output_tokens)
        turn.set_do_sample(False)
        handle.begin_turn(ids.astype(np.int32), turn)
        return handle

    def _stepped(self, running: list[Running]) -> list[Gained]:
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


SERVED = Runtime(RUNTIME.name, RUNTIME.made_by, RUNTIME.make, RUNTIME.linears, OrtServed)
