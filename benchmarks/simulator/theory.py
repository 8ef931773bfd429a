"""The engine against queueing theory: simulated means with their intervals beside closed forms.

`python -m benchmarks.simulator.theory` prints docs/results/simulated-theory.md (`--save` writes it); the test suite
holds the same cases with fewer requests.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy import stats

from benchmarks.columns import put
from benchmarks.published import FOLDER
from twinlens.simulation.fleet import Replica, serve_fleet
from twinlens.simulation.law import one
from twinlens.simulation.routing import Routing
from twinlens.simulation.rules import Rules
from twinlens.simulation.serve import serve
from twinlens.simulation.work import Floats, Ints, Work
from twinlens.theory.waiting.batching import continuous_time, continuous_tpot, dynamic_time
from twinlens.theory.waiting.servers import erlang_wait, pollaczek_khinchine

PLACE = FOLDER / "simulated-theory.md"
STEP_S = 0.01
FIXED_S, ROW_S = 0.005, 0.0002
_ROOM = Rules(max_num_seqs=10**6, max_num_batched_tokens=10**6)
_LEVEL = 0.995
_BATCHES = 20


@dataclass(frozen=True, slots=True)
class Case:
    """`values` of so many requests, in order, and what theory gives for their mean. `most`: the half of the interval
    that is still narrow with `count` requests, as a share of that. `slack`: of a closed form that is itself a bound."""

    name: str
    form: str
    count: int
    most: float
    values: Callable[[int], tuple[Floats, float]]
    slack: float = 0.0


@dataclass(frozen=True, slots=True)
class Compared:
    """Mean of a simulation with half its 99.5 % interval, and what theory says."""

    mean: float
    half: float
    theory: float

    def agrees(self, slack: float = 0.0) -> bool:
        """Whether theory lies in the interval; with `slack`, whether the mean is no further from it than that share."""
        return abs(self.mean - self.theory) < (slack * self.theory if slack else self.half)


def lengths(kind: str, mean: int, count: int, generator: np.random.Generator) -> Ints:
    """Answer lengths with this mean: fixed, geometric, of two kinds (cv² 4), or of a heavy tail."""
    if kind == "fixed":
        return np.full(count, mean)
    if kind == "geometric":
        return generator.geometric(1 / mean, count)
    if kind == "two kinds":
        short = generator.random(count) < 0.8872983346207417
        return np.where(
            short, generator.geometric(1.7745966692 / mean, count), generator.geometric(0.2254 / mean, count)
        )
    return np.maximum(1, np.round(generator.pareto(2.5, count) * 1.5 * mean)).astype(np.int64)


def work_at(rate_per_s: float, output: Ints, generator: np.random.Generator) -> Work:
    """Requests at independent moments, each with a prompt of one token."""
    ones = np.ones(len(output), dtype=np.int64)
    return Work(np.cumsum(generator.exponential(1 / rate_per_s, len(output))), ones, output)


def compared(case: Case, share: float = 1.0) -> Compared:
    """The mean by 20 batches behind a tenth, of that share of the case's requests."""
    values, theory = case.values(round(case.count * share))
    means = np.array([batch.mean() for batch in np.array_split(values[len(values) // 10 :], _BATCHES)])
    half = stats.t.ppf((1 + _LEVEL) / 2, _BATCHES - 1) * means.std(ddof=1) / np.sqrt(_BATCHES)
    return Compared(float(means.mean()), float(half), theory)


def one_place(kind: str, load: float, count: int) -> tuple[Work, Floats, float]:
    """Work for one server that takes one at a time, its waits, and their mean by Pollaczek and Khinchine."""
    generator = np.random.default_rng(11)
    output = lengths(kind, 20, count, generator)
    service_s, cv2 = STEP_S * float(output.mean()), float(output.var() / output.mean() ** 2)
    work = work_at(load / service_s, output, generator)
    served = serve(work, one(STEP_S), Rules(max_num_seqs=1), tokens=False)
    return work, served.start_s - work.arrival_s, pollaczek_khinchine(load / service_s, service_s, cv2)


def _one_place(kind: str, load: float, count: int) -> tuple[Floats, float]:
    return one_place(kind, load, count)[1:]


def _continuous(kind: str, rate_per_s: float, is_token: bool, count: int) -> tuple[Floats, float]:
    generator = np.random.default_rng(7)
    output = lengths(kind, 200, count, generator)
    work = work_at(rate_per_s, output, generator)
    served = serve(work, one(FIXED_S, row_s=ROW_S), _ROOM, tokens=False)
    time_s, mean = served.end_s - work.arrival_s, float(output.mean())
    if is_token:
        return time_s * len(output) / output.sum(), continuous_tpot(rate_per_s, mean, FIXED_S, ROW_S)
    return time_s, continuous_time(rate_per_s, mean, FIXED_S, ROW_S)


def _replicas(is_shared: bool, count: int) -> tuple[Floats, float]:
    generator = np.random.default_rng(3)
    output = lengths("geometric", 50, count, generator)
    service_s = STEP_S * float(output.mean())
    work = work_at(0.7 * 4 / service_s, output, generator)
    replicas = [Replica(Rules(max_num_seqs=1), one(STEP_S))] * 4
    served = serve_fleet(work, replicas, Routing("least-tokens" if is_shared else "random"), tokens=False)
    cv2 = float(output.var() / output.mean() ** 2)
    alone = pollaczek_khinchine(0.7 / service_s, service_s, cv2)
    return served.start_s - work.arrival_s, erlang_wait(2.8 / service_s, service_s, 4) if is_shared else alone


def _batches(load: float, count: int) -> tuple[Floats, float]:
    generator = np.random.default_rng(5)
    work = work_at(load / 0.001, np.ones(count, dtype=np.int64), generator)
    rules = Rules(batching="dynamic", batch_size=10**6, max_num_seqs=10**6)
    served = serve(work, one(0.005, row_s=0.001), rules, tokens=False)
    return served.end_s - work.arrival_s, dynamic_time(load / 0.001, 0.005, 0.001)


def cases() -> Iterator[Case]:
    """Every closed form with its loads and lengths."""
    for kind, name in (("fixed", "M/D/1"), ("geometric", "M/M/1"), ("two kinds", "M/G/1, cv² 4")):
        for load, most in ((0.3, 0.3), (0.5, 0.4), (0.7, 0.5), (0.9, 0.7)):
            count = 30_000 if load == 0.9 else 16_000 if kind == "two kinds" else 8_000
            said = f"wait, {name}, load {load:g}"
            yield Case(said, "Pollaczek–Khinchine", count, most, partial(_one_place, kind, load))
    for kind in ("fixed", "geometric", "heavy tail"):
        for rate_per_s in (5.0, 15.0):
            for is_token, what in ((False, "time"), (True, "time per token")):
                said = f"{what}, continuous batching, {kind} lengths, {rate_per_s:g}/s"
                yield Case(
                    said, "m(c0 + c1)/(1 − λ·m·c1)", 10_000, 0.2, partial(_continuous, kind, rate_per_s, is_token)
                )
    yield Case("wait, 4 replicas with one queue, load 0.7", "Erlang C", 6_000, 0.4, partial(_replicas, True))
    yield Case("wait, 4 replicas at random, load 0.7", "Pollaczek–Khinchine", 6_000, 0.4, partial(_replicas, False))
    for load in (0.3, 0.6, 0.9):
        said = f"time, a batch takes all that wait, load {load:g}"
        yield Case(said, "Inoue's bound", 20_000, 0.25, partial(_batches, load), slack=0.06)


_HEAD = """# The simulator against closed forms

Made by `python -m benchmarks.simulator.theory --save`; not edited by hand. The engine with rules that make it a queue
of theory, {share:g} times the requests of the test suite. Intervals are those of a mean by 20 batches, 99.5 %. Inoue's
form is a bound that is tight to some 6 %.

| simulated | requests | mean, s | 99.5 % interval | closed form | its value, s | simulated over it | inside |
|---|---:|---:|---:|---|---:|---:|---|
"""


def page(share: float) -> str:
    """The table."""
    lines = []
    for case in cases():
        found = compared(case, share)
        inside = "yes" if found.agrees() else f"within {case.slack:.0%}" if found.agrees(case.slack) else "no"
        lines.append(
            f"| {case.name} | {round(case.count * share):,} | {found.mean:.5g} | ±{found.half / found.mean:.1%} "
            f"| {case.form} | {found.theory:.5g} | {found.mean / found.theory:.3f} | {inside} |"
        )
    return _HEAD.format(share=share) + "\n".join(lines) + "\n"


def main() -> None:
    """Print the page, or write it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--save", action="store_true", help="write docs/results/simulated-theory.md")
    parser.add_argument("--share", type=float, default=10.0, help="times the requests of the test suite")
    asked = parser.parse_args()
    text = page(asked.share)
    put(text, PLACE, save=asked.save)


if __name__ == "__main__":
    main()
