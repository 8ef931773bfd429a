"""Test that one run can show how far its waits depend on each other, so that an interval may rest on them.

It is asked of quantiles, and of means of waits and of gauges, where a queue may stand behind the rows.

A run that is too short to show it looks calm by luck, and gives its narrowest intervals where it is most wrong. So the
dependence that can be seen must be over long before the run is, by a margin that grows with its square: a queue in
front of one server remembers for about 2/(1 - ρ) rows, ρ the correlation of neighbours, and twice as long where half
its load is missing by chance.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from twinlens.stats.estimator.autocorrelation import sum_of_products

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
    scores[order] = np.repeat(ndtri((firsts + counts / 2) / series.size), counts)
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
