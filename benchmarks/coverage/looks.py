"""How often a run under load that is looked at while it goes on, and ends when it is decided, is wrong.

`python -m benchmarks.coverage.looks` prints the table of docs/results/coverage-looks.md (`--save` writes it).
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmarks.columns import folded
from twinlens.spec.protocol import Protocol
from twinlens.spec.slo import Slo
from twinlens.stats.estimator.interval import clustering, queue
from twinlens.stats.estimator.quantile import Censored, censored_quantile
from twinlens.stats.serving.goodput import of_looks, share, slo_standing
from twinlens.stats.serving.latency import in_flight_when_due
from twinlens.stats.serving.looks import level_of, looks_s

PLACE = Path(__file__).parents[2] / "docs" / "results" / "coverage-looks.md"
PROTOCOL = Protocol(duration_s=60, most_s=240)
SLO = Slo(ttft_s=1.0, quantile=0.9)
Made = tuple[np.ndarray, np.ndarray, float]
"""Times due and times taken [n], seconds, and the true p90."""
_P90_OF_NORMAL = 1.2815515655
_HEAD = """# How often a run that ends when it is decided is wrong

By simulation, {count} runs a line: looks after {looks} s, each at {level:.0%}. The truth lies
exactly at the limit of the SLO (90 % of the requests), where whoever decides is wrong: "decided" is the rate of false
decisions, and may be 5 % at most. "Naive" asks 95 % at each look. "Holds": how many intervals of p90, of the look that
ended the run, hold the truth. Made by `python -m benchmarks.coverage.looks --save`; nothing in it depends on the
machine that makes it.

| interval | requests/s | decided | naive | p90 given | holds |
|---|---|---|---|---|---|
"""


def independent(rng: np.random.Generator, rate: float, until_s: float) -> Made:
    """Lognormal times of a server with room for all."""
    due_s = np.cumsum(rng.exponential(1 / rate, round(2 * rate * until_s)))
    due_s = due_s[due_s < until_s]
    return due_s, np.exp(0.4 * (rng.normal(size=due_s.size) - _P90_OF_NORMAL)), 1.0


def queued(rng: np.random.Generator, rate: float, until_s: float) -> Made:
    """One server at a load of one half, in equilibrium: a stay is exponential of rate μ - λ = `rate`."""
    due_s = np.cumsum(rng.exponential(1 / rate, round(2 * rate * until_s)))
    due_s = due_s[due_s < until_s]
    gaps, service = np.diff(due_s, append=until_s), rng.exponential(1 / (2 * rate), due_s.size)
    wait, stay_s = rng.exponential(1 / rate) * (rng.random() < 0.5), np.empty(due_s.size)
    for row in range(due_s.size):
        stay_s[row] = wait + service[row]
        wait = max(0.0, stay_s[row] - gaps[row])
    return due_s, stay_s, math.log(10) / rate


CASES: dict[str, Callable[[np.random.Generator, float, float], Made]] = {
    "looks, independent": independent,
    "looks, a queue": queued,
}


def one(made: Made, level: float) -> tuple[bool, bool | None]:
    """Whether any look decided the SLO, and whether p90 held the truth where the run ended (None: no interval)."""
    due_s, took_s, truth_s = made
    was_decided, holds, ended = False, None, False
    for look_s in looks_s(PROTOCOL):
        rows = due_s < look_s
        waiting = queue(in_flight_when_due(due_s[rows], due_s[rows] + took_s[rows]))
        kept = share(took_s[rows] <= truth_s, "", {"ttft_s": clustering(took_s[rows])}, level, waiting)
        was_decided |= slo_standing({"ttft_s_within": kept}, SLO, level) != "inconclusive"
        if ended:
            continue
        p90 = of_looks(censored_quantile(Censored(took_s[rows], 1, waiting), 0.9, unit="s", what="", level=level))
        holds = None
        if p90.value and p90.low is not None and p90.high is not None:
            holds = p90.low <= truth_s <= p90.high
            ended = max(p90.high - p90.value, p90.value - p90.low) <= PROTOCOL.width * p90.value
    return was_decided, holds


def line(name: str, rate: float, count: int) -> str:
    """One line of the table."""
    rng, level = np.random.default_rng([3, round(rate)]), level_of(PROTOCOL)
    runs = [CASES[name](rng, rate, PROTOCOL.most_s) for _ in range(count)]
    found = [one(made, level) for made in runs]
    naive = float(np.mean([one(made, 0.95)[0] for made in runs]))
    decided = float(np.mean([each for each, _ in found]))
    held = [holds for _, holds in found if holds is not None]
    error = math.sqrt(max(1, len(held) - sum(held))) / max(1, len(held))
    holds = f"{np.mean(held):.1%} ± {error:.1%}" if held else ""
    return f"| {name} | {rate:g} | {decided:.1%} | {naive:.1%} | {len(held) / count:.0%} | {holds} |\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--save", action="store_true")
    asked = parser.parse_args()
    times = ", ".join(f"{each:g}" for each in looks_s(PROTOCOL))
    page = _HEAD.format(count=f"{asked.count:,}", looks=times, level=level_of(PROTOCOL))
    page += "".join(line(name, rate, asked.count) for name in CASES for rate in (2.0, 8.0))
    print(page)
    if asked.save:
        PLACE.write_text(folded(page), encoding="utf-8")


if __name__ == "__main__":
    main()
