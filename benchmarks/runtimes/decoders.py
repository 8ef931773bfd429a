"""Batch-1 decode of one engine: our rows against its own tool's loop, and against what this machine reads.

Ours is the time per token of the rows, through the schedule and the player of a run. The share is the bytes of weights
and cache that a token reads, over its time, of the mean of the bandwidths measured before and after four groups.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np

from benchmarks.finding import Finding, watched, with_neighbours
from benchmarks.interleave import median_of
from benchmarks.runtimes import own_tools
from benchmarks.runtimes.pairs import FEWEST, Figure, Pairs, group
from benchmarks.runtimes.specs import ANSWER, PROMPT, loaded, one, runtime_of, spec_of
from twinlens.executors.in_process.inputs import Prompts
from twinlens.executors.in_process.player import LockstepPlayer
from twinlens.record.request import Request
from twinlens.spec.study import RunSpec
from twinlens.units import SECONDS

MODELS = ("demo-34m", "demo-134m")
PRECISIONS = {
    "onnxruntime": ("fp32", "int8-dynamic", "int4-dynamic"),
    "openvino": ("fp32", "bf16", "int8-weight", "int4-weight"),
    "llama-cpp-engine": ("fp32", "fp16", "int8-dynamic", "int4-dynamic"),
    "torch": ("fp32", "bf16"),
}
_SCALE_BITS = {
    ("onnxruntime", "int8-dynamic"): 1.0,  # a scale of 32 bits for 32 weights
    ("onnxruntime", "int4-dynamic"): 1.0,
    ("openvino", "int4-weight"): 1.125,  # and a zero point of 4 bits
    ("llama-cpp-engine", "int8-dynamic"): 0.5,  # a scale of 16 bits for 32 weights
    ("llama-cpp-engine", "int4-dynamic"): 0.5,
}
_GROUPS_BETWEEN = 4  # two measurements of the bandwidth
ClockNs = Callable[[], int]


@dataclass(frozen=True, slots=True)
class Case:
    """One engine with one model at one precision. `ours`, `theirs`: seconds per token of one request, by our rows and
    by the runtime's own loop (None where it has none for this); `token_bytes`: weights and cache that a token reads."""

    ours: Figure
    theirs: Figure | None
    token_bytes: float


def measured(engine: str, model: str, precision: str, options: argparse.Namespace) -> list[Finding]:
    """Time of a token, its ratio to the tool's, its share of the bandwidth."""
    clock_ns = time.process_time_ns if options.clock == "cpu" else time.monotonic_ns
    case = (_torch_case if engine == "torch" else _engine_case)(engine, model, precision, options.threads, clock_ns)
    what = f"{model} {engine} {precision}"
    with watched() as seen:
        found = _in_turns(case, _reading(options.threads, clock_ns), options.seconds)
    return with_neighbours(_findings(what, case, *found), seen)


def _in_turns(case: Case, bandwidth: Figure, seconds: float) -> tuple[Pairs, list[float], list[float]]:
    """Groups in turns; by span of groups the share of the bandwidth, and all bandwidths."""
    theirs = case.theirs or case.ours
    case.ours()
    theirs()
    groups: list[tuple[float, float]] = []
    shares, read = [], [bandwidth()]
    until_s = time.monotonic() + seconds
    while len(groups) < FEWEST or time.monotonic() < until_s:
        span = [group(case.ours, theirs, is_ours_outside=place % 2 == 0) for place in range(_GROUPS_BETWEEN)]
        groups += span
        read.append(bandwidth())
        shares.append(case.token_bytes / statistics.median(each[0] for each in span) / ((read[-1] + read[-2]) / 2))
    return Pairs(*np.array(groups).T), shares, read


def _findings(what: str, case: Case, pairs: Pairs, shares: list[float], read: list[float]) -> list[Finding]:
    gigabytes = f"{statistics.median(read) / 1e9:.1f} GB/s, {case.token_bytes / 1e6:.1f} MB a token"
    share = Finding(f"{what}: of read bandwidth", median_of(shares, "median of spans"), None, "at least", gigabytes)
    if case.theirs is None:
        return [Finding(f"{what}: ours", median_of(pairs.ours_s, "median of groups", SECONDS)), share]
    return [*pairs.findings(what, "its own tool"), share]


def _reading(threads: int, clock_ns: ClockNs) -> Figure:
    """Bytes per second of summing 512 MiB of fp32, median of three."""
    import torch

    torch.set_num_threads(threads or torch.get_num_threads())
    buffer = torch.ones(2**27)

    def once() -> float:
        begin_ns = clock_ns()
        buffer.sum()
        return 4e9 * 2**27 / (clock_ns() - begin_ns)

    return lambda: statistics.median(once() for _ in range(3))


def _engine_case(engine: str, model: str, precision: str, threads: int, clock_ns: ClockNs) -> Case:
    spec, runtime = spec_of(engine, model, precision, threads), runtime_of(engine)
    export, made = loaded(runtime, spec)
    prompts = Prompts(spec, spec.model.known())
    player = LockstepPlayer(lambda up: made.answer(prompts.of(up), up[0].output_tokens), is_text=True)
    prompt = prompts.for_evidence()
    sys.modules[type(made).__module__].time = SimpleNamespace(monotonic_ns=clock_ns)  # type: ignore[attr-defined]

    def clock_s() -> float:
        return clock_ns() / 1e9

    theirs = {
        "onnxruntime": lambda: own_tools.genai_e2e(made._model, prompt, ANSWER, clock_s),
        "llama-cpp-engine": lambda: own_tools.llama_bench(made, prompt, ANSWER, clock_s),
    }.get(engine)
    extra = _SCALE_BITS.get((engine, precision), 0.0)
    weights = sum(out * width * (_bits(stored) + extra) / 8 for out, width, stored in runtime.linears(export.path))
    return Case(lambda: _time_per_token(one(player.play)), theirs, weights + _cache_bytes(spec))


def _torch_case(engine: str, model: str, precision: str, threads: int, clock_ns: ClockNs) -> Case:
    from benchmarks.setup import opened_server
    from twinlens.executors.torch.evidence.inference import linear_sizes

    def clock_s() -> float:
        return clock_ns() / 1e9

    spec = spec_of("torch", model, precision, threads)
    server = opened_server(spec)
    sys.modules["twinlens.executors.torch.infer"].time = SimpleNamespace(monotonic_ns=clock_ns)  # type: ignore[attr-defined]
    prompt = Prompts(spec, spec.model.known()).for_evidence()
    weights = sum(out * width * _bits(precision) / 8 for out, width, *_ in linear_sizes(server.model))
    return Case(
        lambda: _time_per_token(one(server.play)),
        lambda: own_tools.transformers_generate(server.model, prompt, ANSWER, clock_s),
        weights + _cache_bytes(spec),
    )


def _time_per_token(row: Request) -> float:
    return (row.chunk_ns[-1] - row.chunk_ns[0]) / 1e9 / (len(row.chunk_ns) - 1)


def _cache_bytes(spec: RunSpec) -> float:
    """Keys and values that a token in the middle of the answer reads."""
    config = spec.model.known().config
    heads = int(config.get("num_key_value_heads") or config["num_attention_heads"])
    width = int(config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"])
    elements = 2 * int(config["num_hidden_layers"]) * heads * width * (PROMPT + ANSWER / 2)
    return elements * _bits(spec.precision.classes("inference")["kv"]) / 8


def _bits(fmt: str) -> float:
    return {"fp32": 32.0, "bf16": 16.0, "fp16": 16.0, "int8": 8.0, "int4": 4.0, "q6_k": 6.5625}[fmt]
