"""What `tl.watch` costs a loop: steps while it watches against steps of the same loop while its hooks are put aside.

One process, one model, one optimizer, one batch; single steps in A B B A order, so that a group is over before the
machine changes its pace. Two copies of a model will not do: they lie elsewhere in memory, and that alone can be worth
a per cent. The watched step pays for its hooks and its moments. Rows are written once a second, in few of the steps,
which a median does not see: the time of that is taken by itself and added for each row. The telemetry sampler ticks
beside both: its processor time is read from itself and counted as if it stopped the loop for so long. Freed memory
stays in the process: else each change between watched and unwatched moves what is freed and taken again, and page
faults of a gradient (0 to 30,000 a step, by chance) were all that was seen.
"""

from __future__ import annotations

import argparse
import itertools
import tempfile
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F

import twinlens as tl
from benchmarks.finding import Finding, watched, with_neighbours
from benchmarks.interleave import Turns, median_of, take_turns
from benchmarks.runtimes.spent import Spent
from twinlens.executors.torch.device import keep_freed_memory
from twinlens.executors.torch.model.build import build_model
from twinlens.record.estimate import Estimate
from twinlens.spec.model.reference import load_model
from twinlens.units import SECONDS

TARGET = 0.01
Loss = Callable[[torch.Tensor], torch.Tensor]
CASES = (("tiny", 2, 64), ("tiny", 8, 64), ("demo-34m", 1, 64))
"""Model, batch and length."""


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks watch_cost", description=__doc__)
    parser.add_argument("--seconds", type=float, default=40, help="how long each model takes turns")
    parser.add_argument("--threads", type=int, default=1, help="torch threads; one is least disturbed by neighbours")
    parser.add_argument("--only", default="", help="models whose name contains this")
    return parser


def run(options: argparse.Namespace) -> tuple[list[Finding], list[str]]:
    """The overhead on each model, and the cost of one row."""
    keep_freed_memory()
    torch.set_num_threads(options.threads)
    with watched() as seen:
        findings = [_of_little(options.seconds / 4)]
    found = with_neighbours(findings, seen)
    for name, batch, length in CASES:
        if options.only in name:
            with watched() as seen:
                findings = _measure(name, batch, length, options.seconds)
            found += with_neighbours(findings, seen)
    return found, [
        "What a row takes does not grow with the model. The loop of one small layer resolves it, with warm caches: a "
        "lower bound for a longer step, which finds them cold."
    ]


def _measure(name: str, batch: int, length: int, seconds: float) -> list[Finding]:
    model = build_model(load_model(name), "sdpa", 0, torch.device("cpu")).train()
    tokens = torch.randint(0, model.config.vocab_size, (batch, length + 1))

    def loss(tokens: torch.Tensor) -> torch.Tensor:
        logits = model(input_ids=tokens[:, :-1], use_cache=False).logits.flatten(0, 1)
        return F.cross_entropy(logits, tokens[:, 1:].flatten())

    turns, aside = _taken(model, loss, tokens, 1, seconds)
    bare_s = float((turns.wall_b_s / 2).mean())
    writing = aside.row_s / bare_s
    method = "median of A/B - 1 over A B B A groups of single steps, and the shares of writing and of the sampler"
    whole = median_of(turns.wall_a_s / turns.wall_b_s - 1 + writing + aside.sampler, method)
    note = f"bare step {1e3 * bare_s:.0f} ms; writing rows {writing:.2%} and the sampler {aside.sampler:.2%} included"
    what = f"watched {name} fp32 {batch}×{length}"
    return [
        Finding(f"{what}: overhead", whole, TARGET, "at most", note),
        Finding(f"{what}: of it hooks and moments, in CPU time", turns.cpu_excess(), TARGET, "at most"),
        Finding(f"{what}: hooks and moments of a step in CPU time", _row_s(turns, 1)),
    ]


def _of_little(seconds: float) -> Finding:
    """What a row takes, where next to nothing else happens."""
    model, steps = torch.nn.Linear(8, 8), 2000
    turns, _ = _taken(model, lambda rows: model(rows).sum(), torch.randn(4, 8), steps, seconds)
    return Finding("watched loop of one 8×8 layer: cost of one row in CPU time", _row_s(turns, steps))


@dataclass(frozen=True, slots=True)
class Aside:
    """What is not in the blocks' medians: seconds of writing for each row, and the sampler's share of one CPU."""

    row_s: float
    sampler: float


def _taken(model: Any, loss: Loss, batch: torch.Tensor, steps: int, seconds: float) -> tuple[Turns, Aside]:
    """Watched (A) against unwatched (B) blocks of so many steps."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    with (
        tempfile.TemporaryDirectory() as folder,
        tl.watch(model, optimizer, out=Path(folder), profile=False) as loop,
    ):
        watched_batches, hooks = iter(loop.data(itertools.repeat(batch))), _Hooks(model, optimizer)
        written = Spent(time.perf_counter_ns)
        loop.log._drain = written.timed(loop.log._drain)  # type: ignore[method-assign]

        def block(batches: Iterator[Any]) -> None:
            for _ in range(steps):
                loss(next(batches)).backward()
                optimizer.step()
                optimizer.zero_grad(set_to_none=True)

        def a() -> None:
            hooks.put_back()
            block(watched_batches)

        def b() -> None:
            hooks.put_aside()
            block(itertools.repeat(batch))

        turns = take_turns(a, b, seconds)
        hooks.put_back()
        sampler = loop.telemetry_cost().value
    assert sampler is not None
    return turns, Aside(written.ns / 1e9 / loop.log.steps, sampler)


class _Hooks:
    """All that `tl.watch` has put on a model, its optimizer and `Tensor.backward`, to be put aside and back."""

    _OF_MODEL = ("_forward_pre_hooks", "_forward_hooks")
    _OF_OPTIMIZER = ("_optimizer_step_pre_hooks", "_optimizer_step_post_hooks")

    def __init__(self, model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> None:
        places = [(model, name) for name in self._OF_MODEL] + [(optimizer, name) for name in self._OF_OPTIMIZER]
        self._held = [(owner, name, getattr(owner, name)) for owner, name in places]
        self._backward = torch.Tensor.backward

    def put_back(self) -> None:
        for owner, name, hooks in self._held:
            setattr(owner, name, hooks)
        torch.Tensor.backward = self._backward

    def put_aside(self) -> None:
        for owner, name, _ in self._held:
            setattr(owner, name, OrderedDict())
        torch.Tensor.backward = self._backward.__wrapped__  # type: ignore[attr-defined]


def _row_s(turns: Turns, steps: int) -> Estimate:
    each_s = (turns.cpu_a_s - turns.cpu_b_s) / 2 / steps
    return median_of(each_s, "median of A - B over A B B A groups, processor time", SECONDS)
