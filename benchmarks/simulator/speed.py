"""How many requests does the simulator serve in a second of processor time?

CPU time, the best of several, since other programs may want the processors; beside it the nanoseconds of one turn of
`for i in …: x += i * 2` at the same moment, by which figures of two machines, or of a quiet and a busy one, are read.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import numpy as np

from twinlens.simulation.fleet import Replica, serve_fleet
from twinlens.simulation.law import one
from twinlens.simulation.noise import Noise
from twinlens.simulation.routing import Policy, Routing
from twinlens.simulation.rules import Rules
from twinlens.simulation.serve import serve
from twinlens.simulation.work import Work, all_token_times_s

PAGE = Path("docs/results/simulator-speed.md")
LAW = one(0.005, row_s=0.0001, context_s=1e-9, token_s=2e-5)
"""Roughly an 8B on an H100."""


@dataclass(frozen=True, slots=True)
class Case:
    """What is served, how often a second that should be, and how."""

    name: str
    requests: int
    aim_per_s: float
    serve: Callable[[], object]


def work_of(requests: int, rate_per_s: float, seed: int = 0) -> Work:
    """Poisson arrivals, prompts of up to 500 tokens, geometric answers of 200."""
    random = np.random.default_rng(seed)
    arrival_s = np.cumsum(random.exponential(1 / rate_per_s, requests))
    return Work(arrival_s, random.integers(1, 500, requests), random.geometric(1 / 200, requests))


def cases(requests: int) -> list[Case]:
    work, few = work_of(requests, 20.0), work_of(2000, 20.0)
    lone, wide = work_of(requests, 0.5), work_of(requests, 320.0)
    tight = work_of(requests // 4, 40.0)
    fleet = [Replica(Rules(), LAW)] * 16

    noise = Noise(np.random.default_rng(0).gamma(100, 1 / 100, 2000))
    shipped = Rules(num_gpu_blocks=6000, max_model_len=40_000, enable_prefix_caching=True)

    def whole_times() -> object:
        return all_token_times_s(serve(work, LAW, Rules()))

    def routed(policy: Policy) -> Callable[[], object]:
        return lambda: serve_fleet(wide, fleet, Routing(policy), tokens=False)

    def bounded(blocks: int, served: Work) -> Callable[[], object]:
        return lambda: serve(served, LAW, Rules(num_gpu_blocks=blocks), tokens=False)

    return [
        Case("one engine, 40 running", requests, 100_000, lambda: serve(work, LAW, Rules(), tokens=False)),
        Case("one place", requests, 100_000, lambda: serve(lone, LAW, Rules(max_num_seqs=1), tokens=False)),
        Case("all token times written", requests, 40_000, whole_times),
        Case("blocks counted", requests, 100_000, bounded(6000, work)),
        Case("noise, and vLLM's rules as shipped", requests, 40_000, lambda: serve(work, LAW, shipped, noise=noise)),
        Case("constant preemption", len(tight), 10_000, bounded(700, tight)),
        Case("fleet of 16, random", requests, 100_000, routed("random")),
        Case("fleet of 16, two choices", requests, 50_000, routed("two-choices")),
        Case("fleet of 16, shortest queue", requests, 50_000, routed("shortest-queue")),
        Case("a what-if of 2,000 requests", 2000, 2000 * 1000 / 120, lambda: serve(few, LAW, Rules())),
    ]


def cpu_s(action: Callable[[], object]) -> float:
    begin_s = time.process_time()
    action()
    return time.process_time() - begin_s


def turn_ns() -> float:
    """Nanoseconds of one turn of a loop of plain Python, now."""

    def loop() -> None:
        x = 0
        for i in range(300_000):
            x += i * 2

    return cpu_s(loop) / 300_000 * 1e9


def rows(requests: int, repeats: int) -> list[str]:
    lines = []
    for case in cases(requests):
        best = min((cpu_s(case.serve), turn_ns()) for _ in range(repeats))
        rate = case.requests / best[0]
        lines.append(f"| {case.name} | {rate:,.0f} | {best[1]:.0f} | {case.aim_per_s:,.0f} |")
        print(lines[-1], flush=True)
    return lines


def main() -> None:
    asked = argparse.ArgumentParser(prog="python -m benchmarks.simulator.speed", description=__doc__)
    asked.add_argument("--requests", type=int, default=20_000)
    asked.add_argument("--repeats", type=int, default=5)
    asked.add_argument("--save", action="store_true", help=f"write {PAGE}")
    options = asked.parse_args()
    lines = rows(options.requests, options.repeats)
    if options.save:
        PAGE.write_text("\n".join([
            "# Speed of the simulator", "", (__doc__ or "").strip(), "",
            f"`python -m benchmarks.simulator.speed --requests {options.requests} --repeats {options.repeats} --save`, "
            f"on {date.today()}.", "",
            "| case | requests per CPU s | ns a turn then | aim |", "|---|--:|--:|--:|", *lines, "",
        ]))  # fmt: skip


if __name__ == "__main__":
    main()
