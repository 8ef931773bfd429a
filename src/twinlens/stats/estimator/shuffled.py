"""The best window that noise alone would give a run."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

FEWEST_WINDOWS = 10
"""The best of fewer says more about their number than about the run."""
_RESAMPLES = 40
_MOST_PIECES = 20_000  # rows are shuffled in so many pieces at most


def noise_alone(
    time_s: NDArray[np.float64], work: NDArray[np.float64], windows: int, piece_rows: int = 1
) -> float | None:
    """Mean over best rate if the rows [n] of a steady part came in any other order: the mean over shuffles.

    `piece_rows` neighbours stay together, as many as resemble each other. None below ten `windows`.
    """
    if windows < FEWEST_WINDOWS:
        return None
    piece = max(piece_rows, -(-time_s.size // _MOST_PIECES))
    firsts = np.arange(0, time_s.size, piece)
    if firsts.size < windows:
        return None
    spent, done = np.add.reduceat(time_s, firsts), np.add.reduceat(work, firsts)
    edges = np.arange(windows) * firsts.size // windows
    rng = np.random.default_rng(0)
    best = []
    for _ in range(_RESAMPLES):
        order = rng.permutation(firsts.size)
        best.append(float((np.add.reduceat(done[order], edges) / np.add.reduceat(spent[order], edges)).max()))
    return float(done.sum() / spent.sum() / np.mean(best))
