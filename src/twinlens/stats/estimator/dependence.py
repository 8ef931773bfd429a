"""Dependence of neighbouring rows: tests for it, and how many independent values a series is worth.

The test is for quantiles, and for means of waits and of gauges, where a queue may stand behind the rows.

A run that is too short to show it looks calm by luck, and gives its narrowest intervals where it is most wrong. So the
dependence that can be seen must be over long before the run is, by a margin that grows with its square: a queue in
front of one server remembers for about 2/(1 - ρ) rows, ρ the correlation of neighbours, and twice as long where half
its load is missing by chance.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

# n (1 - ρ)² for rows, and for means of rows on end, in which dependence shows that lies under noise. Chosen on
# first-order series and M/M/1 queues, held on other families (docs/results/coverage.md).
_FEWEST = {1: 200.0, 8: 40.0, 32: 40.0}
_FEWEST_MEANS = 20
_BY_CHANCE = 2.0  # of 1/√n: neighbours that are less alike count as independent
_MOST_RANKED = 1 << 16  # ranks are for giants that hide the rest: in so many rows none does, and sorting takes its time
_PARTS = (10, 20)


def too_dependent(series: NDArray[np.float64]) -> tuple[str, str | None]:
    """Why no interval can rest on a series [n] in time order, and how many values there are; "" where one can.

    Neighbours (rows, means of 8 rows, means of 32) must be no more alike than chance makes them, or n (1 - ρ)² of them
    must be at least 200, for means 40; ρ is their correlation, the larger of that of values and that of ranks.
    """
    wanted = max((_wanted_rows(series.size, *one) for one in _alike(series)), default=0.0)
    if wanted <= series.size:
        return "", None
    if not math.isfinite(wanted):
        return "neighbouring rows are all alike", None
    need = f"rows that depend on their neighbours as these do need some {_rounded(wanted)} for it"
    return need, f"there are {series.size}"


def worth_of_means(series: NDArray[np.float64], rows: int = 8) -> float:
    """n (1 - ρ)² of the means of `rows` values on end of a series [n] in time order: how far its dependence can be told
    from a level that moves. 0 of less than two means."""
    alike = max(_of_neighbours(means_of(kind, rows)) for kind in _kinds(series)) if series.size >= 2 * rows else 1.0
    return series.size // rows * (1 - alike) ** 2


def slow_time(series: NDArray[np.float64] | NDArray[np.bool_]) -> float:
    """The autocorrelation time of a series [n], in rows, from the means of its tenths and of its twentieths.

    They see what lasts long and is small beside the noise of single rows, as the wait in a queue before many servers:
    windows over single correlations close before it. Few means know it to no better than a third. From 1 to n; 1 below
    two rows a part.
    """
    share = np.count_nonzero(series) / max(1, series.size) if series.dtype == bool else 0.0
    spread = share * (1 - share) if series.dtype == bool else float(series.var())  # of flags by counting alone
    if spread <= 0:
        return 1.0
    found = [1.0]
    for parts in _PARTS:
        size = series.size // parts
        if size >= 2:
            found.append(size * float(series[: size * parts].reshape(parts, size).mean(axis=1).var(ddof=1)) / spread)
    return min(max(found), float(series.size))


def normal_scores(series: NDArray[np.float64]) -> NDArray[np.float64]:
    """The standard normal quantiles of the ranks of a series [n]; of equal values, the middle one's."""
    order = np.argsort(series)
    ranked = series[order]
    firsts = np.flatnonzero(np.concatenate([[True], ranked[1:] != ranked[:-1]])[: series.size])
    counts = np.diff(firsts, append=series.size)
    scores = np.empty(series.size)
    scores[order] = np.repeat(scipy.special.ndtri((firsts + counts / 2) / series.size), counts)
    return scores


def means_of(series: NDArray[np.float64], rows: int) -> NDArray[np.float64]:
    """Means of `rows` values on end [n // rows]; what is left over at the end is in none."""
    parts = series.size // rows
    return np.asarray(series[: parts * rows].reshape(parts, rows).mean(axis=1)) if rows > 1 else series


def _alike(series: NDArray[np.float64]) -> Iterator[tuple[int, float]]:
    """How many rows a mean is of, and how alike neighbouring means are."""
    kinds = _kinds(series)
    for rows in _FEWEST:
        if series.size // rows >= _FEWEST_MEANS:
            yield rows, max(_of_neighbours(means_of(kind, rows)) for kind in kinds)


def _kinds(series: NDArray[np.float64]) -> list[NDArray[np.float64]]:
    return [series, normal_scores(series)] if series.size <= _MOST_RANKED else [series]


def _wanted_rows(n: int, rows: int, alike: float) -> float:
    if alike <= _BY_CHANCE / math.sqrt(n // rows):
        return 0.0
    return rows * _FEWEST[rows] / (1 - alike) ** 2 if alike < 1 else math.inf


def _of_neighbours(series: NDArray[np.float64]) -> float:
    """The correlation of neighbours in a series [n]; 0 for a constant one."""
    centred = series - series.mean()
    power = sum_of_products(centred, centred)
    largest = float(max(series.max(), -series.min()))
    if power <= series.size * (1e-14 * largest) ** 2:
        return 0.0
    return sum_of_products(centred[1:], centred[:-1]) / power


def _rounded(rows: float) -> str:
    step = 10 ** max(0, math.floor(math.log10(rows)) - 1)
    return f"{math.ceil(rows / step) * step:,}"


# The best window that noise alone would give a run.

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


# The number of independent values that a series is worth.

# Sokal's window: sum correlations up to the first lag that is five times the time found so far. Smaller
# cuts real correlation off, larger adds only noise (Sokal 1997, "Monte Carlo Methods in Statistical
# Mechanics", section 3).
_WINDOW = 5.0
_TAU_BY_CHANCE = 3.0  # of 1/√n: independent values come out as 1 with a deviation of 2/√n
_LONG = 1 << 14
_FIRST_LAGS = 64


def autocorrelation(values: ArrayLike) -> NDArray[np.float64]:
    """The autocorrelation of a series [n] at lags 0 … n-1, by FFT; all 0 but lag 0 for a constant series."""
    series = np.asarray(values, dtype=np.float64).ravel()
    if series.size == 0:
        raise ValueError("an autocorrelation needs at least one value")
    size = float(np.abs(series).max())
    centred = series / size if size > 0 else series
    centred = centred - centred.mean()
    padded = 1 << (2 * series.size - 1).bit_length()
    spectrum = np.fft.rfft(centred, padded)
    products = np.fft.irfft(np.abs(spectrum) ** 2, padded)[: series.size]
    # Rounding alone leaves about n * eps**2 of power in a constant series; that is not a signal.
    if products[0] <= series.size * 1e-28:
        return np.asarray(np.eye(1, series.size)[0], dtype=np.float64)
    return np.asarray(products / products[0], dtype=np.float64)


def autocorrelation_time(values: ArrayLike) -> float:
    """The integrated autocorrelation time τ = 1 + 2 Σ ρ(k) of a series [n], in rows, from 1 to n.

    The larger of two answers: the sum cut by Sokal's window, and what a first-order process with the same
    lag-1 correlation has, φ raised by (1 + 3φ)/n for the bias short series have (Marriott & Pope 1954).
    In simulation the sum alone finds too little in under 200 rows. Below 1 counts as 1: nothing is
    credited for luck.
    """
    series = _numbers(values)
    if series.size > _LONG:  # the window mostly closes within a few lags: no need of all of millions
        rho = _first_lags(series)
        times = 2 * np.cumsum(rho) - 1
        if (np.arange(rho.size) >= _WINDOW * times).any():
            return _windowed(rho, times, series.size)
    rho = autocorrelation(series)
    return _windowed(rho, 2 * np.cumsum(rho) - 1, series.size)


def careful_time(values: ArrayLike, errors: float = 1.0) -> float:
    """The autocorrelation time of a series [n] raised by `errors` of its own standard errors, in rows, from 1 to n.

    The time is itself an estimate, with a relative error of √(2 (2·5τ + 1)/n) (Madras & Sokal 1988, "The pivot
    algorithm", appendix C), and a run that looks calm by luck is the one that claims most. What 1 would show by
    chance counts as 1, so that independent values lose nothing.
    """
    series = _numbers(values)
    tau, n = autocorrelation_time(series), series.size
    if tau <= 1 + _TAU_BY_CHANCE / math.sqrt(n):
        return 1.0
    raised = tau * (1 + errors * math.sqrt(2 * (2 * _WINDOW * tau + 1) / n) * (1 - 1 / tau))
    return min(float(n), raised)


def sum_of_products(first: NDArray[np.float64], second: NDArray[np.float64]) -> float:
    """The sum of products, without BLAS: its threads wait for each other where others have the processors."""
    return float(np.einsum("i,i->", first, second))


def _windowed(rho: NDArray[np.float64], times: NDArray[np.float64], size: int) -> float:
    beyond = np.flatnonzero(np.arange(rho.size) >= _WINDOW * times)
    cut = int(beyond[0]) if beyond.size else rho.size - 1
    return float(min(max(times[cut], _first_order_time(rho, size), 1.0), size))


def _first_lags(series: NDArray[Any]) -> NDArray[np.float64]:
    """The autocorrelation at the first lags only, by their sums of products; as `autocorrelation` gives it."""
    products = _products_of_flags(series) if series.dtype == bool else _products(series)
    power = products(0)
    if power <= series.size * 1e-28:
        return np.asarray(np.eye(1, _FIRST_LAGS)[0], dtype=np.float64)
    rho, total = [1.0], 1.0
    while len(rho) < _FIRST_LAGS and len(rho) - 1 < _WINDOW * total:
        rho.append(products(len(rho)) / power)
        total += 2 * rho[-1]
    return np.asarray(rho, dtype=np.float64)


def _products(series: NDArray[np.float64]) -> Callable[[int], float]:
    """The sum of products of centred values that are so many rows apart."""
    size = float(max(series.max(), -series.min()))
    centred = series / size if size > 0 else series.copy()
    centred -= centred.mean()
    return lambda lag: sum_of_products(centred[: series.size - lag], centred[lag:])


def _products_of_flags(flags: NDArray[np.bool_]) -> Callable[[int], float]:
    """The same of 0 and 1, by counting pairs: no arrays of millions of floats."""
    n, mean = flags.size, np.count_nonzero(flags) / flags.size

    def at(lag: int) -> float:
        first, second = flags[: n - lag], flags[lag:]
        alone = np.count_nonzero(first) + np.count_nonzero(second)
        return float(np.count_nonzero(first & second) - mean * alone + (n - lag) * mean * mean)

    return at


def _numbers(values: ArrayLike) -> NDArray[Any]:
    series = np.asarray(values).ravel()
    return series if series.dtype == bool else series.astype(np.float64, copy=False)


def _first_order_time(rho: NDArray[np.float64], size: int) -> float:
    if size < 3 or rho[1] == 0:
        return 1.0
    phi = float(rho[1]) + (1 + 3 * float(rho[1])) / size
    return (1 + phi) / (1 - phi) if phi < 1 else float(size)
