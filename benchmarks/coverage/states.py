"""How often the three states are right, by simulation: provisional figures that hold the sustained rate, false "valid",
and what more repeats do.

    python -m benchmarks.coverage.labels [TRACES] > docs/results/coverage-labels.md

prints these tables behind its own. Rows are made by formulas and judged by the functions that judge runs and points.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from twinlens.record.estimate import Estimate
from twinlens.stats.estimator.rate import rate_interval
from twinlens.stats.row_kind import verdict_of
from twinlens.stats.steady.segment import segment
from twinlens.stats.summary.group import Group, Summary, group
from twinlens.stats.summary.point import provisional
from twinlens.units import TOKENS_PER_S

RATE = "training_tokens_per_s"
Shape = Callable[[int], np.ndarray]
SHAPES: dict[str, Shape] = {
    "drift": lambda n: np.arange(n) / (n - 1),
    "step half way": lambda n: (np.arange(n) >= n / 2).astype(float),
    "step at two thirds": lambda n: (np.arange(n) >= 2 * n / 3).astype(float),
    "step at three quarters": lambda n: (np.arange(n) >= 3 * n / 4).astype(float),
    "step at four fifths": lambda n: (np.arange(n) >= 4 * n / 5).astype(float),
}


def noise(rng: np.random.Generator, n: int, cv: float, phi: float = 0.0) -> np.ndarray:
    """Row times of mean 1 that scatter by `cv` and resemble their neighbours by `phi`, shape (n,)."""
    series = rng.normal(size=n)
    for i in range(1, n if phi else 0):
        series[i] = phi * series[i - 1] + np.sqrt(1 - phi**2) * series[i]
    return np.exp(cv * series - cv**2 / 2)


def run_of(row_s: np.ndarray, repeat: int = 0) -> Summary:
    """The summary of a training run of these row times, one token a row."""
    ends = np.rint(np.cumsum(row_s) * 1e9).astype(np.int64)
    begins = np.concatenate(([0], ends[:-1]))
    steadiness = segment(row_s)
    inside = slice(steadiness.steady_begin, None)
    ones = np.ones(row_s.size)
    rate = rate_interval(ones[inside], begins[inside], ends[inside], unit=TOKENS_PER_S)
    verdict = verdict_of(steadiness, begins, ends)
    made = provisional({RATE: rate}, verdict.validity, verdict.least_visible_change, {})
    return Summary(f"{repeat}", "training", "finished", "m", "fake", {}, repeat, row_s.size, verdict, made)


def point_of(rows: Sequence[np.ndarray]) -> Group:
    (found,) = group(run_of(row_s, repeat) for repeat, row_s in enumerate(rows))
    return found


def holds(estimate: Estimate, truth: float) -> bool | None:
    if estimate.low is None or estimate.high is None:
        return None
    return estimate.low <= truth <= estimate.high


def changed(rows: Sequence[np.ndarray], shape: Shape, size: float) -> list[np.ndarray]:
    """The same rows with a change of `size` (relative, in time) of this shape in each run."""
    return [row_s * np.exp(np.log1p(size) * shape(row_s.size)) for row_s in rows]


def provisional_figures(traces: int) -> Iterator[str]:
    """Of points that were provisional: how many hold the rate that the machine keeps up after the change."""
    yield "| runs | rows | CV | rows depend | what hid | not seen | provisional | hold the truth |"
    yield "|---|---|---|---|---|---|---|---|"
    for runs, n, cv, phi in (
        (1, 200, 0.2, 0.0), (1, 200, 0.15, 0.5), (3, 22, 0.1, 0.0), (3, 40, 0.2, 0.0), (3, 70, 0.15, 0.5),
        (5, 22, 0.15, 0.0), (5, 40, 0.2, 0.0),
    ):  # fmt: skip
        for name, shape in {"nothing": None, **SHAPES}.items():
            unseen = held = known = tried = 0
            for seed in range(traces):
                rng = np.random.default_rng([seed, n, runs])
                rows = [noise(rng, n, cv, phi) for _ in range(runs)]
                calm = point_of(rows)
                if calm.validity != "provisional" or calm.verdict.hidden is None:
                    continue
                tried += 1
                size = 0.0 if shape is None else 0.95 * calm.verdict.hidden
                found = calm if shape is None else point_of(changed(rows, shape, size))
                unseen += found.validity != "not valid"
                if found.validity != "provisional":
                    continue
                truth = 1 / (1 + size)
                inside = holds(found.metrics[RATE], truth)
                if inside is None:
                    continue
                known += 1
                held += inside
            if known:
                yield (
                    f"| {runs} | {n} | {100 * cv:.0f} % | {phi:g} | {name} | {100 * unseen / tried:.0f} % | {known} "
                    f"| {100 * held / known:.0f} % |"
                )


CASES = (
    (22, 0.03, 0.0), (70, 0.03, 0.0), (70, 0.1, 0.0), (200, 0.05, 0.5), (200, 0.1, 0.0), (1000, 0.1, 0.0),
    (70, 0.03, 0.8), (200, 0.05, 0.8),
)  # fmt: skip
CHANGES = (
    ("5 % slower from half time", "step half way", 0.05),
    ("10 % slower from half time", "step half way", 0.1),
    ("drift of 10 %", "drift", 0.1),
)


def false_valid(traces: int) -> Iterator[str]:
    """Points on a machine that changed in each run: how many were called valid, and how many would have been before."""
    yield "| what happened | rows | CV | rows depend | 1 run | 3 runs | before | 5 runs | before |"
    yield "|---|---|---|---|---|---|---|---|---|"
    for name, shape, size in CHANGES:
        for n, cv, phi in CASES:
            told = []
            for runs in (1, 3, 5):
                new = old = 0
                for seed in range(traces):
                    rng = np.random.default_rng([seed, n, runs, 9])
                    rows = [noise(rng, n, cv, phi) for _ in range(runs)]
                    found = point_of(changed(rows, SHAPES[shape], size))
                    new += found.validity == "valid"
                    old += all(run.validity == "valid" for run in found.runs)
                told += [f"{100 * new / traces:.0f} %"] + ([f"{100 * old / traces:.0f} %"] if runs > 1 else [])
            yield f"| {name} | {n} | {100 * cv:.0f} % | {phi:g} | {' | '.join(told)} |"


def more_repeats(traces: int) -> Iterator[str]:
    """Points on a machine on which nothing happens: valid by the number of runs (before: in brackets)."""
    yield "| rows | CV | rows depend | 1 run | 2 | 3 | 5 | 8 | not valid, of 8 |"
    yield "|---|---|---|---|---|---|---|---|---|"
    for n, cv, phi in CASES:
        told, wrong = [], 0
        for runs in (1, 2, 3, 5, 8):
            new = old = wrong = 0
            for seed in range(traces):
                rng = np.random.default_rng([seed, n, runs, 11])
                found = point_of([noise(rng, n, cv, phi) for _ in range(runs)])
                new += found.validity == "valid"
                wrong += found.validity == "not valid"
                old += all(run.validity == "valid" for run in found.runs)
            told.append(f"{100 * new / traces:.0f} % ({100 * old / traces:.0f})")
        yield f"| {n} | {100 * cv:.0f} % | {phi:g} | {' | '.join(told)} | {100 * wrong / traces:.0f} % |"
