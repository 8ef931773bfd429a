"""How often the band of a twin holds a server started afresh, where the truth is known.

`python -m benchmarks.coverage.twins` prints the table of docs/results/coverage-twins.md (`--save` writes it). A world
is a step law; each server in it has a level of its own (lognormal), and its steps scatter in spells. A law is learnt
from rows of some servers as a client sees them, and predicts another server at the same rate and at a higher one.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial

import numpy as np

from benchmarks.columns import put
from benchmarks.published import FOLDER
from benchmarks.simulator.engine_rows import rows
from benchmarks.twins import FIGURES, figures
from twinlens.record.request import Requests
from twinlens.simulation.fit.law import FittedLaw, Setting, fitted, law_of
from twinlens.simulation.fit.learn import observed_of
from twinlens.simulation.fit.least import least_squares
from twinlens.simulation.fit.own_run import arrivals_of, lacking, served_times, times
from twinlens.simulation.fit.steps import recover
from twinlens.simulation.law import StepLaw, one
from twinlens.simulation.rules import Rules

PLACE = FOLDER / "coverage-twins.md"
RULES = Rules(max_num_seqs=16)
LAW = one(fixed_s=0.012, row_s=0.0012, context_s=2e-6, token_s=2e-4)
BEFORE_S, RATE_PER_S, HIGHER_PER_S, REQUESTS, NOISE = 0.004, 4.0, 8.0, 160, 0.3
_LEVEL, _DRAWS = 0.9, 40
_HEAD = """# How often the band of a twin holds a server started afresh

By simulation, {count:,} worlds a line. Made by `python -m benchmarks.coverage.twins --save`; nothing in it depends on
the machine that makes it. A law is learnt from the rows of so many servers at {rate:g} requests/s, {requests} requests
each; a band holds nine of ten simulations, each with its own draw of the law's constants and of a fresh server; the
truth is the figure of another server of the same world. Servers differ by the standard deviation given; from fewer than
three the law assumes 12 %.

| servers differ by | learnt from | predicted at | {figures} |
|---:|---:|---:|{lines}|
"""


@dataclass(frozen=True, slots=True)
class World:
    """How far servers differ (standard deviation of the logarithm), how many teach, and the rate that is predicted."""

    spread: float
    servers: int
    rate_per_s: float


WORLDS = tuple(
    World(spread, servers, rate)
    for spread in (0.04, 0.12, 0.2)
    for servers in (1, 3)
    for rate in (RATE_PER_S, HIGHER_PER_S)
)


def held(world: World, seed: int) -> tuple[bool, ...]:
    """Whether the band has each figure of a fresh server."""
    rng = np.random.default_rng([seed, round(1000 * world.spread), world.servers, round(world.rate_per_s)])
    law = learnt([_server(world.spread, RATE_PER_S, rng) for _ in range(world.servers)])
    work, first_s, each_s = arrivals_of(_server(world.spread, world.rate_per_s, rng))
    counts = np.isfinite(each_s)
    measured = figures(first_s[counts], each_s[counts])
    chosen = rng.choice(len(law.draws), _DRAWS, replace=False)
    band = np.array([
        figures(first[counts], each[counts])
        for number, place in enumerate(chosen)
        for first, each in [served_times(work, law.draws[place], law.noise, law.rules, seed * _DRAWS + number)]
    ])  # fmt: skip
    low, high = np.quantile(band, [(1 - _LEVEL) / 2, (1 + _LEVEL) / 2], axis=0)
    return tuple(map(bool, (low <= measured) & (measured <= high)))


def learnt(servers: list[Requests]) -> FittedLaw:
    """The law of these servers, as `learn` makes it of runs."""
    observed = [
        observed_of(each, recover(each, RULES, BEFORE_S), RULES, str(place)) for place, each in enumerate(servers)
    ]
    fit = least_squares(observed)
    own = []
    for place, each in enumerate(servers):
        law = times(law_of(fit.constants, ""), float(fit.levels[place]))
        own.append(lacking(each, law, fit.ratios[place], RULES))
    return fitted(fit, observed, Setting("here", RULES, (), {}, 0.0, ()), own)


def _server(spread: float, rate_per_s: float, rng: np.random.Generator) -> Requests:
    """Rows of a server started afresh."""
    level = float(np.exp(spread * rng.standard_normal()))
    own: StepLaw = times(LAW, level, BEFORE_S)
    arrival_s = np.cumsum(rng.exponential(1 / rate_per_s, REQUESTS))
    prompts, answers = rng.integers(40, 200, REQUESTS), rng.integers(8, 48, REQUESTS)
    return rows(arrival_s, prompts, answers, own, RULES, cv=NOISE, seed=int(rng.integers(2**31)))


def lines(count: int) -> Iterator[str]:
    """The page, a world at a time."""
    yield (
        _HEAD.format(
            count=count, rate=RATE_PER_S, requests=REQUESTS, figures=" | ".join(FIGURES), lines="---:|" * len(FIGURES)
        )
        .replace("|---:||", "|---:|")
        .rstrip()
    )
    with ProcessPoolExecutor() as pool:
        for world in WORLDS:
            found = np.array(list(pool.map(partial(held, world), range(count), chunksize=4)))
            shares = " | ".join(f"{share:.0%}" for share in found.mean(axis=0))
            yield f"| {world.spread:.0%} | {world.servers} | {world.rate_per_s:g}/s | {shares} |"


def main() -> None:
    """Print the page, or write it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--save", action="store_true", help="write docs/results/coverage-twins.md")
    parser.add_argument("--worlds", type=int, default=100)
    asked = parser.parse_args()
    text = "\n".join(lines(asked.worlds)) + "\n"
    put(text, PLACE, save=asked.save)


if __name__ == "__main__":
    main()
