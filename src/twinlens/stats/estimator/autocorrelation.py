"""The number of independent values that a series is worth."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

# Sokal's window: sum correlations up to the first lag that is five times the time found so far. Smaller
# cuts real correlation off, larger adds only noise (Sokal 1997, "Monte Carlo Methods in Statistical
# Mechanics", section 3).
_WINDOW = 5.0
_BY_CHANCE = 3.0  # of 1/√n: independent values come out as 1 with a deviation of 2/√n
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
    if tau <= 1 + _BY_CHANCE / math.sqrt(n):
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
