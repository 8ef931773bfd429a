"""Open loops: when each request arrives is settled before the first is sent, whatever the server does."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from twinlens.record.request import Request
from twinlens.schedule.request import ScheduledRequest
from twinlens.spec.workload.arrival import Arrival, Constant, Gamma, Offline, Poisson, Ramp

_ARRIVALS = 1  # the stream of random numbers that arrivals have for themselves


def arrival_times_ns(arrival: Arrival, rate_per_s: float | None, duration_s: float, seed: int) -> np.ndarray:
    """Deadlines in [0, duration), rising, in nanoseconds from the start. Shape: (arrivals,), int64.

    How many there are is left to chance where the law has any: rescaling the gaps to a round number would make counts
    more regular than the law. The process is stationary, so the rate is right from the first second: the first
    gamma gap is that of an observer who comes at a random moment (the equilibrium law, which for a gamma law is a
    uniform share of a gap of shape k + 1). Raises ValueError for arrivals that are not settled beforehand.
    """
    rng = np.random.default_rng([seed, _ARRIVALS])
    if isinstance(arrival, Offline):
        return np.zeros(arrival.requests, dtype=np.int64)
    if isinstance(arrival, Ramp):
        return _ramp_ns(arrival, duration_s, rng)
    if not isinstance(arrival, Constant | Poisson | Gamma) or rate_per_s is None:
        raise ValueError(f"{arrival.kind} arrivals at a rate of {rate_per_s} are not settled beforehand")
    if isinstance(arrival, Constant):
        count = math.ceil(duration_s * rate_per_s)
        return _kept_ns(np.arange(count) / rate_per_s, duration_s)
    cv = arrival.cv if isinstance(arrival, Gamma) else 1.0
    return _kept_ns(_renewals(cv, rate_per_s * duration_s, rng) / rate_per_s, duration_s)


def _renewals(cv: float, until: float, rng: np.random.Generator) -> np.ndarray:
    """A stationary renewal process of unit rate with gamma gaps, at least up to `until`. Shape: (arrivals,)."""
    shape = 1 / cv**2
    times = [rng.random(1) * rng.gamma(shape + 1, 1 / shape, 1)]
    while times[-1][-1] < until:
        # Gaps are summed within a block only, so the error of a million sums stays below a nanosecond.
        times.append(times[-1][-1] + np.cumsum(rng.gamma(shape, 1 / shape, 4096)))
    return np.concatenate(times)


def _ramp_ns(ramp: Ramp, duration_s: float, rng: np.random.Generator) -> np.ndarray:
    """Arrivals of unit rate, put where the ramp's cumulative intensity a·t + c·t²/2 reaches them."""
    start, slope = ramp.from_per_s, (ramp.to_per_s - ramp.from_per_s) / duration_s
    expected = (ramp.from_per_s + ramp.to_per_s) / 2 * duration_s
    unit = np.arange(math.ceil(expected)) if ramp.gaps == "constant" else _renewals(1.0, expected, rng)
    unit = unit[unit < expected]
    # The root in this form loses no digits where the slope is small, and needs no case where it is zero.
    root = start + np.sqrt(np.maximum(start * start + 2 * slope * unit, 0.0))
    return _kept_ns(np.divide(2 * unit, root, out=np.zeros(len(unit)), where=root > 0), duration_s)


def _kept_ns(times_s: np.ndarray, duration_s: float) -> np.ndarray:
    times_ns = np.rint(times_s * 1e9).astype(np.int64)
    return times_ns[times_ns < round(duration_s * 1e9)]


class OpenLoop:
    """Hands out each request at its intended time or as soon after as it is asked; what is done changes nothing.

    `upcoming` are in the order of their intended times. They are read one at a time, so a million may be columns.
    """

    is_settled = True
    """What comes next is known beforehand, whatever happens: requests can be made ahead."""

    def __init__(self, upcoming: Sequence[ScheduledRequest]) -> None:
        self._upcoming, self._position = upcoming, 0
        self._next = upcoming[0] if len(upcoming) else None

    def due(self, now_ns: int) -> tuple[ScheduledRequest, ...]:
        due: list[ScheduledRequest] = []
        while self._next is not None and self._next.intended_ns <= now_ns:
            due.append(self._next)
            self._position += 1
            self._next = self._upcoming[self._position] if self._position < len(self._upcoming) else None
        return tuple(due)

    def next_due_ns(self) -> int | None:
        return None if self._next is None else self._next.intended_ns

    def done(self, request: Request) -> None:
        """An open loop does not wait for anything."""
