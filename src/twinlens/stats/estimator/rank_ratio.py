"""The ratio of two durations whatever their distributions, with a rank interval."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from twinlens.record.estimate import Estimate
from twinlens.stats.estimator.autocorrelation import careful_time
from twinlens.units import RATIO

_ERRORS = 2.0  # of its own, by which a time of correlation is raised: calm runs claim most
_LEAST_S = 1e-6  # what takes less is as good as nothing, and a logarithm needs something


def rank_ratio(above_s: ArrayLike, below_s: ArrayLike, *, level: float = 0.99) -> Estimate:
    """The typical ratio of times [m] to times [n], with the exact interval of the Mann-Whitney statistic at `level`.

    The median of all m · n quotients, and between which of them, in order, it lies with that confidence if the two
    differ by a factor only (Hodges and Lehmann 1963; Hollander, Wolfe and Chicken 2014, 4.3). Times in order of asking
    count as many as are independent (`careful_time`): of times that depend by 0.8 "99 %" held 59 to 68 %. Without
    interval where so few values allow none; absent without values. Raises ValueError for negative or not finite times.
    """
    above, below = (np.asarray(values, dtype=np.float64).ravel() for values in (above_s, below_s))
    if not (np.isfinite(above).all() and np.isfinite(below).all() and (above >= 0).all() and (below >= 0).all()):
        raise ValueError("a ratio of times is taken of finite times that are not negative")
    if not above.size or not below.size:
        return Estimate.absent(RATIO, "there is nothing to compare")
    above, below = (np.maximum(values, _LEAST_S) for values in (above, below))
    quotients = np.sort((above[:, None] / below[None, :]).ravel())
    method = f"median of all quotients of {above.size} and {below.size} times"
    value, n = float(np.median(quotients)), int(above.size + below.size)
    independent = [max(1, int(each.size / careful_time(np.log(each), _ERRORS))) for each in (above, below)]
    rank = lowest_rank(independent[0], independent[1], (1 - level) / 2)
    if rank is not None:  # at the same height among all quotients
        rank = max(1, int(rank * (quotients.size / (independent[0] * independent[1]))))
    if rank is None:
        return Estimate(value, RATIO, f"{method}; too few for an interval", "derived", n=n)
    low, high = float(quotients[rank - 1]), float(quotients[quotients.size - rank])
    method += ", interval by Mann-Whitney ranks"
    return Estimate(value, RATIO, method, "derived", low=low, high=high, level=level, n=n)


def lowest_rank(m: int, n: int, tail: float) -> int | None:
    """The largest rank (from 1) of the m · n quotients with P(U < rank) <= tail; None where there is none.

    U counts pairs in which the first is larger, all orders equally likely. With 5 and 5 values and a tail of 2.5 % it
    is 3 (tables: 2 is the critical value of U). Past 2,500 pairs U is taken as normal, whose error is then below one.
    """
    if m * n > 2500:
        from scipy.special import ndtri

        deviation = np.sqrt(m * n * (m + n + 1) / 12)
        return max(1, int(np.floor(m * n / 2 + ndtri(tail) * deviation)))
    reached = np.cumsum(_ways(m, n))
    below = reached / reached[-1] <= tail * (1 + 1e-12)
    return int(below.sum()) or None


def _ways(m: int, n: int) -> np.ndarray:
    """In how many orders of m and n values U is 0, 1, … m · n: the coefficients of the Gaussian binomial."""
    ways = np.zeros(m * n + 1)
    ways[0] = 1
    for k in range(1, m + 1):
        raised = ways.copy()
        raised[n + k :] -= ways[: max(0, ways.size - n - k)]
        for at in range(k, raised.size):
            raised[at] += raised[at - k]
        ways = raised
    return ways
