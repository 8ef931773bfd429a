"""A series whose quantiles are asked for: its values by rank, and how they depend on each other."""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from twinlens.stats.estimator.autocorrelation import careful_time
from twinlens.stats.estimator.dependence import means_of, slow_time, too_dependent
from twinlens.stats.estimator.independent import Clustering, Queue, clustering, independent_requests

_POINTS = 96
_DIGITS = 6
MOST_WAITING = 1 << 16
"""In more rows how slow ones cluster shows by itself, and requests in flight are not asked."""


class Series:
    """Values [n] in time order, and what their quantiles share: it is found once however many are taken.

    `together`: how many neighbours share one moment. `waiting`: the requests in flight when each was due, where they
    show how long a queue lasts. `lost`: how many of them stand for values that never came, above all others.
    Raises ValueError for values that are not finite.
    """

    def __init__(self, values: ArrayLike, together: int = 1, waiting: Queue | None = None, lost: int = 0) -> None:
        self.values, self.together, self.waiting, self.lost = _finite(values), together, waiting, lost

    @cached_property
    def moments(self) -> NDArray[np.float64]:
        """A mean for each moment."""
        return means_of(self.values, self.together)

    @cached_property
    def stretches(self) -> float:
        """How many stretches there are that do not resemble each other."""
        return self.values.size / careful_time(self.values)

    @cached_property
    def ordered(self) -> NDArray[np.float64]:
        """The values from the smallest."""
        return np.sort(self.values)

    @cached_property
    def sketch(self) -> tuple[tuple[int, ...], tuple[float, ...]]:
        """About a hundred of its values by rank, without those that never came."""
        return sketch(self.ordered[: self.values.size - self.lost], self.values.size)

    @cached_property
    def _clustering(self) -> Clustering:
        return clustering(self.values)

    def independent(self, value: float) -> float:
        """How many independent values a share of them at most `value` rests on, from 1 to n."""
        if self.waiting is not None:
            return independent_requests(self.values <= value, [self._clustering], self.waiting)
        slow = self.values >= value
        return self.values.size / max(careful_time(slow), slow_time(slow))

    @cached_property
    def too_dependent(self) -> tuple[str, str | None]:
        """As `dependence.too_dependent` says of its moments."""
        return too_dependent(self.moments)


def sketch(ranked: NDArray[np.float64], size: int) -> tuple[tuple[int, ...], tuple[float, ...]]:
    """Ranks and values of about a hundred of `ranked` [m <= size], which rise; those up to `size` never came.

    They lie evenly in the logit of the rank, so that both tails have as many points as the middle.
    """
    if not ranked.size:
        return (), ()
    end = math.log(size + 1)
    shares = 1 / (1 + np.exp(-np.linspace(-end, end, _POINTS)))
    ranks = np.unique(np.clip(np.rint(shares * size), 1, ranked.size)).astype(int)
    ranks = np.union1d(ranks, [1, ranked.size])
    values = [float(f"{value:.{_DIGITS}g}") for value in ranked[ranks - 1]]
    return tuple(ranks.tolist()), tuple(values)


def _finite(values: ArrayLike) -> NDArray[np.float64]:
    series = np.asarray(values, dtype=np.float64).ravel()
    if series.size and not (np.isfinite(series.min()) and np.isfinite(series.max())):
        raise ValueError("a quantile is taken of finite values; leave absent ones out and say how many")
    return series
