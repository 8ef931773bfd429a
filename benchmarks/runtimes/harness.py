"""Our own Python per token in a request of an engine in this process: its wall time less that spent in the engine.

The calls into the engine are replaced by timed ones. All between them is ours: schedule, player, prompt, stamps, the
choice of a token, the row and its file, and the clock readings of the timed calls: an upper bound.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.finding import Finding, watched, with_neighbours
from benchmarks.interleave import median_of
from benchmarks.runtimes.specs import ANSWER, Play, loaded, one, runtime_of, spec_of
from benchmarks.runtimes.spent import Spent
from twinlens.executors.in_process.inputs import Prompts
from twinlens.executors.in_process.lockstep import LockstepPlayer
from twinlens.record.store import open_rows
from twinlens.spec.study import RunSpec
from twinlens.units import SECONDS

TARGET = 0.01
ENGINES = {
    "torch": "fp32",
    "onnxruntime": "int8-dynamic",
    "openvino": "int8-weight",
    "llama-cpp-engine": "int8-dynamic",
    "onnxruntime-served": "int8-dynamic",
    "openvino-served": "int8-weight",
}


class Stand:
    """An object of the engine whose `names` are timed calls, and whose other attributes are its own."""

    def __init__(self, real: Any, spent: Spent, *names: str) -> None:
        self._real = real
        for name in names:
            setattr(self, name, spent.timed(getattr(real, name)))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


def measured(engine: str, model: str, options: argparse.Namespace) -> list[Finding]:
    """Own time per token, and its share of a token's time."""
    clock_ns = time.process_time_ns if options.clock == "cpu" else time.perf_counter_ns
    spec, spent = spec_of(engine, model, ENGINES[engine], options.threads), Spent(clock_ns)
    play = _opened(spec, engine, spent)
    with watched() as seen, tempfile.TemporaryDirectory() as folder, open_rows(Path(folder), spec) as rows:

        def request() -> tuple[float, float]:
            begin_ns, before_ns = clock_ns(), spent.ns
            rows.add(one(play))
            whole_ns = clock_ns() - begin_ns
            return (whole_ns - (spent.ns - before_ns)) / 1e9 / ANSWER, whole_ns / 1e9 / ANSWER

        request()
        found, until_s = [], time.monotonic() + options.seconds
        while len(found) < 12 or time.monotonic() < until_s:
            found.append(request())
    what = f"{model} {engine} {ENGINES[engine]}"
    own = median_of([own for own, _ in found], "median of requests", SECONDS)
    share = median_of([own / whole for own, whole in found], "median of requests: own time over all of it")
    findings = [
        Finding(f"{what}: our Python per token", own),
        Finding(f"{what}: of a token's time", share, TARGET, "at most"),
    ]
    return with_neighbours(findings, seen)


def _opened(spec: RunSpec, engine: str, spent: Spent) -> Play:
    """The player of a run over an engine whose calls are timed."""
    if engine == "torch":
        return _torch(spec, spent)
    _, made = loaded(runtime_of(engine), spec)
    prompts = Prompts(spec, spec.model.known())
    _time_calls(engine, made, spent)
    if engine.endswith("-served"):
        play: Play = made.stepper(lambda scheduled: prompts.of((scheduled,))[0]).play
        return play
    return LockstepPlayer(lambda up: made.answer(prompts.of(up), up[0].output_tokens), is_text=True).play


def _time_calls(engine: str, made: Any, spent: Spent) -> None:
    """Put timed calls in the place of the engine's own."""
    if engine == "onnxruntime":
        from twinlens.executors.onnxruntime import decoder

        plain = spent.timed(decoder._generator)  # what it allocates before its clock starts is the engine's
        decoder._generator = lambda *given: Stand(plain(*given), spent, "append_tokens", "generate_next_token")
    elif engine == "openvino":
        made._request.request = Stand(made._request.request, spent, "reset_state", "set_tensor", "infer", "get_tensor")
    elif engine == "llama-cpp-engine":
        from twinlens.executors.llama_cpp import decoder as llama

        names = ("llama_memory_clear", "llama_decode", "llama_get_logits_ith")
        llama.llama_cpp = Stand(llama.llama_cpp, spent, *names)  # type: ignore[assignment]
    elif engine == "onnxruntime-served":
        made._engine = Stand(made._engine, spent, "run", "create_request")
    else:
        made._pipeline = Stand(made._pipeline, spent, "step", "add_request")


def _torch(spec: RunSpec, spent: Spent) -> Play:
    from benchmarks.setup import opened_server

    server = opened_server(spec)
    generation = server.generation
    assert generation is not None
    generation.prefill = spent.timed(generation.prefill)  # type: ignore[method-assign]
    generation.decode = spent.timed(generation.decode)  # type: ignore[method-assign]
    return server.play
