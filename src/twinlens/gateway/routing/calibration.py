"""Bands of predictions that hold nine in ten: quantiles of how far the last ones were off, corrected as they miss.

Conformal: the band is that of the ratios of true to predicted among the last `WINDOW`; each side's level moves by how
often that side was missed (Gibbs and Candès, Adaptive conformal inference under distribution shift, 2021), so that a
backend that drifts gets a wider band, and then one around its new middle.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from twinlens.gateway.routing.route import Band

WINDOW = 200
FEWEST = 20
"""Of fewer, no quantile of 5 % is one."""
_TARGET = 0.05
_STEP = 0.01
_MOST_LEVEL = 0.15
_LEAST_LEVEL = -0.2
"""Below 0 an end lies outside all that is remembered, the farther the more often it was missed: what drifts is off by
more than it ever was."""


@dataclass(slots=True)
class Calibration:
    """Of one quantity at one backend. `held` of `tried` bands had the true value; those that the run began with are
    not among them."""

    held: int = 0
    tried: int = 0
    factors: tuple[float, float, float] | None = None
    """The middle and the bounds, over what the law says; None until `FEWEST` ratios are known."""
    _last: deque[float] = field(default_factory=deque)
    _ordered: list[float] = field(default_factory=list)
    _below: float = _TARGET
    _above: float = _TARGET

    def start(self, logs: Iterable[float]) -> None:
        """Logarithms of true over predicted, of the measured run itself, in order of time."""
        for each in logs:
            self._take(each)
        self._refresh()

    def band(self, raw: float) -> Band | None:
        """That of a prediction that the law alone makes; None while too few are known."""
        if self.factors is None:
            return None
        middle, low, high = self.factors
        return Band(middle=raw * middle, low=raw * low, high=raw * high)

    def learn(self, raw: float, true: float, band: Band | None) -> None:
        """What came true of a prediction, and of the band that was given with it."""
        if not (raw > 0 and true > 0):
            return
        if band is not None:
            self._judge(true < band.low, true > band.high)
        self._take(math.log(true / raw))
        self._refresh()

    def missed_above(self) -> None:
        """The true value is not known, but is above the band: nothing came for longer."""
        self._judge(False, True)
        self._refresh()

    def _judge(self, is_below: bool, is_above: bool) -> None:
        self.tried += 1
        self.held += not (is_below or is_above)
        self._below = min(_MOST_LEVEL, max(_LEAST_LEVEL, self._below + _STEP * (_TARGET - is_below)))
        self._above = min(_MOST_LEVEL, max(_LEAST_LEVEL, self._above + _STEP * (_TARGET - is_above)))

    def _take(self, log: float) -> None:
        if len(self._last) == WINDOW:
            del self._ordered[bisect_left(self._ordered, self._last.popleft())]
        self._last.append(log)
        insort(self._ordered, log)

    def _refresh(self) -> None:
        count = len(self._ordered)
        if count < FEWEST:
            return
        middle = self._ordered[count // 2]
        self.factors = math.exp(middle), math.exp(self._end(self._below, -1)), math.exp(self._end(self._above, 1))

    def _end(self, level: float, sign: int) -> float:
        """The value that a further one lies beyond, on this side, with a chance of `level`; outside all of them where
        they are too few to say, or `level` is below 0."""
        count = len(self._ordered)
        place = math.ceil((count + 1) * (1 - max(0.0, level)))
        farthest = self._ordered[-1 if sign > 0 else 0]
        if place > count:
            return farthest + (farthest - self._ordered[count // 2]) * (0.5 - min(0.0, level) / _STEP)
        return self._ordered[place - 1 if sign > 0 else count - place]
