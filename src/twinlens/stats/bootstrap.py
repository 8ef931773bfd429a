"""Rates over a window, stalls and all, with a block-bootstrap interval."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr

from twinlens.record.estimate import Estimate
from twinlens.stats.autocorrelation import autocorrelation_time
from twinlens.stats.interval import t_quantile

MOST_BLOCKS = 200  # enough to see the spread, few enough that 2,000 resamples take milliseconds
FEWEST_BLOCKS = 5  # fewer independent blocks cannot carry a 95 % claim: their resamples repeat each other
_RESAMPLES = 2000


def rate_interval(
    counts: ArrayLike,
    begin_ns: ArrayLike,
    end_ns: ArrayLike,
    *,
    unit: str,
    level: float = 0.95,
    seed: int = 0,
    method_suffix: str = "",
) -> Estimate:
    """Work per second from the first begin to the last end: sum of `counts` / wall, stalls included.

    `counts`, `begin_ns`, `end_ns` are rows [n], sequential (steps) or overlapping (requests). Each row is
    charged the time since the row that ended before it, so the charges add up to the wall and no stall is
    lost. The interval is a moving-block bootstrap (Künsch 1989, circular) of (work, time) pairs over at
    most `MOST_BLOCKS` contiguous groups, blocks as long as the correlation lasts, widened for few blocks
    (Hesterberg 2015, the expanded percentile interval). Without interval below `FEWEST_BLOCKS`
    independent blocks; absent with no rows or no time.
    Raises ValueError for rows of unequal number, negative counts, or a row that ends before it begins.
    """
    work, begin, end = _rows(counts, begin_ns, end_ns)
    if work.size == 0:
        return Estimate.absent(unit, "there are no rows in the window")
    wall_s = float(int(end.max()) - int(begin.min())) / 1e9
    if wall_s <= 0:
        return Estimate.absent(unit, "the window has no length")
    rate = float(work.sum()) / wall_s
    order = np.argsort(end, kind="stable")
    charged_s = np.diff(end[order], prepend=begin.min()) / 1e9
    group_work, group_s = _group(work[order], charged_s)
    length = _block_length(group_work - rate * group_s)
    blocks = group_work.size // length
    if blocks < FEWEST_BLOCKS:
        method = f"work / wall; no interval below {FEWEST_BLOCKS} independent blocks"
        return Estimate(rate, unit, f"{method}{method_suffix}", "measured", n=max(1, blocks))
    low, high = _bounds(_resample(group_work, group_s, length, seed), blocks, level)
    return Estimate(
        rate,
        unit,
        f"work / wall, moving-block bootstrap over {blocks} blocks cut from {work.size} rows{method_suffix}",
        "measured",
        low=min(low, rate),
        high=max(high, rate),
        level=level,
        n=blocks,
    )


def _rows(
    counts: ArrayLike, begin_ns: ArrayLike, end_ns: ArrayLike
) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.int64]]:
    work = np.asarray(counts, dtype=np.float64).ravel()
    begin, end = (np.asarray(times, dtype=np.int64).ravel() for times in (begin_ns, end_ns))
    if not work.size == begin.size == end.size:
        raise ValueError(f"rows need equal numbers: {work.size} counts, {begin.size} begins, {end.size} ends")
    if not (np.isfinite(work).all() and (work >= 0).all()):
        raise ValueError("work is counted in finite numbers from 0 up")
    if (end < begin).any():
        raise ValueError("a row ends before it begins")
    return work, begin, end


def _group(
    work: NDArray[np.float64], charged_s: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Sums over contiguous groups of rows whose sizes differ by one at most."""
    groups = min(work.size, MOST_BLOCKS)
    first = np.arange(groups) * work.size // groups
    return np.add.reduceat(work, first), np.add.reduceat(charged_s, first)


def _block_length(excess: NDArray[np.float64]) -> int:
    """Groups per block: twice the autocorrelation time, 1 where groups are already independent."""
    tau = autocorrelation_time(excess)
    # An estimate of 1 scatters by about √(1/n); blocks for that much would only cost resolution.
    if tau <= 1 + 2 / math.sqrt(excess.size):
        return 1
    return min(excess.size, math.ceil(2 * tau))


def _resample(work: NDArray[np.float64], time_s: NDArray[np.float64], length: int, seed: int) -> NDArray[np.float64]:
    """Rates [resamples] of windows put together from blocks of `length` groups, drawn with replacement."""
    n = work.size
    wrapped = np.arange(n)[:, None] + np.arange(length)[None, :]
    block_work, block_s = (part[wrapped % n].sum(axis=1) for part in (work, time_s))
    drawn = np.random.default_rng(seed).integers(0, n, size=(_RESAMPLES, math.ceil(n / length)))
    total_s = block_s[drawn].sum(axis=1)
    some = total_s > 0
    return np.asarray(block_work[drawn].sum(axis=1)[some] / total_s[some], dtype=np.float64)


def _bounds(rates: NDArray[np.float64], blocks: int, level: float) -> tuple[float, float]:
    spread = math.sqrt(blocks / (blocks - 1)) * t_quantile(level, blocks - 1)
    tail = float(ndtr(-spread))
    low, high = np.quantile(rates, [tail, 1 - tail])
    return float(low), float(high)
