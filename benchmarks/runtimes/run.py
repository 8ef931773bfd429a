"""Executors against their runtimes' own tools in turns, and batch-1 decode against what this machine can read.

One process per engine, model and precision, one thread. A round is: read bandwidth, ours, theirs, theirs, ours, read
bandwidth; its ratio is ours over theirs, its share the bytes of weights and cache that a token reads, over its time, of
the mean of both bandwidths. Ours is the time per token of the rows, through the schedule and the player of a run.
`--clock cpu` takes processor time for all three, for a machine with neighbours: one thread only, since it adds threads.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np

from benchmarks.finding import Finding, watched, with_neighbours
from benchmarks.interleave import median_of
from benchmarks.runtimes import own_tools
from benchmarks.setup import in_fresh_process
from twinlens.executors.in_process.engine_server import export_of
from twinlens.executors.in_process.inputs import Prompts
from twinlens.executors.in_process.lockstep import LockstepPlayer
from twinlens.record.request import Request
from twinlens.schedule.loop.lockstep import LockstepLoop
from twinlens.spec.load import parse
from twinlens.spec.study import RunSpec
from twinlens.spec.workload.length import Fixed
from twinlens.units import RATIO, SECONDS

WITHIN = 0.03
PROMPT, ANSWER = 64, 32  # a short prompt: the time of a token is asked for
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


ClockNs = Callable[[], int]


@dataclass(frozen=True, slots=True)
class Case:
    """One engine with one model at one precision. `ours`: rows of one request; `theirs`: seconds per token by the
    runtime's own loop, None where it has none for this; `token_bytes`: weights and cache that a token reads."""

    ours: Callable[[], Request]
    theirs: Callable[[], float] | None
    token_bytes: float


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks runtimes", description=__doc__)
    parser.add_argument("--models", nargs="+", default=list(MODELS))
    parser.add_argument("--engines", nargs="+", default=list(PRECISIONS))
    parser.add_argument("--precisions", nargs="+", help="only these")
    parser.add_argument("--rounds", type=int, default=12, help="a ratio and a share each")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--clock", choices=("wall", "cpu"), default="wall")
    parser.add_argument("--images", action="store_true", help="also ResNet-50 against OpenVINO's benchmark_app")
    return parser


def run(options: argparse.Namespace) -> tuple[list[Finding], list[str]]:
    """Ratio to the runtime's own loop, and share of the read bandwidth."""
    found: list[Finding] = []
    for model in options.models:
        for engine in options.engines:
            for precision in PRECISIONS[engine]:
                if not options.precisions or precision in options.precisions:
                    found += in_fresh_process(_measured, engine, model, precision, options)
    if options.images:
        found += in_fresh_process(_images, options)
    return found, [NOTE]


def spec_of(engine: str, model: str, precision: str, threads: int) -> RunSpec:
    """Batch 1, a prompt of 64 tokens and an answer of 32; for images batch 1."""
    lengths = {"input_tokens": _fixed(PROMPT), "output_tokens": _fixed(ANSWER)}
    data = {"data": {"kind": "images"}} if model.startswith(("resnet", "vit")) else {}
    return parse(
        {
            "name": "benchmark",
            "executor": {"kind": engine, "threads": threads},
            "workload": {"kind": "inference", "model": model, "fidelity_prompts": 0, **lengths, **data},
            "point": {"precision": precision},
            "protocol": {"ceilings": False, "extend": 0, "duration_s": 1e-9, "min_rows": 1, "repeats": 1},
        }
    ).runs()[0]


def _measured(engine: str, model: str, precision: str, options: argparse.Namespace) -> list[Finding]:
    clock_ns = time.process_time_ns if options.clock == "cpu" else time.monotonic_ns
    case = (_torch_case if engine == "torch" else _engine_case)(engine, model, precision, options.threads, clock_ns)
    bandwidth = _reading(options.threads, clock_ns)
    with watched() as seen:
        _time_per_token(case.ours())
        ratios, shares, times, read = [], [], [], [bandwidth()]
        for _ in range(options.rounds):
            first = _time_per_token(case.ours())
            theirs = [case.theirs(), case.theirs()] if case.theirs else []
            last = _time_per_token(case.ours())
            read.append(bandwidth())
            times += [first, last]
            shares.append(case.token_bytes / ((first + last) / 2) / ((read[-1] + read[-2]) / 2))
            ratios += [(first + last) / sum(theirs)] if theirs else []
    what = f"{model} {engine} {precision}"
    gigabytes = f"{statistics.median(read) / 1e9:.1f} GB/s, {case.token_bytes / 1e6:.1f} MB a token"
    findings = [
        Finding(f"{what}: TPOT", median_of(times, "median of requests", SECONDS)),
        Finding(f"{what}: of read bandwidth", median_of(shares, "median of rounds"), None, "at least", gigabytes),
    ]
    if ratios:
        excess = median_of(np.array(ratios) - 1.0, "median of ours/theirs - 1 over rounds", RATIO)
        findings.insert(1, Finding(f"{what}: over its own tool", excess, WITHIN))
    return with_neighbours(findings, seen)


def _reading(threads: int, clock_ns: ClockNs) -> Callable[[], float]:
    """Bytes per second of summing 512 MiB of fp32, median of five."""
    import torch

    torch.set_num_threads(threads or torch.get_num_threads())
    buffer = torch.ones(2**27)

    def once() -> float:
        begin_ns = clock_ns()
        buffer.sum()
        return 4e9 * 2**27 / (clock_ns() - begin_ns)

    return lambda: statistics.median(once() for _ in range(3))


def _engine_case(engine: str, model: str, precision: str, threads: int, clock_ns: ClockNs) -> Case:
    spec = spec_of(engine, model, precision, threads)
    runtime = _runtime(engine)
    export = export_of(runtime, spec, spec.model.known(), lambda phrase: None)
    loaded: Any = runtime.load(export.path, spec, spec.model.known(), threads)
    prompts = Prompts(spec, spec.model.known())
    player = LockstepPlayer(lambda up: loaded.answer(prompts.of(up), up[0].output_tokens), is_text=True)
    prompt = prompts.for_evidence()
    sys.modules[type(loaded).__module__].time = SimpleNamespace(monotonic_ns=clock_ns)  # type: ignore[attr-defined]

    def clock_s() -> float:
        return clock_ns() / 1e9

    theirs = {
        "onnxruntime": lambda: own_tools.genai_e2e(loaded._model, prompt, ANSWER, clock_s),
        "llama-cpp-engine": lambda: own_tools.llama_bench(loaded, prompt, ANSWER, clock_s),
    }.get(engine)
    extra = _SCALE_BITS.get((engine, precision), 0.0)
    weights = sum(out * width * (_bits(stored) + extra) / 8 for out, width, stored in runtime.linears(export.path))
    return Case(lambda: _one(player), theirs, weights + _cache_bytes(spec))


def _torch_case(engine: str, model: str, precision: str, threads: int, clock_ns: ClockNs) -> Case:
    from benchmarks.setup import opened_server
    from twinlens.executors.torch.evidence.inference import linear_sizes

    def clock_s() -> float:
        return clock_ns() / 1e9

    server = opened_server(spec_of("torch", model, precision, threads))
    sys.modules["twinlens.executors.torch.generation"].time = SimpleNamespace(monotonic_ns=clock_ns)
    spec = spec_of("torch", model, precision, threads)
    prompt = Prompts(spec, spec.model.known()).for_evidence()
    weights = sum(out * width * _bits(precision) / 8 for out, width, *_ in linear_sizes(server.model))
    return Case(
        lambda: _played(server),
        lambda: own_tools.transformers_generate(server.model, prompt, ANSWER, clock_s),
        weights + _cache_bytes(spec),
    )


def _images(options: argparse.Namespace) -> list[Finding]:
    """ResNet-50 in OpenVINO at fp32: our latency over that of benchmark_app, each for seconds in turn."""
    from twinlens.executors.in_process.calibration import image_sides
    from twinlens.executors.openvino.decoder import GRAPH
    from twinlens.executors.openvino.vision import VISION

    spec = spec_of("openvino", "resnet-50", "fp32", options.threads)
    ref = spec.model.known()
    export = export_of(VISION, spec, ref, lambda phrase: None)
    loaded = VISION.load(export.path, spec, ref, options.threads)
    batch = np.random.default_rng(0).standard_normal((1, *image_sides(ref)), dtype=np.float32)

    def ours() -> float:
        stamps = [loaded.answer(batch, 0) for _ in range(40)]
        return statistics.median((end[0] - begin) / 1e9 for begin, end in stamps)

    with watched() as seen:
        ours()
        ratios = []
        for _ in range(max(6, options.rounds // 2)):
            first = ours()
            theirs = own_tools.benchmark_app(export.path / GRAPH, batch.shape, 3, options.threads)
            ratios.append((first + ours()) / 2 / theirs - 1.0)
    excess = median_of(ratios, "median of ours/theirs - 1 over rounds", RATIO)
    return with_neighbours([Finding("resnet-50 openvino fp32: over benchmark_app", excess, WITHIN)], seen)


def _runtime(engine: str) -> Any:
    if engine == "onnxruntime":
        from twinlens.executors.onnxruntime.decoder import RUNTIME as ORT

        return ORT
    if engine == "openvino":
        from twinlens.executors.openvino.decoder import RUNTIME as OPENVINO

        return OPENVINO
    from twinlens.executors.llama_cpp.decoder import RUNTIME as LLAMA

    return LLAMA


def _request() -> LockstepLoop:
    return LockstepLoop(1, Fixed(value=PROMPT), Fixed(value=ANSWER), until_ns=0, min_requests=1, seed=0)


def _one(player: LockstepPlayer) -> Request:
    rows: list[Request] = []
    player.play(_request(), rows.append)
    return rows[0]


def _played(server: Any) -> Request:
    rows: list[Request] = []
    server.play(_request(), rows.append)
    return rows[0]


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


def _fixed(tokens: int) -> dict[str, Any]:
    return {"kind": "fixed", "value": tokens}


NOTE = (
    "A token reads the weights of every linear layer with their scales, and the cache; a model of demo size partly "
    "stays in the last-level cache, so its share of the bandwidth of memory may pass 100 %."
)
