"""How near batch-1 decode comes to what this machine can read: time per token against three measured ceilings.

All weights of all linear layers are read once per token. Their bytes over the time per token, as a share of
(a) the rate of the matrix-vector products alone, one after the other over the model's own shapes, in the run's layout;
(b) the same in the fastest layout that torch has for the format; (c) plain reading of a long buffer.
Ceilings are taken between any two requests, and each request is compared with the mean of the two around it.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass

import torch

from benchmarks.finding import Finding, watched, with_neighbours
from benchmarks.interleave import bracketed, median_of
from benchmarks.operators import operator_profile
from benchmarks.setup import ANSWER, PROMPT, in_fresh_process, inference, opened_server, requests
from twinlens.errors import TwinlensError
from twinlens.executors.torch.ceiling.rates import buffer_bytes, matvec_bytes_per_s, read_bytes_per_s
from twinlens.executors.torch.ceiling.timing import LAYOUTS, pattern
from twinlens.executors.torch.evidence.inference import linear_sizes
from twinlens.executors.torch.infer import TorchServer
from twinlens.record.estimate import Estimate
from twinlens.record.request import Request
from twinlens.spec.precision import BITS, precision
from twinlens.units import SECONDS

TARGET = 0.70
PRECISIONS = ("fp32", "bf16", "int8-dynamic", "int8-weight", "int4-weight")
_KERNEL = {"int8-dynamic": "dynamic", "int8-weight": "packed", "int4-weight": "packed"}


@dataclass(frozen=True, slots=True)
class Round:
    """One look at the ceilings, in bytes per second: the run's own layout, the best layout, plain reading."""

    own: float
    best: float
    read: float
    best_layout: str


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks decode", description=__doc__)
    parser.add_argument("--models", nargs="+", default=["demo-34m", "demo-134m"])
    parser.add_argument("--precisions", nargs="+", default=list(PRECISIONS))
    parser.add_argument("--graphs", nargs="+", default=["eager", "compiled"])
    parser.add_argument("--rounds", type=int, default=20, help="requests per configuration")
    parser.add_argument("--threads", type=int, default=1, help="torch threads; 0: as a run would choose")
    return parser


def run(options: argparse.Namespace) -> tuple[list[Finding], list[str]]:
    """Every model, precision and graph; the target is on the better graph of fp32 and bf16."""
    found: list[Finding] = []
    notes = [_WHY_NOT_READ]
    for model in options.models:
        for name in options.precisions:
            for graph in options.graphs:
                findings, note = in_fresh_process(_configuration, model, name, graph, options)
                found += findings
                notes += [note] if note else []
    return found, notes


def _configuration(model: str, name: str, graph: str, options: argparse.Namespace) -> tuple[list[Finding], str | None]:
    what = f"{model} {name} {graph}"
    try:
        server = opened_server(inference(model, name, options.threads, graph))
        with watched() as seen:
            rounds, tpot_s = _take(server, name, options.rounds)
    except (TwinlensError, RuntimeError, NotImplementedError) as error:
        reason = str(error).splitlines()[0][:160]
        return [Finding(f"{what}: of the mat-vec rate", Estimate.absent(SECONDS, reason))], None
    linear_bytes = sum(out * width for out, width in linear_sizes(server)) * _stored_bits(name) / 8
    findings = with_neighbours(_findings(what, name, linear_bytes, rounds, tpot_s, server.layout), seen)
    return findings, _explanation(what, server, findings[0])


def _take(server: TorchServer, name: str, count: int) -> tuple[list[Round], list[float]]:
    """`count` times per token, and the ceilings before, between and after them. [count + 1], [count]"""
    shapes = linear_sizes(server)
    stored = precision(name).classes("inference")["weights"]
    weights_bytes = sum(out * width for out, width in shapes) * _stored_bits(name) // 8
    buffer = pattern(max(buffer_bytes(), weights_bytes + 64 * len(shapes)) // 4096 * 4096 + 4096, "cpu")
    own = _KERNEL.get(name, server.layout)
    answer_s(server)
    answer_s(server)
    rounds, times = [_ceilings(stored, shapes, own, buffer, server.threads)], []
    for _ in range(count):
        times.append(answer_s(server))
        rounds.append(_ceilings(stored, shapes, own, buffer, server.threads))
    return rounds, times


def answer_s(server: TorchServer) -> float:
    """Seconds per output token after the first, of one request."""
    taken: list[Request] = []
    server.play(requests(1), taken.append)
    return (taken[0].chunk_ns[-1] - taken[0].chunk_ns[0]) / (ANSWER - 1) / 1e9


def _ceilings(stored: str, shapes: list[tuple[int, int]], own: str, buffer: torch.Tensor, threads: int) -> Round:
    rates = {
        layout: matvec_bytes_per_s(stored, shapes, layout, "cpu", threads, buffer).value or 0.0
        for layout in LAYOUTS[stored]
    }
    read = read_bytes_per_s("cpu", threads, buffer).value or 0.0
    best = max(rates, key=lambda layout: rates[layout])
    return Round(rates[own], rates[best], read, best)


def _findings(
    what: str, name: str, linear_bytes: float, rounds: list[Round], tpot_s: list[float], layout: str
) -> list[Finding]:
    own, best, read = (bracketed([getattr(one, field) for one in rounds]) for field in ("own", "best", "read"))
    achieved = [linear_bytes / seconds for seconds in tpot_s]
    votes = [one.best_layout for one in rounds]
    kernel = _KERNEL.get(name, layout)
    shares = [
        (f"of the mat-vec rate, layout {kernel}", own, TARGET if name in ("fp32", "bf16") else None),
        (f"of the best layout's ({max(set(votes), key=votes.count)})", best, None),
        ("of plain read bandwidth", read, None),
    ]
    method = "median over requests of (linear bytes / TPOT) / (ceiling around it)"
    found = []
    for label, ceiling, target in shares:
        rate = f"{sorted(ceiling)[len(ceiling) // 2] / 1e9:.1f} GB/s"
        found.append(Finding(f"{what}: {label}", median_of(achieved / ceiling, method), target, "at least", rate))
    tpot = median_of(tpot_s, "median of requests", SECONDS)
    return [*found, Finding(f"{what}: TPOT", tpot, note=f"{linear_bytes / 1e6:.1f} MB of linear weights")]


def _explanation(what: str, server: TorchServer, share: Finding) -> str | None:
    if share.estimate.value is None or share.estimate.value >= TARGET:
        return None
    assert server.generation is not None
    generation, newest = server.generation, torch.zeros(1, 1, dtype=torch.long)
    position = torch.full_like(newest, PROMPT)
    with torch.no_grad() if server.options.is_compiled else torch.inference_mode():
        generation.cache.reset()  # the cache counts its own tokens, and the last request filled it
        generation.prefill(torch.zeros(1, PROMPT, dtype=torch.long))
        return f"{what}: {operator_profile(lambda: generation.decode(newest, position))}"


def _stored_bits(name: str) -> int:
    return int(BITS[precision(name).classes("inference")["weights"]])


_WHY_NOT_READ = (
    "Why the share of plain read bandwidth is lower: a sum over a long buffer streams with all load units and no "
    "reduction across lanes per row; a matrix-vector product at batch 1 does little per weight but more than a sum, "
    "starts again at each of the model's dozens of small matrices, and in bf16, int8 and int4 converts every weight "
    "before it multiplies. The matrix-vector rate is what the library's kernels reach at all; the rest is theirs."
)
