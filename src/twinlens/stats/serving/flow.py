"""Rates within a window: amounts counted in short intervals of time, and the rate with its interval over them."""

from __future__ import annotations

import numpy as np

from twinlens.record.estimate import Estimate
from twinlens.stats.estimator.rate import rate_interval
from twinlens.stats.serving.window import Window

_BINS = 200  # of time, in which the work of a rate is counted: as many as its interval groups rows into


def edges_of(window: Window) -> np.ndarray:
    """Edges of the intervals in which the work of a window is counted, in ns. Shape: (k + 1,)."""
    span = window.end_ns - window.begin_ns
    return np.linspace(window.begin_ns, window.end_ns, min(_BINS, span) + 1).astype(np.int64)


def amount_in(times_ns: np.ndarray, weights: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """The sum of `weights` in each interval of `edges` [k + 1]; the last one holds its right edge. Shape: (k,)."""
    place = np.searchsorted(edges, times_ns, side="right")
    place[times_ns == edges[-1]] = len(edges) - 1
    return np.asarray(np.bincount(place, weights, len(edges) + 1)[1 : len(edges)])


def flow(amounts: np.ndarray, edges: np.ndarray, unit: str, what: str, seen: int) -> Estimate:
    """The rate of `amounts` [k] between `edges` [k + 1], of `what`; `seen`: answers that stand behind it."""
    return rate_interval(amounts, edges[:-1], edges[1:], unit=unit, method_suffix=f"; {what}", seen=seen)
