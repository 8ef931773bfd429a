"""Our own Python per token in a request of an engine in this process, by two borders.

Measuring: a request's time less that of the calls that make its tokens: schedule, player, prompt, stamps, row and file.
Measuring and calling: less the time within the engine alone, so also the inputs that we write, the logits that we read
and the token that we choose; torch and onnxruntime choose it themselves. Calls are replaced by timed ones, whose clock
readings count as ours: both are upper bounds.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.finding import Finding, watched, with_neighbours
from benchmarks.interleave import median_of
from benchmarks.runtimes.specs import Play, loaded, one, runtime_of, spec_of
from benchmarks.runtimes.spent import Spent
from twinlens.executors.in_process.inputs import Prompts
from twinlens.executors.in_process.player import LockstepPlayer
from twinlens.record.store import open_rows
from twinlens.spec.study import RunSpec
from twinlens.units import SECONDS, show

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
    """Own time per token by both borders, and its share of a token's time."""
    clock_ns = time.process_time_ns if options.clock == "cpu" else time.perf_counter_ns
    answer, spec = options.answer, spec_of(engine, model, ENGINES[engine], options.threads, options.answer)
    making, within = Spent(clock_ns), Spent(clock_ns)
    play = _opened(spec, engine, making, within)
    with watched() as seen, tempfile.TemporaryDirectory() as folder, open_rows(Path(folder), spec) as rows:

        def request() -> tuple[int, int, int]:
            begin_ns, before = clock_ns(), (making.ns, within.ns)
            rows.add(one(play, answer))
            return clock_ns() - begin_ns, making.ns - before[0], within.ns - before[1]

        request()
        found, until_s = [], time.monotonic() + options.seconds
        while len(found) < 12 or time.monotonic() < until_s:
            found.append(request())
    what = f"{model} {engine} {ENGINES[engine]}, {answer} tokens"
    findings: list[Finding] = []
    for name, place in (("measuring", 1), ("measuring and calling", 2)):
        own = median_of([(each[0] - each[place]) / 1e9 / answer for each in found], "median of requests", SECONDS)
        share = median_of([1 - each[place] / each[0] for each in found], "median of requests: own time over all of it")
        note = f"{show(own.value, own.unit)} a token"
        findings.append(Finding(f"{what}: {name}", share, TARGET, "at most", note))
    return with_neighbours(findings, seen)


def _opened(spec: RunSpec, engine: str, making: Spent, within: Spent) -> Play:
    """The player of a run over an engine whose calls are timed."""
    if engine == "torch":
        return _torch(spec, making, within)
    _, made = loaded(runtime_of(engine), spec)
    prompts = Prompts(spec, spec.model.known())
    _time_calls(engine, made, making, within)
    if engine.endswith("-served"):
        play: Play = made.stepper(lambda scheduled: prompts.of((scheduled,))[0]).play
        return play
    return LockstepPlayer(lambda up: made.answer(prompts.of(up), up[0].output_tokens), is_text=True).play


def _time_calls(engine: str, made: Any, making: Spent, within: Spent) -> None:
    """Put timed calls in the place of the engine's own, and of ours that make tokens by them."""
    if engine == "onnxruntime":
        from twinlens.executors.onnxruntime import decoder

        plain = _twice(decoder._generator, making, within)  # what it allocates before its clock starts is the engine's
        names = ("append_tokens", "generate_next_token")
        decoder._generator = lambda *given: Stand(Stand(plain(*given), within, *names), making, *names)
    elif engine == "openvino":
        real = made._request.request
        made._request.request = Stand(real, within, "reset_state", "set_tensor", "infer", "get_tensor")
        made._request = Stand(made._request, making, "logits", "logits_again")
    elif engine == "llama-cpp-engine":
        from twinlens.executors.llama_cpp import decoder as llama

        names = ("llama_memory_clear", "llama_decode", "llama_get_logits_ith")
        llama.llama_cpp = Stand(llama.llama_cpp, within, *names)  # type: ignore[assignment]
        made._decode = making.timed(made._decode)
    else:
        if engine == "onnxruntime-served":
            made._engine = Stand(made._engine, within, "run", "create_request")
        else:
            made._pipeline = Stand(made._pipeline, within, "step", "add_request")
        made._begun, made._stepped = making.timed(made._begun), making.timed(made._stepped)


def _torch(spec: RunSpec, making: Spent, within: Spent) -> Play:
    from benchmarks.setup import opened_server

    server = opened_server(spec)
    generation = server.generation
    assert generation is not None
    generation.prefill = _twice(generation.prefill, making, within)  # type: ignore[method-assign]
    generation.decode = _twice(generation.decode, making, within)  # type: ignore[method-assign]
    return server.play


def _twice(call: Callable[..., Any], making: Spent, within: Spent) -> Callable[..., Any]:
    """Of a call that is both: ours ends where the engine begins."""
    return making.timed(within.timed(call))
