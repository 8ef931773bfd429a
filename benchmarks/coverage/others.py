"""How often intervals hold the truth that are of no rows in time: prompts, answers, ratios, ceilings, slopes.

`python -m benchmarks.coverage.others` prints the table of docs/results/coverage-others.md (`--save` writes it).
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmarks.columns import folded
from benchmarks.coverage.truths import first_order
from twinlens.executors.in_process.ceiling import rate
from twinlens.record.estimate import Estimate
from twinlens.stats.estimator.interval import FEWEST_SKEWED, mean_of_independent
from twinlens.stats.estimator.rate import theil_sen
from twinlens.stats.estimator.ratio import difference, rank_ratio, ratio
from twinlens.stats.estimator.repeats import binomial_bounds, mean_of_shares

PLACE = Path(__file__).parents[2] / "docs" / "results" / "coverage-others.md"
Generator = np.random.Generator
Draw = Callable[[Generator], Estimate]
_HEAD = """# How often other intervals hold the truth

By simulation, {count:,} a line. Made by `python -m benchmarks.coverage.others --save`; nothing in it depends on the
machine that makes it. "Given": how many had an interval; "holds": how many of these hold the truth, with the standard
error of the simulation (of 0 misses, as if there were one). Exact bounds hold more often than they say: where only 0
and 1 would reach them, where a median has few repeats, and where times are found to depend.

| interval | level | of | given | holds |
|---|---|---|---|---|
"""


def _mean(values: np.ndarray, **how: int) -> Estimate:
    return mean_of_independent(values, unit="1", **how)


def _of_two(rng: Generator, of: Callable[[Estimate, Estimate], Estimate], n: int, apart: float) -> Estimate:
    return of(_mean(rng.normal(5 + apart, 0.5, n)), _mean(rng.normal(5, 0.5, 2 * n)))


def _partings(rng: Generator, n: int, chance: float) -> Estimate:
    share = float((rng.random(n) < chance).mean())
    low, high = binomial_bounds(share, n, 0.95)
    return Estimate(share, "1", "partings", "measured", min(low, share), max(high, share), 0.95, n)


def _slope(rng: Generator, n: int, phi: float) -> Estimate:
    value, low, high = theil_sen(first_order(rng, n, phi) + 0.1 * np.arange(n), 0.95)
    return Estimate(value, "1", "slope", "derived", low, high, 0.95, n)


def _times(rng: Generator, n: int, phi: float) -> Estimate:
    return rank_ratio(*(np.exp(0.3 * first_order(rng, size, phi)) for size in (n, 2 * n)))


def cases() -> list[tuple[str, str, float, Draw]]:
    """Kind, what is simulated, the truth, and how an estimate is drawn."""
    skewed = math.exp(0.5)
    return [
        ("mean of independent values", "8 normal", 1.0, lambda rng: _mean(rng.normal(1, 1, 8))),
        ("mean of independent values", "16 of Student's t, 3 degrees", 0.0, lambda rng: _mean(rng.standard_t(3, 16))),
        ("mean of independent values", "5 saves, lognormal, σ 0.5", math.exp(0.125),
         lambda rng: _mean(np.exp(0.5 * rng.normal(size=5)))),
        ("mean of skewed values", f"{FEWEST_SKEWED} lognormal, σ 1", skewed,
         lambda rng: _mean(np.exp(rng.normal(size=FEWEST_SKEWED)), fewest=FEWEST_SKEWED)),
        ("mean of skewed values", "8 lognormal, σ 1", skewed,
         lambda rng: _mean(np.exp(rng.normal(size=8)), fewest=FEWEST_SKEWED)),
        ("mean of shares", "8 prompts, beta(0.9, 0.1)", 0.9,
         lambda rng: mean_of_shares(rng.beta(0.9, 0.1, 8), method="")),
        ("mean of shares", "8 prompts, one in 25 half wrong", 0.98,
         lambda rng: mean_of_shares(1 - 0.5 * (rng.random(8) < 0.04), method="")),
        ("mean of shares", "64 prompts, beta(9, 1)", 0.9, lambda rng: mean_of_shares(rng.beta(9, 1, 64), method="")),
        ("partings per token", "500 tokens, one in 100", 0.01, lambda rng: _partings(rng, 500, 0.01)),
        ("ratio of independent estimates", "means of 10 and 20", 1.0, lambda rng: _of_two(rng, ratio, 10, 0.0)),
        ("difference of independent estimates", "means of 10 and 20", 1.0,
         lambda rng: _of_two(rng, difference, 10, 1.0)),
        ("ratio of times", "16 and 32, independent", 1.0, lambda rng: _times(rng, 16, 0.0)),
        ("ratio of times", "100 and 200, independent", 1.0, lambda rng: _times(rng, 100, 0.0)),
        ("ratio of times", "100 and 200, φ 0.5", 1.0, lambda rng: _times(rng, 100, 0.5)),
        ("ratio of times", "100 and 200, φ 0.8", 1.0, lambda rng: _times(rng, 100, 0.8)),
        ("median of a ceiling", "9 repeats", 1.0,
         lambda rng: rate(1.0, np.exp(0.1 * rng.normal(size=9)).tolist(), "1/s", "")),
        ("slope of a steady part", "20 block means, independent", 0.1, lambda rng: _slope(rng, 20, 0.0)),
    ]  # fmt: skip


def line(kind: str, of: str, truth: float, draw: Draw, count: int) -> str:
    """One line of the table."""
    found = [draw(np.random.default_rng(seed)) for seed in range(count)]
    given = [(one.low, one.high) for one in found if one.low is not None and one.high is not None]
    level = next((one.level for one in found if one.level is not None), 0.95)
    if not given:
        return f"| {kind} | {100 * level:.3g} % | {of} | 0 % | |"
    held = sum(low <= truth <= high for low, high in given) / len(given)
    share = max(1 - held, 1 / len(given))
    error = math.sqrt(share * (1 - share) / len(given))
    return f"| {kind} | {100 * level:.3g} % | {of} | {len(given) / count:.0%} | {held:.1%} ± {error:.1%} |"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.coverage.others", description=__doc__)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--save", action="store_true")
    asked = parser.parse_args()
    told = [_HEAD.format(count=asked.count).rstrip("\n"), *(line(*case, asked.count) for case in cases())]
    print("\n".join(told))
    if asked.save:
        PLACE.write_text(folded("\n".join(told) + "\n"), encoding="utf-8")


if __name__ == "__main__":
    main()
