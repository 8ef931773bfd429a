"""Settings that matter: the effect of each value beside the default's, from all candidates of a search together."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from twinlens.record.estimate import Estimate
from twinlens.stats.estimator.interval import t_quantile
from twinlens.tuning.ledger import Trial
from twinlens.tuning.race import Values, shared
from twinlens.units import RATIO


@dataclass(frozen=True, slots=True)
class SettingEffect:
    """A value of a setting: how many times the objective it is worth beside the default's value, other settings equal.

    `trials`: candidates that had it. `matters`: whether the interval leaves out 1; None without an interval.
    """

    setting: str
    value: Any
    ratio: Estimate
    trials: int

    @property
    def matters(self) -> bool | None:
        if self.ratio.low is None or self.ratio.high is None:
            return None
        return not self.ratio.low <= 1 <= self.ratio.high


def setting_effects(
    trials: Sequence[Trial], values: Values, sign: int, level: float = 0.95
) -> tuple[SettingEffect, ...]:
    """The effect of each value that a candidate had, by weighted least squares of the candidates' mean log ratios to
    the default on their settings, as if effects added up.

    A value that only came together with another cannot be told from it and has no figure. `sign` of the objective.
    """
    told = [(trial, gaps) for trial in trials[1:] if (gaps := shared(values, trial.number, 0)).size]
    columns = sorted({(name, repr(value)) for trial, _ in told for name, value in trial.settings.items()})
    if not columns:
        return ()
    of = {(name, repr(value)): value for trial, _ in told for name, value in trial.settings.items()}
    design = np.array([[(name, repr(trial.settings.get(name))) == (name, word) for name, word in columns]
                       for trial, _ in told], dtype=float)  # fmt: skip
    weights = np.sqrt(np.array([gaps.size for _, gaps in told], dtype=float))
    heights = np.array([float(gaps.mean()) for _, gaps in told])
    fitted = _fit(design * weights[:, None], heights * weights)
    counts = design.sum(axis=0)
    return tuple(
        SettingEffect(name, of[name, word], _estimate(fitted, place, sign, level), int(counts[place]))
        for place, (name, word) in enumerate(columns)
    )


@dataclass(frozen=True, slots=True)
class _Fit:
    effects: np.ndarray
    errors: np.ndarray
    freedom: int
    known: np.ndarray


def _fit(design: np.ndarray, heights: np.ndarray) -> _Fit:
    """Least squares by the pseudo-inverse, with the columns that the data determine by themselves."""
    inverse = np.linalg.pinv(design)
    effects = inverse @ heights
    resolved = np.abs(np.diag(inverse @ design) - 1) < 1e-8
    freedom = design.shape[0] - int(np.linalg.matrix_rank(design))
    rest = heights - design @ effects
    variance = float(rest @ rest) / freedom if freedom > 0 else math.nan
    errors = np.sqrt(np.clip(np.diag(inverse @ inverse.T), 0, None) * variance)
    return _Fit(effects, errors, freedom, resolved)


def _estimate(fitted: _Fit, place: int, sign: int, level: float) -> Estimate:
    method = "weighted least squares over the candidates of the search"
    if not fitted.known[place]:
        return Estimate.absent(RATIO, "it only came together with another value", method)
    effect = sign * float(fitted.effects[place])
    if fitted.freedom < 1 or not math.isfinite(fitted.errors[place]):
        why = "as many values as candidates"
        return Estimate(math.exp(effect), RATIO, method, "derived", n=1, no_interval=why)
    half = t_quantile(level, fitted.freedom) * float(fitted.errors[place])
    low, high = math.exp(effect - half), math.exp(min(effect + half, 700.0))
    return Estimate(math.exp(effect), RATIO, method, "derived", low=low, high=high, level=level, n=fitted.freedom + 1)


def plateau(settings: Sequence[SettingEffect]) -> Mapping[str, tuple[Any, ...]]:
    """Of each setting the values that cannot be told from the default's."""
    found: dict[str, tuple[Any, ...]] = {}
    for each in settings:
        if each.matters is False:
            found[each.setting] = (*found.get(each.setting, ()), each.value)
    return found
