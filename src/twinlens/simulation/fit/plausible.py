"""Constants that are as likely as those fitted: what steps leave open, of constants that cannot be below 0.

Where two terms rise together, least squares without negative constants gives all of it to one of them, in every sample
of the bootstrap. So the bootstrap gives the covariance of least squares with any sign, and constants are drawn from
that normal distribution where it is not below 0 (Gibbs sampling of a truncated normal, Geweke 1991).
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import ndtr, ndtri

from twinlens.simulation.fit.least import TERMS, Fit, any_sign, mean_matched
from twinlens.simulation.work import Floats

_BOOTSTRAPS = 200
_SWEEPS_EACH = 10
_FAR = 5.0  # standard deviations below 0: from there the tail above 0 is an exponential


def plausible(fit: Fit, draws: int, rng: np.random.Generator) -> Floats:
    """Constants (draws, terms), each matched to the means of blocks drawn anew; NaN as `mean_matched` gives it."""
    samples = np.array([any_sign([each.drawn(rng) for each in fit.sums], fit.kept) for _ in range(_BOOTSTRAPS)])
    middle, size = any_sign(fit.sums, fit.kept), np.maximum(samples.std(axis=0), 1e-300)
    spread = np.cov(samples.T / size[:, None]).reshape(len(size), len(size)) + 1e-6 * np.eye(len(size))
    chain = _above_0(middle / size, np.asarray(np.linalg.inv(spread), dtype=float), draws, rng)
    constants = np.zeros((draws, len(TERMS)))
    constants[:, [TERMS.index(name) for name in fit.kept]] = chain * size
    is_asked = "before_s" in fit.kept
    return np.array(
        [mean_matched(each, [sums.drawn(rng) for sums in fit.sums], is_asked=is_asked) for each in constants]
    )


def _above_0(mean: Floats, precision: Floats, draws: int, rng: np.random.Generator) -> Floats:
    """Draws (draws, terms) of a normal distribution where no term is below 0."""
    at, kept = np.maximum(mean, 1e-3), np.empty((draws, len(mean)))
    own_sd = 1.0 / np.sqrt(np.diag(precision))
    for sweep in range(-20 * _SWEEPS_EACH, draws * _SWEEPS_EACH):
        for i, uniform in enumerate(rng.random(len(mean))):
            pull = float(precision[i] @ (at - mean)) - precision[i, i] * (at[i] - mean[i])
            at[i] = _one_above_0(mean[i] - pull * own_sd[i] ** 2, own_sd[i], uniform)
        if sweep >= 0 and sweep % _SWEEPS_EACH == 0:
            kept[sweep // _SWEEPS_EACH] = at
    return kept


def _one_above_0(mean: float, sd: float, uniform: float) -> float:
    if mean < -_FAR * sd:
        return -math.log1p(-uniform) * sd * sd / -mean
    below = float(ndtr(-mean / sd))
    return max(mean + sd * float(ndtri(below + uniform * (1.0 - below))), 0.0)
