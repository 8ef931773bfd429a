"""Fit of constants: robust least squares on logarithms, with each factor held near 1 unless data move it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.sparse import coo_array

from twinlens.planning.prediction.constant import Array, Constants, Prior

_STEP, _ROUNDS = 1e-3, 14


def fit(
    predict: Callable[[Array], Array],
    measured: Array,
    groups: Sequence[Sequence[str]],
    priors: Mapping[str, Prior],
    *,
    spread: Mapping[str, float],
    noise: float | Array = 0.12,
    weights: Array | None = None,
    start: Constants | None = None,
) -> Constants:
    """Constants under which `predict` comes nearest to `measured`, in logarithms.

    `predict` takes logarithms of the constants, one row per question, and gives one number per question; a question's
    answer depends on its own row only, so a derivative costs one call per constant and not one per parameter. `spread`:
    standard deviation of the logarithm of a group's factor, by the group's kind (what stands before ":"); a kind that
    is not named gets no factor. `noise`: relative error at which a residual begins to count as an outlier, one or one
    per question. `start`:
    constants in place of the priors' values; factors of groups are then those beyond `start`.
    """
    names = list(priors)
    known = sorted({label for row in groups for label in row if label.split(":")[0] in spread})
    where = {label: i for i, label in enumerate(known)}
    pairs = [(row, where[label]) for row, own in enumerate(groups) for label in own if label in where]
    rows, cols = (np.array(side, dtype=int) for side in (zip(*pairs, strict=True) if pairs else ((), ())))
    many, few = len(names), len(known)
    wide = np.array([prior.spread for prior in priors.values()])
    near = (
        np.outer([spread[label.split(":")[0]] for label in known], np.minimum(wide, 1.0))
        if few
        else np.zeros((0, many))
    )
    first = (
        start.logs(groups, names)
        if start
        else np.tile(np.log([prior.value for prior in priors.values()]), (len(groups), 1))
    )
    target = np.log(measured)
    scale = np.ones(len(target)) if weights is None else weights
    usual = np.broadcast_to(np.asarray(noise, dtype=float), target.shape)

    def logs(x: Array) -> Array:
        out = first + (x[:many] * wide)[None, :]
        np.add.at(out, rows, (x[many:].reshape(few, many) * near)[cols])
        return np.asarray(out)

    def loss(raw: Array, x: Array) -> float:
        return float(np.sum(scale**2 * 2.0 * (np.sqrt(1.0 + raw * raw) - 1.0)) + x @ x)

    def tangent(here: Array, at: Array) -> Any:
        """Derivatives of the logarithm of each answer by each parameter, sparse."""
        change = np.empty((len(target), many))
        for i in range(many):
            moved = here.copy()
            moved[:, i] += _STEP
            change[:, i] = (np.log(predict(moved)) - at) / _STEP
        own = np.arange(len(target))
        values = np.concatenate([(change * wide).ravel(), (change[rows] * near[cols]).ravel()])
        lines = np.concatenate([np.repeat(own, many), np.repeat(rows, many)])
        places = np.concatenate(
            [np.tile(np.arange(many), len(own)), (many + cols[:, None] * many + np.arange(many)).ravel()]
        )
        return coo_array((values, (lines, places)), shape=(len(target), many * (1 + few))).tocsr()

    x, damping = np.zeros(many * (1 + few)), 1.0
    at = np.log(predict(logs(x)))
    raw = (at - target) / usual
    cost = loss(raw, x)
    for _ in range(_ROUNDS):
        slope = tangent(logs(x), at).multiply(1.0 / usual[:, None]).tocsr()
        weight = scale**2 / np.sqrt(1.0 + raw * raw)
        normal = (slope.T @ (slope * weight[:, None]).tocsr()).toarray()
        gradient = slope.T @ (weight * raw) + x
        before = cost
        for _ in range(6):
            matrix = normal + (1.0 + damping) * np.eye(len(x))
            step = -cho_solve(cho_factor(matrix, check_finite=False), gradient, check_finite=False)
            tried = np.log(predict(logs(x + step)))
            tried_raw = (tried - target) / usual
            if (new := loss(tried_raw, x + step)) < cost:
                x, at, raw, cost, damping = x + step, tried, tried_raw, new, damping / 4.0
                break
            damping *= 6.0
        if before - cost < 2e-4 * before:
            break
    factors = x[many:].reshape(few, many) * near
    base = (
        np.log([prior.value for prior in priors.values()])
        if start is None
        else np.array([start.base[name] for name in names])
    )
    return Constants(
        {name: float(base[i] + x[i] * wide[i]) for i, name in enumerate(names)},
        {label: {name: float(factors[j, i]) for i, name in enumerate(names)} for label, j in where.items()},
    )
