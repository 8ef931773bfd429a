"""A series whose quantiles are asked for: its values by rank, and how they depend on each other."""

from __future__ import annotations

from bisect import bisect_left
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from twinlens.stats.estimator.autocorrelation import careful_time
from twinlens.stats.estimator.dependence import means_of, too_dependent


class Series:
    """Values [n] in time order, and what their quantiles share: it is found once however many are taken.

    `together`: how many neighbours share one moment. Raises ValueError for values that are not finite.
    """

    def __init__(self, values: ArrayLike, together: int = 1) -> None:
        self.values, self.together = _finite(values), together

    @cached_property
    def ranked(self) -> Ranked:
        """The same values by rank."""
        return Ranked(self.values)

    @cached_property
    def moments(self) -> NDArray[np.float64]:
        """A mean for each moment."""
        return means_of(self.values, self.together)

    @cached_property
    def stretches(self) -> float:
        """How many stretches there are that do not resemble each other."""
        return self.values.size / careful_time(self.values)

    @cached_property
    def too_dependent(self) -> tuple[str, str | None]:
        """As `dependence.too_dependent` says of its moments."""
        return too_dependent(self.moments)


class Ranked:
    """The values [n] of given ranks (from 1), each looked for only between the ranks that were found before it.

    One at a time: numpy finds one rank of millions several times faster than two in one call.
    """

    def __init__(self, values: NDArray[np.float64]) -> None:
        self._values, self._found = values.copy(), [-1, values.size]

    def at(self, rank: int) -> float:
        place = rank - 1
        nearest = bisect_left(self._found, place)
        if self._found[nearest] != place:
            begin = self._found[nearest - 1] + 1
            self._values[begin : self._found[nearest]].partition(place - begin)
            self._found.insert(nearest, place)
        return float(self._values[place])


def _finite(values: ArrayLike) -> NDArray[np.float64]:
    series = np.asarray(values, dtype=np.float64).ravel()
    if series.size and not (np.isfinite(series.min()) and np.isfinite(series.max())):
        raise ValueError("a quantile is taken of finite values; leave absent ones out and say how many")
    return series
