"""Saves of training: the best time between two, and the share of wall time in work that is kept.

Young (1974, CACM 17 (9)) and Daly (2006, FGCS 22 (3)). `save_s`: what one save costs training; `failure_s`: the mean
time between failures of the whole job, without memory; `restart_s`: from a failure until training goes on. Scalars, or
arrays of float64.
"""

from __future__ import annotations

import numpy as np

from twinlens.theory.number import Number, amount, choose, rate


def young(save_s: Number, failure_s: Number) -> Number:
    """√(2 δ M), of first order: for intervals far below the time between failures."""
    return np.sqrt(2 * rate("save_s", save_s) * rate("failure_s", failure_s))


def daly(save_s: Number, failure_s: Number) -> Number:
    """Daly's higher order: √(2 δ M) (1 + √(δ/2M)/3 + (δ/2M)/9) − δ, and M from δ = 2 M on. Work between two saves,
    the save left out."""
    save, failure = rate("save_s", save_s), rate("failure_s", failure_s)
    part = save / (2 * failure)
    return choose(part < 1, young(save, failure) * (1 + np.sqrt(part) / 3 + part / 9) - save, failure)


def goodput(interval_s: Number, save_s: Number, restart_s: Number, failure_s: Number) -> Number:
    """The share of wall time in work that is kept, by Daly's complete model: τ / (M e^(R/M) (e^((τ+δ)/M) − 1))."""
    interval, failure = rate("interval_s", interval_s), rate("failure_s", failure_s)
    spent = np.expm1((interval + amount("save_s", save_s)) / failure)
    return interval / (failure * np.exp(amount("restart_s", restart_s) / failure) * spent)
