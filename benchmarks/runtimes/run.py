"""Executors against their runtimes' own tools in turns, batch-1 decode against what memory gives, and our own Python.

Parts: `decode` (engines), `images` (ResNet-50), `harness` (our Python per token), `training` (throughput lines). One
process per case. `--clock cpu` takes processor time for both sides, for a machine with neighbours: one thread only,
since it adds threads; what runs in processes of its own (benchmark_app, ranks) is timed by the wall all the same.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable

from benchmarks.finding import Finding
from benchmarks.runtimes import decoders, harness, images, training
from benchmarks.runtimes.specs import ANSWER
from benchmarks.setup import in_fresh_process

PARTS = ("decode", "images", "harness", "training")
NOTE = (
    "A token reads the weights of every linear layer with their scales, and the cache; a model of demo size partly "
    "stays in the last-level cache, so its share of the bandwidth of memory may pass 100 %."
)


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks runtimes", description=__doc__)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--models", nargs="+", default=["demo-34m"], help=f"of text: {', '.join(decoders.MODELS)}")
    parser.add_argument("--engines", nargs="+", help="only these engines, or training stacks")
    parser.add_argument("--precisions", nargs="+", help="of decode, only these")
    parser.add_argument(
        "--seconds", type=float, default=20, help="how long one case takes turns; twelve groups at least"
    )
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--answer", type=int, default=ANSWER, help="tokens of a request of `harness`")
    parser.add_argument("--clock", choices=("wall", "cpu"), default="wall")
    parser.add_argument("--ranks", type=int, default=1, help="of training, and sequences a step; torch has one process")
    parser.add_argument("--deepspeed-python", default="", help="the Python that has DeepSpeed and Twinlens")
    return parser


def run(options: argparse.Namespace) -> tuple[list[Finding], list[str]]:
    """The findings of all parts that were asked for."""
    found: list[Finding] = []
    for model in options.models:
        found += _decode(model, options) if "decode" in options.parts else []
        for engine in _wanted(harness.ENGINES, options) if "harness" in options.parts else ():
            found += in_fresh_process(harness.measured, engine, model, options)
        for stack in _wanted(training.STACKS, options) if "training" in options.parts else ():
            found += in_fresh_process(training.measured, stack, model, options)
    for engine in _wanted(("openvino", "onnxruntime"), options) if "images" in options.parts else ():
        found += in_fresh_process(getattr(images, engine), options)
    return found, [NOTE] if "decode" in options.parts else []


def _decode(model: str, options: argparse.Namespace) -> list[Finding]:
    return [
        finding
        for engine in _wanted(decoders.PRECISIONS, options)
        for precision in decoders.PRECISIONS[engine]
        if not options.precisions or precision in options.precisions
        for finding in in_fresh_process(decoders.measured, engine, model, precision, options)
    ]


def _wanted(names: Iterable[str], options: argparse.Namespace) -> list[str]:
    return [name for name in names if not options.engines or name in options.engines]
