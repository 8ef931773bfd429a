"""Scores of predictions: error, bias, coverage of bands, rank correlation and decision regret."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import spearmanr

from benchmarks.prediction.case import Case


@dataclass(frozen=True, slots=True)
class Score:
    """Errors as shares of the measured value; None where there are too few rows for it."""

    rows: int
    median: float
    mean: float
    p90: float
    bias: float
    covered: float | None


def score(
    predicted: np.ndarray, measured: np.ndarray, low: np.ndarray | None = None, high: np.ndarray | None = None
) -> Score:
    """`bias`: median signed error. `covered`: share of measured values inside `low` to `high`."""
    error = predicted / measured - 1.0
    size = np.abs(error)
    covered = None
    if low is not None and high is not None:
        known = np.isfinite(low) & np.isfinite(high)
        covered = float(np.mean((measured >= low) & (measured <= high), where=known)) if known.any() else None
    return Score(
        len(error),
        float(np.median(size)),
        float(np.mean(size)),
        float(np.quantile(size, 0.9)),
        float(np.median(error)),
        covered,
    )


_LESS_IS_BETTER = {"tpot", "ttft", "static", "train-step", "e2e"}


@dataclass(frozen=True, slots=True)
class Choice:
    """Order and choice within groups of one workload on different devices, layouts and engines."""

    groups: int
    spearman: float
    regret_median: float
    regret_p90: float


def choice(cases: Sequence[Case], predicted: np.ndarray) -> Choice | None:
    """Rank correlation with the measured order, and what the predicted best costs over the measured best.

    A group has the same model, metric, lengths and batch; latency times devices stands for cost, and rates count per
    device. None without a group of three different candidates.
    """
    groups: dict[tuple[object, ...], list[int]] = defaultdict(list)
    for i, case in enumerate(cases):
        groups[(case.kind, case.model, case.batch, case.prompt, case.answer)].append(i)
    correlations, regrets = [], []
    for key, members in groups.items():
        different = {
            (
                cases[i].card.name,
                cases[i].devices,
                cases[i].engine,
                cases[i].precision,
                tuple(sorted(cases[i].layout.items())),
            )
            for i in members
        }
        if len(different) < 3:
            continue
        sign = 1.0 if key[0] in _LESS_IS_BETTER else -1.0
        per = np.array([1.0 if key[0] in _LESS_IS_BETTER else cases[i].devices for i in members], dtype=float)
        real = np.array([cases[i].value for i in members]) / per
        said = np.array([predicted[i] for i in members]) / per
        if np.ptp(said) > 0 and np.ptp(real) > 0:
            correlations.append(float(spearmanr(said, real).statistic))
        taken, best = real[np.argmin(sign * said)], real[np.argmin(sign * real)]
        regrets.append(taken / best - 1.0 if sign > 0 else best / taken - 1.0)
    if not correlations:
        return None
    return Choice(
        len(regrets), float(np.median(correlations)), float(np.median(regrets)), float(np.quantile(regrets, 0.9))
    )
