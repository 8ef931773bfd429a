"""One curve of attainment over the rate through all runs of a search: where it crosses the SLO, and how surely."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

FEWEST = 7  # runs
_RATES = 61  # between the ends of where the crossing may be
_POWERS = np.geomspace(1.5, 80.0, 12)[None, :, None]  # of the rate, that the odds of a miss grow by
_EXPECTED, _DOUBT = math.log(14.0), 0.8  # logarithm of the power, ±
_BASES = np.linspace(0.0, 0.95, 9)[None, None, :]  # of what is allowed: misses that are no queue's doing
_BEYOND, _ROOM = 0.4, 0.03  # of the logarithm of the rate, outside of the bracket and of what a coarse curve leaves
_MANY = 0.4  # of what is not allowed: a run that misses more says no more than that, for it nears overload
# Requests that a burst lasts for, as a queue in heavy traffic before which requests come by chance has them: its drift
# sets both the power and the time that it takes to forget. Seen in simulated servers (docs/results/coverage.md).
_LASTS, _QUEUE = 3.5, 1.8
_WORTH = 8.0  # runs whose scatter the expectation counts as
_CHANCE = 1.5  # standard errors: so many more misses than allowed are no limit left yet
_ASKED = np.linspace(-0.6, 0.3, 37)  # logarithms of rates over the crossing that may be asked for


@dataclass(frozen=True, slots=True)
class Attained:
    """What one run of a search saw of one limit: the share of its `requests` that missed it.

    `gaps_cv`: coefficient of variation of the gaps between requests; 1 where these come by chance.
    """

    rate_per_s: float
    missed: float
    requests: int
    gaps_cv: float = 1.0

    @property
    def worth(self) -> float:
        """Requests that come by chance and tell as much: a queue scatters as the sum of the variances of its gaps and
        its services, which are taken to be 0.5."""
        return self.requests * 1.5 / (max(1.0, self.gaps_cv) ** 2 + 0.5)


def bracket(runs: Sequence[Attained], allowed: float) -> tuple[float | None, float | None]:
    """The neighbouring rates between which the share that misses, made monotone (PAVA, Ayer et al. 1955), crosses
    `allowed` by more than chance; None on the side where all are."""
    rates, shares, counts = _monotone(runs)
    above = np.flatnonzero(shares > allowed + _CHANCE * np.sqrt(allowed * (1 - allowed) / counts))
    if not above.size:
        return float(rates[-1]), None
    first = int(above[0])
    return (float(rates[first - 1]) if first else None), float(rates[first])


@dataclass(frozen=True, slots=True)
class Curve:
    """How likely each law of misses is after the runs; a law is a rate of crossing, a power and a base.

    share = base + (1 - base) · logistic(power · log(rate / crossing) + logit of what is allowed beyond the base).
    Shapes: `logs` of crossings (R, 1, 1), `weights` (R, P, B) of sum 1.
    """

    logs: np.ndarray
    weights: np.ndarray
    allowed: float
    requests_per_rate: float
    runs: int

    @classmethod
    def through(cls, runs: Sequence[Attained], allowed: float) -> Curve | None:
        """The curve through all runs; None without a bracket."""
        below, above = bracket(runs, allowed)
        if below is None or above is None:
            return None
        coarse = cls._between(math.log(below) - _BEYOND, math.log(above) + _BEYOND, runs, allowed)
        return cls._between(coarse._log(0.001) - _ROOM, coarse._log(0.999) + _ROOM, runs, allowed)

    @classmethod
    def _between(cls, low: float, high: float, runs: Sequence[Attained], allowed: float) -> Curve:
        """By a likelihood of bursts (Tweedie's compound Poisson, power 1.5, by Nelder and Pregibon's saddlepoint 1987)
        over an expectation of the power. The scatter about the law is unknown but expected, so it makes t of normal.
        """
        logs = np.linspace(low, high, _RATES)[:, None, None]
        off, size, seen = np.zeros((_RATES, _POWERS.size, _BASES.size)), 0.0, 0
        for run in runs:
            share, scatter = _law(math.log(run.rate_per_s), logs, allowed, run.worth)
            off += _deviance(min(run.missed, _most(allowed)), np.minimum(share, _most(allowed))) / scatter
            if run.missed > 0:  # a run without a burst has its own, exact likelihood
                size, seen = size + np.log(scatter), seen + 1
        expected = ((np.log(_POWERS) - _EXPECTED) / _DOUBT) ** 2
        likely = -(expected + size + (_WORTH + seen) * np.log(_WORTH + off)) / 2
        weights = np.exp(likely - likely.max())
        usual = float(np.median([run.worth / run.rate_per_s for run in runs]))
        return cls(logs, weights / weights.sum(), allowed, usual, len(runs))

    def quantile(self, share: float) -> float:
        """The rate of crossing that the true one is below with a probability of `share`."""
        return math.exp(self._log(share))

    def _log(self, share: float) -> float:
        mass = self.weights.sum(axis=(1, 2))
        return float(np.interp(share, np.cumsum(mass) - mass / 2, self.logs[:, 0, 0]))

    def telling(self) -> float:
        """The rate whose run is expected to explain most of what is not known of the crossing."""
        return math.exp(max(self._log(0.5) + _ASKED, key=self._explained))

    def more_runs(self, wider: float) -> int:
        """Further runs, each where it tells most, until the interval is expected to be narrower by a factor of `wider`:
        each tells as much as the next one would, beside what is known."""
        told = self._explained(math.log(self.telling()))
        return math.ceil((wider**2 - 1) * (1 - told) / told) if wider > 1 else 0

    def _explained(self, rate: float) -> float:
        """The share of the variance of the crossing that a run at a rate, of which the logarithm is given, is expected
        to explain, by the correlation of the two. Fourth roots of shares scatter alike, be they large or small."""
        off = self.logs - float((self.weights * self.logs).sum())
        share, scatter = _law(rate, self.logs, self.allowed, self.requests_per_rate * math.exp(rate))
        root = 4 * np.minimum(share, _most(self.allowed)) ** 0.25
        around = root - float((self.weights * root).sum())
        both, of_run, of_crossing = around * off, scatter + around**2, off**2
        together, runs, crossing = (float((self.weights * each).sum()) for each in (both, of_run, of_crossing))
        return together**2 / (runs * crossing)


def _monotone(runs: Sequence[Attained]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rates that were measured, rising, shares that miss, pooled where a higher rate missed less, and of how many."""
    rates = sorted({run.rate_per_s for run in runs})
    blocks: list[tuple[float, float, int]] = []
    for rate in rates:
        here = [run for run in runs if run.rate_per_s == rate]
        blocks.append((sum(run.missed * run.requests for run in here), sum(run.requests for run in here), 1))
        while len(blocks) > 1 and blocks[-2][0] * blocks[-1][1] >= blocks[-1][0] * blocks[-2][1]:
            last, before = blocks.pop(), blocks.pop()
            blocks.append((before[0] + last[0], before[1] + last[1], before[2] + last[2]))
    hits, n, alike = np.array(blocks).T
    return np.array(rates), np.repeat(hits / n, alike.astype(int)), np.repeat(n, alike.astype(int))


def _most(allowed: float) -> float:
    return allowed + _MANY * (1 - allowed)


def _law(log_rate: float, logs: np.ndarray, allowed: float, requests: float) -> tuple[np.ndarray, np.ndarray]:
    """Shares that miss at a rate, and the scatter of a run's: its variance over share^1.5 · (1 - share). Shape: (R, P,
    B) each. Misses of a queue come in bursts; those of the base are single."""
    bases = allowed * _BASES
    logit = np.log((allowed - bases) / (1 - allowed)) + _POWERS * (log_rate - logs)
    queued = (1 - bases) / (1 + np.exp(-np.clip(logit, -30, 30)))
    lasts = _LASTS + _QUEUE * (_POWERS / np.log(1 / (allowed - bases))) ** 2
    alone, bursts = bases / requests, queued / (1 + requests / lasts)
    return bases + queued, (alone + bursts) / (bases + queued) / math.sqrt(allowed)


def _deviance(seen: float, share: np.ndarray) -> np.ndarray:
    """2 ∫ (seen - p) / (p^1.5 · (1 - p)) dp, from `share` [...] to `seen`."""

    def likely(p: np.ndarray) -> np.ndarray:
        return np.asarray(-2 * seen / np.sqrt(p) - 2 * (1 - seen) * np.arctanh(np.sqrt(p)))

    best = likely(np.array(seen)) if seen > 0 else 0.0
    return 2 * (best - likely(share))
