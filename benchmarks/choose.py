"""How long a choice of devices takes: a model on every device, precision and legal layout, inference and training."""

from __future__ import annotations

import argparse
import time

from benchmarks.finding import Finding, watched, with_neighbours
from benchmarks.interleave import median_of
from twinlens.api.plan.choose import ChooseResult, choose
from twinlens.units import COUNT, SECONDS

TARGET_S = 2.0
PRECISIONS = "bf16,fp8,int8,nvfp4,int4"


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks choose", description=__doc__)
    parser.add_argument("--model", default="llama-3.1-405b")
    parser.add_argument("--repeats", type=int, default=9)
    return parser


def run(options: argparse.Namespace) -> tuple[list[Finding], list[str]]:
    """Seconds of processor time of a whole choice, once with what it reads for the first time."""
    with watched() as seen:
        first_s, found = _taken(options.model)
        many = [_taken(options.model)[0] for _ in range(options.repeats)]
    layouts = sum(each.evaluated for each in found.answer.rankings)
    rows = [
        Finding("first choice", median_of([first_s], "one, seconds of CPU", SECONDS), TARGET_S),
        Finding("a choice after that", median_of(many, "median, seconds of CPU", SECONDS), TARGET_S),
        Finding("layouts of which a step was computed", median_of([float(layouts)], "counted", COUNT)),
    ]
    return with_neighbours(rows, seen), []


def _taken(model: str) -> tuple[float, ChooseResult]:
    start_s = time.process_time()
    found = choose(model, training=50, users=16, context="8K", precision=PRECISIONS, training_precision="bf16,fp8")
    return time.process_time() - start_s, found
