"""The loops of the runtimes' own benchmark tools, on the model that an executor has loaded: seconds per token.

onnxruntime-genai: `benchmark/python/benchmark_e2e.py` of its repository (not in the wheel): a clock around each
`generate_next_token`, the mean of all. llama.cpp: `test_gen` of `tools/llama-bench/llama-bench.cpp` (no binary in the
wheel): one random token at a time after a prompt, `llama_synchronize`, no logits copied out. OpenVINO has no tool for a
graph with a cache but openvino-genai's; its `benchmark_app` is run as it is, on images. transformers: `generate`.
"""

from __future__ import annotations

import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

Clock = Callable[[], float]


def genai_e2e(model: Any, prompt: np.ndarray, tokens: int, clock_s: Clock) -> float:
    """onnxruntime-genai: mean of the calls after the first token."""
    import onnxruntime_genai as genai

    params = genai.GeneratorParams(model)
    longest = prompt.shape[1] + tokens
    params.set_search_options(do_sample=False, max_length=longest, min_length=longest, batch_size=1)
    generator = genai.Generator(model, params)
    generator.append_tokens(prompt.astype(np.int32))
    generator.generate_next_token()
    times: list[float] = []
    while not generator.is_done() and len(times) < tokens - 1:
        begin_s = clock_s()
        generator.generate_next_token()
        times.append(clock_s() - begin_s)
    return sum(times) / len(times)


def llama_bench(engine: Any, prompt: np.ndarray, tokens: int, clock_s: Clock) -> float:
    """llama.cpp: generation after a prompt, as `llama-bench -p 0 -n TOKENS -d PROMPT` times it."""
    import llama_cpp

    context = engine._context
    engine._empty()
    engine._fill(prompt, every=False)
    llama_cpp.llama_decode(context, engine._batch)
    llama_cpp.llama_synchronize(context)
    rng = np.random.default_rng(0)
    token = (llama_cpp.llama_token * 1)(0)
    begin_s = clock_s()
    for _ in range(tokens - 1):
        token[0] = int(rng.integers(engine._vocabulary))
        llama_cpp.llama_decode(context, llama_cpp.llama_batch_get_one(token, 1))
        llama_cpp.llama_synchronize(context)
    return (clock_s() - begin_s) / (tokens - 1)


def transformers_generate(model: Any, prompt: np.ndarray, tokens: int, clock_s: Clock) -> float:
    """transformers: `generate` of all tokens less that of one, over the tokens between."""
    import torch

    ids = torch.from_numpy(prompt)

    def taken(count: int) -> float:
        begin_s = clock_s()
        model.generate(ids, max_new_tokens=count, min_new_tokens=count, do_sample=False, use_cache=True)
        return clock_s() - begin_s

    with torch.inference_mode():
        return (taken(tokens) - taken(1)) / (tokens - 1)


def benchmark_app(graph: Path, sides: tuple[int, ...], seconds: int, threads: int) -> float:
    """OpenVINO's `benchmark_app`, one request at a time: the median latency in seconds."""
    shape = ",".join(str(side) for side in sides)
    tool = Path(sys.executable).with_name("benchmark_app")
    command = [str(tool)] if tool.exists() else [sys.executable, "-m", "openvino.tools.benchmark.main"]
    command += ["-m", str(graph), "-hint", "none", "-api", "sync", "-nireq", "1", "-nstreams", "1"]
    command += ["-nthreads", str(threads), "-t", str(seconds), "-shape", f"[{shape}]", "-infer_precision", "f32"]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = re.search(r"Median:\s+([\d.]+) ms", said)
    if not found:
        raise RuntimeError(f"benchmark_app gave no median: {said[-400:]}")
    return float(found[1]) / 1e3


def ort_perf_test(session: Any, batch: np.ndarray, calls: int) -> float:
    """ONNX Runtime: the median latency of runs on an input that is bound once."""
    bound = session.io_binding()
    bound.bind_cpu_input(session.get_inputs()[0].name, batch)
    bound.bind_output(session.get_outputs()[0].name)
    times: list[float] = []
    for _ in range(calls):
        begin_s = time.monotonic()
        session.run_with_iobinding(bound)
        times.append(time.monotonic() - begin_s)
    return statistics.median(times)
