"""What being measured costs: Twinlens' loop with its rows against the bare loop over the same objects.

One process, one model, one optimizer, one stream of batches or prompts; blocks of one step or one request in A B B A
order. The measured block pays for all that a run does around the work: marks, schedule, rows written to disk, progress.
The telemetry sampler ticks twice a second, too seldom for short blocks: its processor time is read from the sampler
itself while it runs beside the same work at a run's own period, and counted as if it stopped the work for so long.
"""

from __future__ import annotations

import argparse
import contextlib
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
import torch.nn.functional as F

from benchmarks.finding import Finding, watched, with_neighbours
from benchmarks.interleave import Turns, median_of, take_turns
from benchmarks.setup import ANSWER, PROMPT, inference, opened_server, opened_trainer, requests, training
from twinlens.executors.torch.infer import TorchServer
from twinlens.executors.torch.train import TorchTrainer
from twinlens.measurement.drive.training import train
from twinlens.measurement.machine.energy import open_meters
from twinlens.measurement.machine.telemetry import Sampler
from twinlens.record.arrow import RowWriter
from twinlens.record.store import open_rows, open_telemetry
from twinlens.spec.study import RunSpec

TARGET = 0.01
TRAINING = (("tiny", "fp32", 2, 64), ("demo-34m", "fp32", 2, 256), ("demo-34m", "bf16", 2, 256))
INFERENCE = (("tiny", "fp32"), ("demo-34m", "fp32"), ("demo-34m", "bf16"))

Blocks = tuple[Callable[[RowWriter], None], Callable[[], None]]
"""One measured step or request, and the same bare."""


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks harness_cost", description=__doc__)
    parser.add_argument("--seconds", type=float, default=40, help="how long each configuration takes turns")
    parser.add_argument("--threads", type=int, default=1, help="torch threads; one is least disturbed by neighbours")
    parser.add_argument("--only", default="", help="configurations whose name contains this")
    return parser


def run(options: argparse.Namespace) -> tuple[list[Finding], list[str]]:
    """Every configuration's overhead, and the fixed cost of one row."""
    found: list[Finding] = []
    for what, spec, blocks in _configurations(options.threads):
        if options.only in what:
            with watched() as seen:
                findings = _measure(what, spec, blocks(), options.seconds)
            found += with_neighbours(findings, seen)
    return found, [
        "The cost of a row does not grow with the model: the tiny models resolve it, and it divided by a longer "
        "step is that step's overhead."
    ]


def _configurations(threads: int) -> Iterator[tuple[str, RunSpec, Callable[[], Blocks]]]:
    for model, precision, batch, seq_len in TRAINING:
        spec = training(model, precision, batch, seq_len, threads)
        yield f"training {model} {precision} {batch}×{seq_len}", spec, lambda spec=spec: _training_blocks(spec)
    for model, precision in INFERENCE:
        spec = inference(model, precision, threads)
        yield f"inference {model} {precision} {PROMPT}+{ANSWER}", spec, lambda spec=spec: _inference_blocks(spec)


def _measure(what: str, spec: RunSpec, blocks: Blocks, seconds: float) -> list[Finding]:
    measured, bare = blocks
    with tempfile.TemporaryDirectory() as folder, open_rows(Path(folder), spec) as rows:
        turns = take_turns(lambda: measured(rows), bare, seconds)
        share = _sampler_share(spec, Path(folder), lambda: measured(rows), seconds / 4)
    return _findings(what, turns, share)


def _sampler_share(spec: RunSpec, folder: Path, work: Callable[[], None], seconds: float) -> float:
    until_s = time.monotonic() + max(5.0, seconds)
    with open_telemetry(folder) as readings:
        with Sampler(readings.add_all, (), 0.5, meters=open_meters(())) as sampler:
            while time.monotonic() < until_s:
                work()
        cost = sampler.cost()
    assert cost.value is not None, cost.reason
    return cost.value


def _findings(what: str, turns: Turns, sampler: float) -> list[Finding]:
    block_s = float((turns.wall_b_s / 2).mean())
    method = f"median of A/B - 1 over A B B A groups, plus the sampler's {sampler:.2%} of one CPU"
    whole = median_of(turns.wall_a_s / turns.wall_b_s - 1 + sampler, method)
    note = f"bare block {block_s * 1e3:.0f} ms; sampler {sampler:.2%} of one CPU included"
    return [
        Finding(f"{what}: overhead", whole, TARGET, "at most", note),
        Finding(f"{what}: overhead in CPU time, no sampler", turns.cpu_excess(), TARGET, "at most"),
        Finding(f"{what}: cost of one row", turns.excess_s()),
    ]


def _training_blocks(spec: RunSpec) -> Blocks:
    trainer = opened_trainer(spec)

    def measured(rows: RowWriter) -> None:
        train(trainer, spec, rows, lambda share, count: None, None)  # one step: its time has always passed

    return measured, bare_step(trainer)


def bare_step(trainer: TorchTrainer) -> Callable[[], None]:
    """One training step over the trainer's own model, optimizer and batches, without the trainer."""
    model, optimizer, batches = trainer.model, trainer.optimizer, trainer.batches

    def bare() -> None:
        inputs, targets = batches.next()
        with _autocast(trainer.spec.point.precision):
            logits = model(input_ids=inputs, use_cache=False).logits.flatten(0, 1)
        F.cross_entropy(logits.float(), targets.flatten()).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return bare


def _inference_blocks(spec: RunSpec) -> Blocks:
    server = opened_server(spec)
    answer = bare_answer(server)

    def measured(rows: RowWriter) -> None:
        server.play(requests(1), rows.add)

    return measured, lambda: answer(ANSWER)


def bare_answer(server: TorchServer) -> Callable[[int], None]:
    """Greedy generation of some tokens over the server's own model and static cache, without the server."""
    assert server.generation is not None
    model, cache = server.model, server.generation.cache
    prompts = server.prompts.batch([(0, 0, 0)], PROMPT)
    positions = [torch.tensor([[position]]) for position in range(PROMPT, PROMPT + ANSWER)]

    @torch.inference_mode()
    def bare(tokens: int) -> None:
        cache.reset()
        out = model(input_ids=prompts, past_key_values=cache, use_cache=True, logits_to_keep=1)
        newest = out.logits[:, -1:].argmax(-1)
        for position in positions[: tokens - 1]:
            out = model(input_ids=newest, position_ids=position, past_key_values=cache, use_cache=True)
            newest = out.logits[:, -1:].argmax(-1)

    return bare


def _autocast(precision: str) -> contextlib.AbstractContextManager[object]:
    return torch.autocast("cpu", dtype=torch.bfloat16) if precision == "bf16" else contextlib.nullcontext()
