"""One curve of attainment over the rate through all runs of a search: where it crosses the SLO, and how surely."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from twinlens.stats.estimator.interval import t_quantile

NEAR = math.log(1.5)  # runs this near the limit lie on one law; those far below show what misses whatever the load
FEWEST = 7  # runs near the limit
FAR = 0.6  # of the limit: what misses there is no queue's doing
_BASE = 1 / 3  # of what is allowed: where more misses far below the limit, the curve is too flat to cross anything
_STEEP, _DOUBT = math.log(12.0), 0.5  # odds of a miss grow with about the 12th power of the rate; its log ± 0.5
_SMALLEST, _LARGEST = math.log(2.0), math.log(200.0)
_STEP, _ASIDE, _LEAST_ASIDE = 0.7, 0.15, 0.02
# Chosen on simulated servers (docs/results/coverage.md): independent requests are counted some four times too
# carefully, and a calm run is likelier than a run with a burst, so the limit is rather set too high than too low.
_CAREFUL, _LOW_FACTOR = 4.0, 1.5


@dataclass(frozen=True, slots=True)
class Attained:
    """What one run of a search saw of one limit: the share of its `requests` that missed it, how many of them count
    as `independent`."""

    rate_per_s: float
    missed: float
    requests: int
    independent: int


@dataclass(frozen=True, slots=True)
class Crossing:
    """The rate at which the share that misses is the `allowed` one, and the power of the rate that its odds grow by.

    `low`, `high`: of the crossing, None where the runs do not bound it.
    """

    rate_per_s: float
    power: float
    low: float | None = None
    high: float | None = None


def bracket(runs: Sequence[Attained], allowed: float) -> tuple[float | None, float | None]:
    """The neighbouring rates between which the share that misses, made monotone (PAVA, Ayer et al. 1955), crosses
    `allowed`; None on the side where all are."""
    rates, shares = _monotone(runs)
    above = np.flatnonzero(shares > allowed)
    if not above.size:
        return float(rates[-1]), None
    first = int(above[0])
    return (float(rates[first - 1]) if first else None), float(rates[first])


def crossing(runs: Sequence[Attained], allowed: float, level: float) -> Crossing | None:
    """Where the share of misses crosses `allowed`, by a logit law through the runs near there; None without a bracket.

    share = base + (1 - base) · logistic(power · log(rate / limit) + logit of what is allowed beyond the base), where
    `base` is what missed far below the limit. The error is the runs' own scatter about the curve, and never less than
    the dependence inside runs makes it.
    """
    below, above = bracket(runs, allowed)
    if below is None or above is None:
        return None
    middle = math.sqrt(below * above)
    near = [run for run in runs if abs(math.log(run.rate_per_s / middle)) <= NEAR]
    base = _base([run for run in runs if math.log(middle / run.rate_per_s) > NEAR], allowed)
    law = _Law.through(near, allowed, base, math.log(middle))
    rate = math.exp(min(math.log(above) + 0.05, max(math.log(below) - 0.05, law.crosses)))
    off = law.off(level) if _rests_low(runs, rate, allowed) else None
    if off is None:
        return Crossing(rate, law.power)
    return Crossing(math.exp(law.crosses), law.power, math.exp(law.crosses - off[0]), math.exp(law.crosses + off[1]))


def telling(runs: Sequence[Attained], found: Crossing) -> float:
    """The rate at which a run tells most of where the curve crosses: beside the crossing, where the odds of a miss are
    a factor e off, on the side that has fewer runs. Runs at the crossing itself tell nothing of the slope."""
    aside = min(_ASIDE, max(_LEAST_ASIDE, 1 / found.power))
    logs = [math.log(run.rate_per_s / found.rate_per_s) for run in runs]
    lower = sum(-1.5 * _ASIDE <= each < 0 for each in logs)
    upper = sum(0 <= each <= 1.5 * _ASIDE for each in logs)
    return found.rate_per_s * math.exp(aside if upper <= lower else -aside)


def _monotone(runs: Sequence[Attained]) -> tuple[np.ndarray, np.ndarray]:
    """Rates that were measured, rising, and shares that miss, pooled where a higher rate missed less."""
    rates = sorted({run.rate_per_s for run in runs})
    blocks: list[tuple[float, float, int]] = []
    for rate in rates:
        here = [run for run in runs if run.rate_per_s == rate]
        blocks.append((sum(run.missed * run.requests for run in here), sum(run.requests for run in here), 1))
        while len(blocks) > 1 and blocks[-2][0] * blocks[-1][1] >= blocks[-1][0] * blocks[-2][1]:
            last, before = blocks.pop(), blocks.pop()
            blocks.append((before[0] + last[0], before[1] + last[1], before[2] + last[2]))
    return np.array(rates), np.repeat([hits / n for hits, n, _ in blocks], [count for _, _, count in blocks])


def is_far(rate_per_s: float, limit_per_s: float) -> bool:
    """Whether a rate is so far below a limit that no queue misses there."""
    return rate_per_s <= FAR * limit_per_s


def _rests_low(runs: Sequence[Attained], limit_per_s: float, allowed: float) -> bool:
    far = [run for run in runs if is_far(run.rate_per_s, limit_per_s)]
    n = sum(run.requests for run in far)
    return bool(n) and sum(run.missed * run.requests for run in far) <= _BASE * allowed * n


def _base(runs: Sequence[Attained], allowed: float) -> float:
    n = sum(run.requests for run in runs)
    return min(0.85 * allowed, sum(run.missed * run.requests for run in runs) / n) if n else 0.0


@dataclass(frozen=True, slots=True)
class _Law:
    """logit = logit(allowed beyond `base`) + `offset` + `power` · (log rate - `middle`), and how the runs lie about it.

    `information`: of offset and power [2, 2] if requests were independent; `scatter`: variance over that of
    independent requests.
    """

    middle: float
    offset: float
    power: float
    information: np.ndarray
    scatter: float
    runs: int

    @property
    def crosses(self) -> float:
        """The logarithm of the rate at the crossing."""
        return self.middle - self.offset / self.power

    @classmethod
    def through(cls, runs: Sequence[Attained], allowed: float, base: float, middle: float) -> _Law:
        """By quasi-likelihood (Wedderburn 1974): misses vary as p (1 - p), more where misses are many, for queues
        last longer there. The power has an expectation, which decides where the runs say nothing of it."""
        x = np.log([run.rate_per_s for run in runs]) - middle
        missed, n = np.array([run.missed for run in runs]), _counting(runs)
        start = math.log((allowed - base) / (1 - allowed))
        offset, log_power = 0.0, _STEEP
        for _ in range(60):
            power = math.exp(log_power)
            share, slope, weight = _at(start + offset + power * x, base, allowed, n)
            pull, each = weight * slope * (missed - share), weight * slope * slope
            score = np.array([pull.sum(), power * (pull * x).sum() - (log_power - _STEEP) / _DOUBT**2])
            cross = power * (each * x).sum()
            curve = np.array([[each.sum() + 1e-9, cross], [cross, power**2 * (each * x * x).sum() + _DOUBT**-2]])
            step = np.clip(np.linalg.lstsq(curve, score, rcond=None)[0], -_STEP, _STEP)
            offset, log_power = offset + step[0], min(_LARGEST, max(_SMALLEST, log_power + step[1]))
            if np.abs(step).max() < 1e-6:
                break
        power = math.exp(log_power)
        share, slope, weight = _at(start + offset + power * x, base, allowed, n)
        scatter = float((weight * (missed - share) ** 2).sum()) / max(1, len(runs) - 2)
        each, beside = weight * slope * slope, x + offset / power
        cross = float((each * beside).sum())
        information = np.array([[each.sum(), cross], [cross, (each * beside * beside).sum()]])
        return cls(middle, float(offset), power, information, max(1.0, scatter), len(runs))

    def off(self, level: float) -> tuple[float, float] | None:
        """How far the logarithm of the rate may be below and above; None where the runs are too few or say nothing of
        the slope."""
        if self.runs < FEWEST or np.linalg.cond(self.information) > 1e12:
            return None
        error = np.linalg.inv(self.information) * self.scatter
        if error[1, 1] > self.power**2:
            return None
        half = t_quantile(level, self.runs - 1) * math.sqrt(error[0, 0]) / self.power
        return _LOW_FACTOR * half, half


def _counting(runs: Sequence[Attained]) -> np.ndarray:
    """The requests of each run, as fewer as the usual run near the limit says that they depend on each other. One
    factor for all: runs with bursts would count least by their own, and the limit would be theirs that had none."""
    n = np.array([float(run.requests) for run in runs])
    lasts = float(np.median([run.requests / run.independent for run in runs]))
    return n / max(1.0, lasts / _CAREFUL)


def _at(logits: np.ndarray, base: float, allowed: float, n: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Shares that miss, their slopes over the logit, and weights (1 / variance). Shape: (runs,) each."""
    queued = 1 / (1 + np.exp(-np.clip(logits, -30, 30)))
    share = base + (1 - base) * queued
    variance = np.clip(share * (1 - share), 1e-9, None) * (1 + share / allowed) / 2
    return share, (1 - base) * queued * (1 - queued), n / variance
