"""How often a change is found in histories without one, and in histories with one.

`python -m benchmarks.coverage.history` prints the table of docs/results/coverage-history.md (`--save` writes it).
A night is a level times its own noise, which may resemble that of the night before (an autoregressive process) or have
heavy tails (Student's t with 3 degrees of freedom). A change is a step in the middle, in deviations of the noise.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from scipy.signal import lfilter

from benchmarks.columns import folded
from twinlens.stats.history import shifts

PLACE = Path(__file__).parents[2] / "docs" / "results" / "coverage-history.md"
COUNTS = (10, 15, 30, 60, 120)
NOISES = (
    ("normal", 0.0),
    ("normal", 0.3),
    ("normal", 0.5),
    ("normal", 0.7),
    ("heavy tails", 0.0),
    ("heavy tails", 0.3),
)
STEPS = (1.0, 2.0, 3.0, 5.0)
_HEAD = """# How often a history is said to have changed

By simulation, {count:,} histories a cell. Made by `python -m benchmarks.coverage.history --save`; nothing in it
depends on the machine that makes it.
The rule is that of [`compare --history`](../../src/twinlens/pages/terms/history.md).

## Histories without a change: the share in which one is found

Neighbours resemble each other by the correlation given.
"""
_POWER = """
## Histories with one change in the middle: the share in which it is found

Independent normal nights; the step is in deviations of a night. In brackets: of those found,
the share whose span of days holds the day.
"""


def noise(rng: np.random.Generator, kind: str, correlation: float, count: int) -> np.ndarray:
    drawn = rng.standard_normal(count + 100) if kind == "normal" else rng.standard_t(3, count + 100)
    return np.asarray(lfilter([1.0], [1.0, -correlation], drawn)[100:])


def false_alarms(kind: str, correlation: float, nights: int, count: int) -> float:
    """The share of `count` histories without a change in which one is found."""
    rng = np.random.default_rng([nights, round(100 * correlation), len(kind)])
    return float(np.mean([bool(shifts(noise(rng, kind, correlation, nights))) for _ in range(count)]))


def power(step: float, nights: int, count: int) -> tuple[float, float]:
    """The share of `count` histories with one step in which any is found; of those, whose days hold the true one."""
    rng = np.random.default_rng([nights, round(step)])
    half = nights // 2
    found = [shifts(noise(rng, "normal", 0.0, nights) + step * (np.arange(nights) >= half)) for _ in range(count)]
    given = [each for each in found if each]
    held = [any(shift.earliest <= half <= shift.latest for shift in each) for each in given]
    return len(given) / count, float(np.mean(held)) if held else 0.0


def lines(count: int) -> Iterator[str]:
    yield _HEAD.format(count=count)
    yield "| nights | " + " | ".join(f"{kind}, {phi:g}" for kind, phi in NOISES) + " |\n|---|" + "---|" * len(NOISES)
    for nights in COUNTS:
        shares = [false_alarms(kind, phi, nights, count) for kind, phi in NOISES]
        yield f"| {nights} | " + " | ".join(f"{share:.1%}" for share in shares) + " |"
    yield _POWER
    yield "| nights | " + " | ".join(f"{step:g}" for step in STEPS) + " |\n|---|" + "---|" * len(STEPS)
    for nights in COUNTS:
        cells = [power(step, nights, max(50, count // 2)) for step in STEPS]
        yield f"| {nights} | " + " | ".join(f"{share:.0%} ({held:.0%})" for share, held in cells) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.coverage.history", description=__doc__)
    parser.add_argument("--histories", type=int, default=1000)
    parser.add_argument("--save", action="store_true")
    options = parser.parse_args()
    told = []
    for line in lines(options.histories):
        print(line, flush=True)
        told.append(line)
    if options.save:
        PLACE.write_text(folded("\n".join(told) + "\n"), encoding="utf-8")


if __name__ == "__main__":
    main()
