"""What `tl.watch` costs a loop: steps of a watched model against those of its twin that nobody watches.

One process, two copies of a model with an optimizer each, the same batches; steps in A B B A order. The watched step
pays for its hooks, its moments and its row on disk. The telemetry sampler ticks once a second beside both: its
processor time is read from itself and counted as if it stopped the loop for so long.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F

import twinlens as tl
from benchmarks.finding import Finding, watched, with_neighbours
from benchmarks.interleave import Turns, median_of, take_turns
from twinlens.executors.torch.model.build import build_model
from twinlens.record.estimate import Estimate
from twinlens.spec.model.reference import load_model
from twinlens.units import SECONDS

TARGET = 0.01
CASES = (("tiny", 2, 64, 60), ("demo-34m", 2, 256, 2))
"""Model, batch, length, and steps of a block: rows are written once a second, so a block lasts about that."""


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks watch_cost", description=__doc__)
    parser.add_argument("--seconds", type=float, default=40, help="how long each model takes turns")
    parser.add_argument("--threads", type=int, default=1, help="torch threads; one is least disturbed by neighbours")
    parser.add_argument("--only", default="", help="models whose name contains this")
    return parser


def run(options: argparse.Namespace) -> tuple[list[Finding], list[str]]:
    """The overhead on each model, and the cost of one row."""
    torch.set_num_threads(options.threads)
    found: list[Finding] = []
    for name, batch, length, steps in CASES:
        if options.only in name:
            with watched() as seen:
                findings = _measure(name, batch, length, steps, options.seconds)
            found += with_neighbours(findings, seen)
    return found, [
        "The cost of a row does not grow with the model: the tiny model resolves it, and it divided by a longer step "
        "is that step's overhead."
    ]


def _measure(name: str, batch: int, length: int, steps: int, seconds: float) -> list[Finding]:
    (model, optimizer), (twin, other) = _made(name), _made(name)
    tokens = torch.randint(0, model.config.vocab_size, (batch, length + 1))
    plain = torch.Tensor.backward
    with (
        tempfile.TemporaryDirectory() as folder,
        tl.watch(model, optimizer, out=Path(folder), profile=False) as loop,
    ):
        wrapped, batches = torch.Tensor.backward, iter(loop.data(_same(tokens)))

        def a() -> None:
            torch.Tensor.backward = wrapped
            for _ in range(steps):
                _step(model, optimizer, lambda: next(batches))

        def b() -> None:
            torch.Tensor.backward = plain
            for _ in range(steps):
                _step(twin, other, lambda: tokens)

        turns = take_turns(a, b, seconds)
        torch.Tensor.backward = wrapped
        cost = loop.telemetry_cost()
    sampler = cost.value or 0.0
    method = f"median of A/B - 1 over A B B A groups, plus the sampler's {sampler:.2%} of one CPU"
    whole = median_of(turns.wall_a_s / turns.wall_b_s - 1 + sampler, method)
    bare_ms = 1e3 * float((turns.wall_b_s / 2 / steps).mean())
    note = f"bare step {bare_ms:.0f} ms; sampler {sampler:.2%} of one CPU included"
    what = f"watched {name} fp32 {batch}×{length}"
    return [
        Finding(f"{what}: overhead", whole, TARGET, "at most", note),
        Finding(f"{what}: overhead in CPU time, no sampler", turns.cpu_excess(), TARGET, "at most"),
        Finding(f"{what}: cost of one row in CPU time", _row_s(turns, steps)),
    ]


def _row_s(turns: Turns, steps: int) -> Estimate:
    each_s = (turns.cpu_a_s - turns.cpu_b_s) / 2 / steps
    return median_of(each_s, "median of A - B over A B B A groups, processor time", SECONDS)


def _made(name: str) -> tuple[Any, torch.optim.Optimizer]:
    model = build_model(load_model(name), "sdpa", 0, torch.device("cpu")).train()
    return model, torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)


def _same(tokens: torch.Tensor) -> Any:
    while True:
        yield tokens


def _step(model: Any, optimizer: torch.optim.Optimizer, batch: Callable[[], torch.Tensor]) -> None:
    tokens = batch()
    logits = model(input_ids=tokens[:, :-1], use_cache=False).logits.flatten(0, 1)
    F.cross_entropy(logits, tokens[:, 1:].flatten()).backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
