"""Test that requests were sent as planned: the law of their gaps, their bunching, and their rate."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import kolmogorov

# A tenth of the mean gap is lateness (which has its own rule), not another arrival process.
JITTER_SHARE = 0.1
FEWEST_WINDOWS = 50  # the index of dispersion of n windows scatters by √(2/n): a fifth here
GAPS_PER_WINDOW = 10  # long enough to hold several requests, short enough to have many windows


@dataclass(frozen=True, slots=True)
class ArrivalFit:
    """How the requests that were sent compare with those planned.

    `statistic` is the Kolmogorov–Smirnov distance between the two laws of gaps, a tenth of a mean gap of jitter
    allowed; `p` how likely chance alone makes it as large. `planned_dispersion`, `achieved_dispersion`: variance over
    mean of counts in windows of ten mean gaps (1 for Poisson, 0 for constant), None with fewer than 50 windows.
    `rate_ratio`: achieved over planned rate.
    """

    statistic: float
    p: float
    planned_dispersion: float | None
    achieved_dispersion: float | None
    rate_ratio: float
    n: int


def arrival_fit(planned_ns: np.ndarray, sent_ns: np.ndarray) -> ArrivalFit | None:
    """Compares planned with achieved arrival times [n]; None for fewer than three, or all planned at one moment.

    The distance is sup over x of how far one law of gaps lies above the other shifted by the jitter: with jitter 0 it
    is that of Kolmogorov and Smirnov. Its p comes from the limit law at n/2, corrected for few gaps (Stephens 1970);
    both samples being of one plan, it errs to the side of not complaining.
    """
    planned, sent = np.sort(planned_ns).astype(np.float64), np.sort(sent_ns).astype(np.float64)
    if planned.size < 3 or planned[-1] <= planned[0]:
        return None
    a, b = np.diff(planned), np.diff(sent)
    jitter = JITTER_SHARE * float(a.mean())
    statistic = max(_above(a, b, jitter), _above(b, a, jitter))
    root = float(np.sqrt(a.size / 2))
    p = float(kolmogorov((root + 0.12 + 0.11 / root) * statistic))
    span = float(sent[-1] - sent[0])
    return ArrivalFit(
        statistic,
        p,
        _dispersion(planned, float(a.mean())),
        _dispersion(sent, float(a.mean())),
        float(planned[-1] - planned[0]) / span if span > 0 else float(a.size),
        planned.size,
    )


def _above(a: np.ndarray, b: np.ndarray, jitter: float) -> float:
    """The largest amount by which the share of `a` up to x - jitter exceeds that of `b` up to x."""
    x = np.sort(a) + jitter
    at_most_a = np.searchsorted(np.sort(a), x - jitter, side="right") / a.size
    return float(np.max(at_most_a - np.searchsorted(np.sort(b), x, side="right") / b.size, initial=0.0))


def _dispersion(times: np.ndarray, mean_gap: float) -> float | None:
    """Variance over mean of the counts in windows of ten planned mean gaps."""
    windows = int((times[-1] - times[0]) / (GAPS_PER_WINDOW * mean_gap))
    if windows < FEWEST_WINDOWS:
        return None
    edges = times[0] + np.arange(windows + 1) * GAPS_PER_WINDOW * mean_gap
    counts = np.histogram(times, edges)[0]
    return float(counts.var(ddof=1) / counts.mean()) if counts.any() else None
