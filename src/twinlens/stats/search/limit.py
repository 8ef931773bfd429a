"""The highest rate within an SLO from all runs of a search together: one curve of attainment, and where it crosses."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from twinlens.record.beside import Tried
from twinlens.spec.slo import Search, Slo

_APART = 1.5  # between neighbouring rates, for their middle to be asked for
_CLEAR = 4  # a limit does not bind where misses beside the answer are so many times fewer than allowed
_FEWEST_MISSES = 10  # that would be allowed, for that to show


def highest(tried: Sequence[Tried], search: Search, slo: Slo, level: float) -> tuple[float, float] | None:
    """The interval of the rate at which the first of the SLO's limits is left, by all runs.

    None for a concurrency, which is whole, for fewer than `FEWEST` runs, and while no rate above the limit or none
    below it was measured. The limits share the doubt (Bonferroni), for any of them may be the first.
    """
    runs, allowed = _by_limit(tried, search, slo), 1 - slo.quantile
    curves = _curves(runs, allowed)
    if not curves:
        return None
    first = _first(curves)
    rate, beyond = curves[first].quantile(0.5), (1 - level) / max(1, len(runs)) / 2
    binding = [name for name in runs if name == first or not _is_clear(runs[name], rate, allowed)]
    if curves[first].runs < FEWEST or not set(binding) <= set(curves):
        return None
    low = min(curves[name].quantile(beyond) for name in binding)
    high = min(curves[name].quantile(1 - beyond) for name in binding)
    return _in_digits(low, math.floor), _in_digits(high, math.ceil)


def more_runs(tried: Sequence[Tried], search: Search, slo: Slo, found: tuple[float, float]) -> int:
    """Runs that are expected to bring the interval that was found to the width that is asked for."""
    curves = _curves(_by_limit(tried, search, slo), 1 - slo.quantile)
    low, high = found
    return curves[_first(curves)].more_runs(math.log(high / low) / math.log1p(search.width))


def next_by_curve(tried: Sequence[Tried], search: Search, slo: Slo) -> float | None:
    """The rate that tells most: outward until the limit lies between two rates, the middle while these are far apart,
    then where the curve says. None where it has nothing to ask for."""
    runs, allowed = _by_limit(tried, search, slo), 1 - slo.quantile
    if not runs:
        return None
    least, most = search.bounds()
    ends = [bracket(seen, allowed) for seen in runs.values()]
    above = min((high for _, high in ends if high is not None), default=None)
    if above is None:
        top = max(low for low, _ in ends if low is not None)
        return min(most, 2 * top) if top < most else None
    below = min((low or 0.0) for low, high in ends if high == above)
    if not below:
        return max(least, above / 2) if above > least else None
    if above / below > _APART:
        return math.sqrt(above * below)
    curves = _curves(runs, allowed)
    return curves[_first(curves)].telling()


def _curves(runs: Mapping[str, Sequence[Attained]], allowed: float) -> dict[str, Curve]:
    return {name: curve for name, seen in runs.items() if (curve := Curve.through(seen, allowed))}


def _first(curves: Mapping[str, Curve]) -> str:
    """The limit that is left first."""
    return min(curves, key=lambda name: curves[name].quantile(0.5))


def _by_limit(tried: Sequence[Tried], search: Search, slo: Slo) -> dict[str, list[Attained]]:
    """What each run that can be judged saw of each limit. In a backlog that grows all requests miss in the end."""
    if search.over != "rate_per_s":
        return {}
    judged = [one for one in tried if one.verdict not in ("invalid", "failed") and one.requests]
    runs = {name: [_seen(one, name) for one in judged if name in one.shares] for name in slo.limits()}
    return runs if judged and all(len(seen) == len(judged) for seen in runs.values()) else {}


def _seen(one: Tried, name: str) -> Attained:
    share = 0.0 if one.label == "overload" else one.shares[name][0]
    return Attained(one.value, 1 - share, one.requests, one.gaps_cv)


def _is_clear(runs: Sequence[Attained], rate: float, allowed: float) -> bool:
    """Whether a limit is far from being left at the rate where another one is."""
    beside = [run for run in runs if 0.95 * rate <= run.rate_per_s <= 1.15 * rate]
    n = sum(run.requests for run in beside)
    missed = sum(run.missed * run.requests for run in beside)
    return n * allowed >= _FEWEST_MISSES and missed <= n * allowed / _CLEAR


def _in_digits(value: float, rounding: object) -> float:
    """In four digits, outward."""
    size = 10.0 ** (math.floor(math.log10(value)) - 3)
    return float(f"{rounding(value / size) * size:.4g}")  # type: ignore[operator]


# One curve of attainment over the rate through all runs of a search: where it crosses the SLO, and how surely.

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
