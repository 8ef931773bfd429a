"""How often intervals of a burn-in hold the truth: its drift, what was sustained, retention, events and faults.

`python -m benchmarks.coverage.burnin` prints the table of docs/results/coverage-burnin.md (`--save` writes it).
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
from scipy.signal import lfilter

from benchmarks.columns import folded
from benchmarks.coverage.others import Draw, line
from twinlens.acceptance.counts import worst_rate
from twinlens.acceptance.judge import fault_rate
from twinlens.acceptance.rates import retention, sustained
from twinlens.acceptance.trend import Series, drift_of
from twinlens.acceptance.window import Window

PLACE = Path(__file__).parents[2] / "docs" / "results" / "coverage-burnin.md"
Generator = np.random.Generator
_HEAD = """# How often intervals of a burn-in hold the truth

By simulation, {count:,} a line. Made by `python -m benchmarks.coverage.burnin --save`; nothing in it depends on the
machine that makes it. "Given": how many had an interval; "holds": how many of these hold the truth, with the standard
error of the simulation (of 0 misses, as if there were one). Three workloads in turns of ten windows of a minute, of
which one is judged. Noise is 1 % a window; "for 1 h" and "for 3 h": with as long a memory, 0.5 % more. A day moves the
rate by ±2 % and the temperature by ±5 °C, with another phase in every test; a rest before each turn boosts by 3 %.
"Found" is how many drifts of 1 % in ten hours lie beyond the shipped limit with the whole interval, of as many tests.

| interval | level | of | given | holds |
|---|---|---|---|---|
"""
_FOUND = """
| of | found | claimed where there is none |
|---|---|---|
"""
DRIFT = math.log(0.99)
LIMIT = 0.005
TESTS: dict[str, dict[str, float]] = {
    "48 h": {}, "48 h, noise for 1 h": {"memory_h": 1}, "48 h, noise for 3 h": {"memory_h": 3},
    "48 h, a day": {"day": 0.02}, "48 h, a day, no temperature": {"day": 0.02, "is_hot": 0},
    "48 h, boost": {"boost": 0.03},
    "24 h": {"hours": 24}, "24 h, noise for 1 h": {"hours": 24, "memory_h": 1},
    "24 h, a day": {"hours": 24, "day": 0.02}, "12 h": {"hours": 12}, "12 h, a day": {"hours": 12, "day": 0.02},
}  # fmt: skip


def simulated(rng: Generator, drift: float, *, hours: float = 48.0, memory_h: float = 0.0, day: float = 0.0,
              boost: float = 0.0, is_hot: float = 1.0) -> Series:  # fmt: skip
    """Settled windows of one workload of three; `drift`: of log rate in ten hours."""
    n = round(60 * hours)
    at, turn, place = (np.arange(n) + 0.5) * 60, np.arange(n) // 10, np.arange(n) % 10
    swing = np.sin(2 * math.pi * (at / 86400 + rng.random()))
    log_rate = drift * at / 36000 + 0.01 * rng.standard_normal(n) - day * swing + boost * np.exp(-place / 2)
    if memory_h:
        phi = math.exp(-1 / (60 * memory_h))
        steps = math.sqrt(1 - phi * phi) * rng.standard_normal(n)
        log_rate += 0.005 * lfilter([1], [1, -phi], steps, zi=[phi * rng.standard_normal()])[0]
    heat = np.round(60 + 5 * swing + 3 * (1 - np.exp(-place / 3)) + 0.5 * rng.standard_normal(n))
    mine = turn % 3 == 0
    shown = heat if is_hot else np.full(n, math.nan)
    return Series(at[mine], np.exp(log_rate[mine]), shown[mine], turn[mine]).settled()


def cases() -> list[tuple[str, str, float, Draw]]:
    """Kind, what is simulated, the truth, and how an estimate is drawn."""
    drifts = [("drift", of, math.expm1(DRIFT), _drift(how)) for of, how in TESTS.items()]
    some = ("48 h", "48 h, noise for 1 h", "24 h, noise for 1 h", "12 h")
    return [
        *drifts,
        *(("sustained rate", of, 1.0, _of_level(sustained, TESTS[of])) for of in some),
        *(("retention", of, 1.0, _of_level(retention, TESTS[of])) for of in some),
        ("events an hour", "48 h at 0.2 an hour", 0.2, lambda rng: worst_rate(_events(rng, 48, 0.2))),
        ("events an hour", "3 h at 0.5 an hour", 0.5, lambda rng: worst_rate(_events(rng, 3, 0.5))),
        ("faults a device hour", "8 devices, 48 h at 0.01 an hour", 0.01,
         lambda rng: fault_rate(int(rng.poisson(0.01 * 384)), 384.0)),
    ]  # fmt: skip


def _drift(how: dict[str, float]) -> Draw:
    return lambda rng: drift_of(simulated(rng, DRIFT, **how)).slope


def _of_level(of: Callable[..., object], how: dict[str, float]) -> Draw:
    return lambda rng: of(simulated(rng, 0.0, **how))  # type: ignore[return-value]


def _events(rng: Generator, hours: int, rate: float) -> list[tuple[Window, int]]:
    rises = rng.poisson(rate / 60, 60 * hours)
    return [(Window(n + 1, "a", "training", 1, 60.0 * n, "", 60.0, 1, 1.0), int(rise)) for n, rise in enumerate(rises)]


def found_line(of: str, count: int) -> str:
    """How many drifts of 1 % in ten hours are beyond the limit, and how many are told from 0 where there is none."""
    drifting = [_drift(TESTS[of])(np.random.default_rng(seed)) for seed in range(count)]
    still = [drift_of(simulated(np.random.default_rng(seed), 0.0, **TESTS[of])).slope for seed in range(count)]
    found = sum(each.high is not None and each.high < -LIMIT for each in drifting)
    claimed = sum(each.low is not None and each.high is not None and not each.low <= 0 <= each.high for each in still)
    return f"| {of} | {found / count:.1%} | {claimed / count:.1%} |"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.coverage.burnin", description=__doc__)
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--save", action="store_true")
    asked = parser.parse_args()
    lines = [line(*case, asked.count) for case in cases()]
    found = [found_line(of, asked.count) for of in TESTS]
    text = "\n".join([_HEAD.format(count=asked.count).rstrip("\n"), *lines, _FOUND.rstrip("\n"), *found]) + "\n"
    print(text)
    if asked.save:
        PLACE.write_text(folded(text), encoding="utf-8")


if __name__ == "__main__":
    main()
