"""The number of independent requests that a share rests on."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from twinlens.stats.estimator.autocorrelation import careful_time
from twinlens.stats.estimator.dependence import normal_scores, slow_time
from twinlens.stats.estimator.interval import t_quantile

# A run that passes at its limit has seen less of a queue than is usual. Chosen on M/M/1 to M/M/64, M/D, G/M and M/G at
# loads 0.5 to 0.95, and on waves shorter than the run, so that one run in forty passes (docs/results/coverage.md).
_HIDDEN_DOUBT = 3.0
_LEVEL = 0.95


@dataclass(frozen=True, slots=True)
class Clustering:
    """How times [n] cluster: their normal scores [n], and for how many requests slow stays slow. Made once for all
    shares that they decide."""

    scores: np.ndarray
    lasts: float


@dataclass(frozen=True, slots=True)
class Queue:
    """The number `in_flight` [n] when each request was due, and for how many requests it resembles itself."""

    in_flight: np.ndarray
    lasts: float

    def of(self, chosen: np.ndarray) -> Queue:
        """The same, seen by the `chosen` [n] requests only."""
        return Queue(self.in_flight[chosen], self.lasts)


def clustering(times: np.ndarray) -> Clustering:
    """Of `times` [n], `inf` where a request failed: as they are, and of their ranks, which no giant hides.

    Each is raised by its own error: runs that pass are those that looked calm, so the doubt must be on that side.
    """
    if not np.isfinite(times).any():
        return Clustering(np.zeros(times.size), 1.0)
    known = _known(times)
    if known.min() == known.max():  # all of one rank
        return Clustering(np.zeros(times.size), 1.0)
    scores = normal_scores(known)
    return Clustering(scores, max(careful_time(known, 1.0), careful_time(scores, 2.0)))


def queue(in_flight: np.ndarray) -> Queue:
    """Of the number in flight [n] when each request was due."""
    return Queue(in_flight, max(careful_time(in_flight), slow_time(in_flight)))


def independent_requests(
    hits: np.ndarray, times: Iterable[np.ndarray | Clustering] = (), in_flight: np.ndarray | Queue | None = None
) -> float:
    """How many independent requests the share of `hits` [n >= 1] in time order rests on, from 1 to n.

    What their clustering leaves of n. It is read from the hits and, as few misses say little of how misses cluster,
    from the `times` [n] each that decide them, `inf` where a request failed: what queues for one moment of a server
    resembles its neighbours long before the first of them misses. Before many servers the noise of single services
    hides that. There the number `in_flight` [n] when each was due shows how long a queue lasts, and its correlation
    with hits and times how much of them it decides.
    """
    n, series = hits.size, [each if isinstance(each, Clustering) else clustering(each) for each in times]
    decided = hits.astype(float)
    lasting = [_as_known(max(careful_time(decided, 2.0), *(each.lasts for each in series), 1.0), n)]
    if in_flight is not None:
        waiting = in_flight if isinstance(in_flight, Queue) else queue(in_flight)
        lasting.append(_queue_time([decided, *(each.scores for each in series)], waiting))
    return max(1.0, n / max(lasting))


def _as_known(lasts: float, n: int) -> float:
    """A time of `lasts` requests, longer as a run of n has shown it less often: n / lasts times in all.

    A variance that is known from so few stretches makes Student's t of the normal factor, so t² / z² of the time.
    """
    factor = t_quantile(_LEVEL, n / lasts) / float(ndtri((1 + _LEVEL) / 2))
    return 1.0 + (lasts - 1.0) * factor**2


def _queue_time(series: list[np.ndarray], waiting: Queue) -> float:
    """For how many requests the queue makes `series` [n] each resemble their neighbours: as long as it lasts itself, by
    the share of their variance that it explains. The less it explains, the more of it is hidden, and the more is added.
    """
    n = waiting.in_flight.size
    explained = max((_explained(one, waiting.in_flight) for one in series), default=0.0)
    doubt = _HIDDEN_DOUBT - (_HIDDEN_DOUBT - 1.0) * explained
    lasts = min(float(n), doubt * waiting.lasts)
    return 1.0 + explained * (_as_known(lasts, n) - 1.0)


def _explained(series: np.ndarray, by: np.ndarray) -> float:
    """The squared correlation of two series [n]; 0 where one does not vary."""
    if series.std() == 0 or by.std() == 0:
        return 0.0
    return float(np.corrcoef(series, by)[0, 1] ** 2)


def _known(times: np.ndarray) -> np.ndarray:
    """`times` with the largest in the place of those that never came."""
    answered = np.isfinite(times)
    return np.where(answered, times, times[answered].max())
