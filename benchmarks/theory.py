"""How many points of a plan theory evaluates: memory and roofline of a decode step, one by one and as arrays."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np

from benchmarks.finding import Finding, watched, with_neighbours
from benchmarks.interleave import median_of
from twinlens.spec.model.reference import load_model
from twinlens.spec.model.shape import DecoderShape
from twinlens.theory.flop import decode_flop
from twinlens.theory.memory import kv_bytes, weights_bytes
from twinlens.theory.number import Number
from twinlens.theory.roofline import time_floor_s
from twinlens.theory.traffic import decode_step_bytes
from twinlens.units import COUNT

ONE_BY_ONE, VECTORISED = 5_000, 100_000  # evaluations per second of CPU
MODELS = ("llama-3.1-70b", "mixtral-8x7b", "deepseek-v3")
H200 = {"flop_per_s": 989.5e12, "bytes_per_s": 4.8e12}


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks theory", description=__doc__)
    parser.add_argument("--points", type=int, default=200_000, help="batches, contexts and widths in one array")
    parser.add_argument("--calls", type=int, default=2_000, help="calls one by one")
    parser.add_argument("--repeats", type=int, default=9)
    return parser


def run(options: argparse.Namespace) -> tuple[list[Finding], list[str]]:
    """Evaluations per second of CPU time, so that a neighbour does not slow them."""
    findings = []
    with watched() as seen:
        for model in MODELS:
            shape = load_model(model).shape
            assert isinstance(shape, DecoderShape)
            alone = [_per_s(lambda s=shape: _each(s, options.calls), options.calls) for _ in range(options.repeats)]
            many = [_per_s(lambda s=shape: _array(s, options.points), options.points) for _ in range(options.repeats)]
            for how, rates, target in (("one by one", alone, ONE_BY_ONE), ("as an array", many, VECTORISED)):
                per_s = median_of(rates, "median, evaluations per second of CPU", COUNT)
                findings.append(Finding(f"{model}, {how}: evaluations/s", per_s, target, "at least"))
    return with_neighbours(findings, seen), []


def _each(shape: DecoderShape, calls: int) -> None:
    for call in range(calls):
        _decode_step(shape, 4.5, 1 + call % 64, 1024 + call)


def _array(shape: DecoderShape, points: int) -> None:
    at = np.arange(points)
    _decode_step(shape, np.where(at % 2, 16.0, 4.5), 1 + at % 512, 1 + 7 * (at % 4096))


def _decode_step(shape: DecoderShape, bits: Number, batch: Number, context: Number) -> Number:
    """Memory in bytes and the least time in seconds of a decode step on an H200."""
    flop, moved = batch * decode_flop(shape, context), decode_step_bytes(shape, context, batch, bits)
    memory = weights_bytes(shape, bits) + kv_bytes(shape, context, sequences=batch)
    return memory, time_floor_s(flop, moved, **H200).time_s


def _per_s(work: Callable[[], None], evaluations: int) -> float:
    start_s = time.process_time()
    work()
    return evaluations / (time.process_time() - start_s)
