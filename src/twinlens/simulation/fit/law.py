"""A law learnt from steps: its constants with intervals, its noise, and how far it was measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from twinlens.record.estimate import Estimate
from twinlens.simulation.fit.least import BEFORE, BLOCK, TERMS, Fit, Observed
from twinlens.simulation.fit.own_run import Lacking
from twinlens.simulation.fit.plausible import plausible
from twinlens.simulation.law import Affine, StepLaw
from twinlens.simulation.points.energy import Powers
from twinlens.simulation.rules import Rules
from twinlens.simulation.work import Floats
from twinlens.units import SECONDS

DRAWS = 200
LEVEL = 0.95
ASSUMED_SPREAD = 0.12
"""Standard deviation of the logarithm of a server's level, where too few servers show it: fresh vLLM servers on one
machine, published in docs/results, differ by 11 to 25 %."""
_ASSUMED_WORTH = 4.0
"""Servers that the assumed spread counts as."""
_ENOUGH_SERVERS = 3


@dataclass(frozen=True, slots=True)
class Span:
    """The least and the greatest of a quantity that was measured."""

    least: float
    most: float

    def beyond(self, asked: float) -> float:
        """By which factor `asked` lies outside: 1 where it is inside."""
        if self.least <= asked <= self.most:
            return 1.0
        if asked > self.most:
            return asked / self.most if self.most > 0 else float("inf")
        return self.least / asked if asked > 0 else float("inf")


@dataclass(frozen=True, slots=True, eq=False)
class FittedLaw:
    """A machine as measured runs show it.

    `law`: of a server in the middle of those measured; times `noise` it takes as many seconds as they did. `constants`:
    by name, each with the interval of a server started afresh, or the reason why it is not known. `noise` (steps,):
    seconds of a step over those of the law, in order of time, mean 1: to be drawn in blocks of `BLOCK`, as slow steps
    come in spells. `before_each_s` (requests,): what single requests waited before the steps, mean `law.before_s`,
    without what noise made of their first step. `draws`: laws of servers started afresh, equally likely. `spread`:
    standard deviation of the logarithm of a server's level, from `servers`.
    `rules`: as far as the run recorded them; `assumed` names those that nobody recorded. `reach`: what was measured, by
    quantity. `doubts`: sentences on what widens the intervals. `powers`: what an engine draws, or why nobody knows.
    """

    law: StepLaw
    constants: Mapping[str, Estimate]
    noise: Floats
    before_each_s: Floats
    draws: tuple[StepLaw, ...]
    spread: float
    servers: int
    rules: Rules
    assumed: tuple[str, ...]
    reach: Mapping[str, Span]
    doubts: tuple[str, ...]
    powers: Powers = field(default_factory=Powers)

    def beyond(self, **asked: float) -> dict[str, float]:
        """By which factor each quantity asked lies outside what was measured, 1 inside: the names are those of `reach`.

        Raises KeyError for another name.
        """
        return {name: self.reach[name].beyond(value) for name, value in asked.items()}


@dataclass(frozen=True, slots=True)
class Setting:
    """What the runs say beside their steps: see `FittedLaw`. `contradicted`: of `EngineSteps`, the largest."""

    source: str
    rules: Rules
    assumed: tuple[str, ...]
    reach: Mapping[str, Span]
    contradicted: float
    doubts: tuple[str, ...]


def fitted(
    fit: Fit, observed: Sequence[Observed], setting: Setting, own: Sequence[Lacking] = (), seed: int = 0
) -> FittedLaw:
    """The law of the servers that `fit` came from, each one of `observed`. `own`: what it lacks of each run."""
    rng = np.random.default_rng(seed)
    drawn = plausible(fit, DRAWS, rng)
    drawn[np.isnan(drawn[:, BEFORE]), BEFORE] = fit.constants[BEFORE]
    factor, before_s, drift = _mean_lacking(own)
    constants, spread = fit.constants.copy(), _spread(fit.levels)
    for each in (constants, drawn.T):
        each[:BEFORE] *= factor
        each[BEFORE] = np.maximum(each[BEFORE] + before_s, 0.0)
    drawn *= _afresh(fit, float(np.hypot(setting.contradicted, drift)), rng)
    return FittedLaw(
        law_of(constants, setting.source),
        _estimates(fit, constants, drawn, observed),
        np.concatenate(fit.ratios),
        _before_each_s(fit, observed, float(constants[BEFORE])),
        tuple(law_of(each, setting.source) for each in drawn),
        spread[0],
        len(observed),
        setting.rules,
        setting.assumed,
        setting.reach,
        setting.doubts,
    )


def _mean_lacking(own: Sequence[Lacking]) -> tuple[float, float, float]:
    """The mean factor, the mean seconds before the steps, and how far the factor's logarithm scatters over runs."""
    known = [each for each in own if each.requests]
    if not known:
        return 1.0, 0.0, 0.0
    logs = np.log([each.factor for each in known])
    drift = float(logs.std(ddof=1)) if len(known) > 1 else 0.0
    return float(np.exp(logs.mean())), float(np.mean([each.before_s for each in known])), drift


def _afresh(fit: Fit, within: float, rng: np.random.Generator) -> Floats:
    """Factors (draws, terms) on the constants of a server in the middle that make it one of those started afresh.

    `within`: standard deviation of a factor that even the same server has from run to run.
    """
    factors = np.ones((DRAWS, len(TERMS)))
    apart = np.sqrt(1.0 + 1.0 / len(fit.levels))
    for place, levels in ((slice(0, BEFORE), fit.levels), (slice(BEFORE, None), fit.before)):
        spread, freedom = _spread(levels)
        factors[:, place] = np.exp(apart * spread * rng.standard_t(freedom, DRAWS))[:, None]
    factors[:, :BEFORE] *= np.exp(within * rng.standard_normal(DRAWS))[:, None]
    return factors


def law_of(constants: Floats, source: str) -> StepLaw:
    """Constants (terms,) as a law. What happens outside the steps is one number to a client: all of it is before."""
    *affine, before_s = map(float, constants)
    return StepLaw((Affine(*affine),), before_s=before_s, origin="fitted", source=source)


def _spread(levels: Floats) -> tuple[float, float]:
    """Standard deviation of the logarithm of levels, and its degrees of freedom.

    From three servers on theirs alone; below, with an assumed one, as a scaled inverse chi-square prior.
    """
    freedom = len(levels) - 1.0
    squares = float(((np.log(levels) - np.log(levels).mean()) ** 2).sum())
    if len(levels) >= _ENOUGH_SERVERS:
        return float(np.sqrt(squares / freedom)), freedom
    worth = _ASSUMED_WORTH + freedom
    return float(np.sqrt((_ASSUMED_WORTH * ASSUMED_SPREAD**2 + squares) / worth)), worth


def _estimates(fit: Fit, constants: Floats, drawn: Floats, observed: Sequence[Observed]) -> dict[str, Estimate]:
    work = np.concatenate([each.work for each in observed])
    steps, firsts = int((work[:, BEFORE] == 0).sum()), int((work[:, BEFORE] != 0).sum())
    method = (
        f"non-negative least squares over {steps} engine steps of {len(observed)} server"
        f"{'s' if len(observed) > 1 else ''}, bootstrap of blocks of {BLOCK} steps and spread of servers"
    )
    low, high = np.quantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0)
    found: dict[str, Estimate] = {}
    for i, name in enumerate(TERMS):
        if name not in fit.kept:
            found[name] = Estimate.absent(SECONDS, _why_not(name, bool(work[:, i].any())), method)
            continue
        value, n = float(constants[i]), firsts if i == BEFORE else steps
        found[name] = Estimate(
            value, SECONDS, method, "derived", min(float(low[i]), value), max(float(high[i]), value), LEVEL, n=n
        )
    return found


def _why_not(name: str, is_there: bool) -> str:
    if name == "before_s" and not is_there:
        return "no request found the engine idle"
    if not is_there:
        return "no step had any of it"
    return "it rose and fell with the other terms, so that its share in them is not known"


def _before_each_s(fit: Fit, observed: Sequence[Observed], before_s: float) -> Floats:
    """Waits of single requests around `before_s`: of those that found the engine idle, in a server in the middle."""
    found, of_noise = [], []
    for each, level, before, ratios in zip(observed, fit.levels, fit.before, fit.ratios, strict=True):
        alone = each.work[:, BEFORE] != 0
        law_s = each.work[alone, :BEFORE] @ fit.constants[:BEFORE] * level
        waits = each.seconds[alone] - law_s
        found.append((waits - waits.mean() if waits.size else waits) / before)
        of_noise.append((law_s * ratios.std() / before) ** 2)
    off, noise = np.concatenate(found), np.concatenate(of_noise)
    if not off.size or off.var() <= noise.mean() or not before_s:
        return np.full(1, before_s)
    waits = np.maximum(before_s + off * np.sqrt(1 - noise.mean() / off.var()), 0.0)
    return np.asarray(waits * before_s / waits.mean())
