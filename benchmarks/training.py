"""How near a training step comes to what this machine can multiply: model FLOP over time against measured matrix rates.

Model FLOP are counted by theory (causal attention in half, no recomputation). The ceilings are the rate over the
model's own products (a) as the forward pass makes them and (b) all three of a training step: forward, gradient of the
input, gradient of the weight; and (c) square products at their best size. Ceilings are taken between any two blocks of
steps, and each block is compared with the mean of the two around it.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass

from benchmarks.finding import Finding, watched, with_neighbours
from benchmarks.interleave import bracketed, median_of
from benchmarks.operators import operator_profile
from benchmarks.setup import in_fresh_process, opened_trainer, training
from twinlens.errors import TwinlensError
from twinlens.executors.torch.ceiling.rates import matrix_flop_per_s, matrix_flop_per_s_at
from twinlens.executors.torch.model.build import linear_shapes
from twinlens.executors.torch.train import TorchTrainer
from twinlens.measurement.facts.predicted_work import theory_of
from twinlens.record.estimate import Estimate
from twinlens.units import RATIO, SECONDS

TARGET = 0.60
SEQ_LEN = 256


@dataclass(frozen=True, slots=True)
class Round:
    """One look at the ceilings, in FLOP per second."""

    forward: float
    step: float
    square: float


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks training", description=__doc__)
    parser.add_argument("--model", default="demo-34m")
    parser.add_argument("--precisions", nargs="+", default=["fp32", "bf16"])
    parser.add_argument("--graphs", nargs="+", default=["eager", "compiled"])
    parser.add_argument("--batches", nargs="+", type=int, default=[2, 8], help=f"sequences of {SEQ_LEN} tokens")
    parser.add_argument("--rounds", type=int, default=10, help="blocks per configuration")
    parser.add_argument("--steps", type=int, default=2, help="steps per block")
    parser.add_argument("--threads", type=int, default=1, help="torch threads; 0: as a run would choose")
    return parser


def run(options: argparse.Namespace) -> tuple[list[Finding], list[str]]:
    """Every precision, batch and graph."""
    found: list[Finding] = []
    notes: list[str] = []
    for precision in options.precisions:
        for batch in options.batches:
            for graph in options.graphs:
                findings, note = in_fresh_process(_configuration, precision, batch, graph, options)
                found += findings
                notes += [note] if note else []
    return found, notes


def _configuration(
    precision: str, batch: int, graph: str, options: argparse.Namespace
) -> tuple[list[Finding], str | None]:
    what = f"{options.model} {precision} {batch}×{SEQ_LEN} {graph}"
    spec = training(options.model, precision, batch, SEQ_LEN, options.threads, graph)
    try:
        trainer = opened_trainer(spec)
        with watched() as seen:
            rounds, step_s = _take(trainer, options.rounds, options.steps)
    except (TwinlensError, RuntimeError) as error:
        reason = str(error).splitlines()[0][:160]
        return [Finding(what, Estimate.absent(RATIO, reason))], None
    step_flop = theory_of(spec)["step_flop"].value
    assert step_flop
    findings = with_neighbours(_findings(what, step_flop, rounds, step_s), seen)
    note = None if findings[0].verdict == "met" else f"{what}: {_explanation(trainer)}"
    return findings, note


def _take(trainer: TorchTrainer, count: int, steps: int) -> tuple[list[Round], list[float]]:
    """Seconds per step of `count` blocks, and the ceilings before, between and after them. [count + 1], [count]"""
    for _ in range(2):
        trainer.step()
    rounds, times = [_ceilings(trainer)], []
    for _ in range(count):
        marks = [trainer.step() for _ in range(steps)]
        times.append((marks[-1].end_ns - marks[0].begin_ns) / steps / 1e9)
        rounds.append(_ceilings(trainer))
    return rounds, times


def _ceilings(trainer: TorchTrainer) -> Round:
    rows = trainer.microbatch * SEQ_LEN
    fmt = trainer.spec.point.precision
    forward = [(rows, out, width) for out, width in linear_shapes(trainer.model)]
    backward = [product for m, n, k in forward for product in ((m, k, n), (n, k, m))]
    return Round(
        matrix_flop_per_s_at(fmt, forward, "cpu", trainer.threads, 0.4).value or 0.0,
        matrix_flop_per_s_at(fmt, forward + backward, "cpu", trainer.threads, 0.8).value or 0.0,
        matrix_flop_per_s(fmt, "cpu", trainer.threads, 0.25).value or 0.0,
    )


def _findings(what: str, step_flop: float, rounds: list[Round], step_s: list[float]) -> list[Finding]:
    achieved = [step_flop / seconds for seconds in step_s]
    method = "median over blocks of (model FLOP / step time) / (ceiling around it)"
    found = []
    for label, field, target in (
        ("of the matrix rate at its own shapes", "forward", TARGET),
        ("of the same with both backward products", "step", None),
        ("of the square matrix rate", "square", None),
    ):
        ceiling = bracketed([getattr(one, field) for one in rounds])
        rate = f"{sorted(ceiling)[len(ceiling) // 2] / 1e9:.0f} GFLOP/s"
        found.append(Finding(f"{what}: {label}", median_of(achieved / ceiling, method), target, "at least", rate))
    step = median_of(step_s, "median of blocks", SECONDS)
    return [*found, Finding(f"{what}: step time", step, note=f"{step_flop / 1e9:.0f} GFLOP of the model per step")]


def _explanation(trainer: TorchTrainer) -> str:
    phases: dict[str, int] = {}
    marks = [trainer.step() for _ in range(3)]
    for name in ("data", "forward", "backward", "optimize"):
        phases[name] = sum(getattr(one, f"{name}_ns") for one in marks)
    total = sum(one.end_ns - one.begin_ns for one in marks)
    shares = ", ".join(f"{name} {spent / total:.0%}" for name, spent in phases.items())
    return f"{shares}; {operator_profile(trainer.step, 9)}"
