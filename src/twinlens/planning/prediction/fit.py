"""Fit of constants: robust least squares on logarithms, with each factor held near 1 unless data move it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.sparse import coo_array

from twinlens.planning.prediction.constant import Array, Constants, Prior

_STEP = 1e-3
"""Change of a logarithm from which a derivative is taken."""
_ROUNDS, _TRIES = 14, 6
_SETTLED = 2e-4
"""Relative gain of a round below which the fit has settled."""
Places = np.ndarray[Any, np.dtype[np.int_]]
Predict = Callable[[Array], Array]


def fit(
    predict: Predict,
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
    per question. `start`: constants in place of the priors' values; factors of groups are then those beyond `start`.
    """
    unknowns = _unknowns(groups, priors, spread, start)
    target = np.log(measured)
    rows = _Rows(
        predict, target, np.broadcast_to(np.asarray(noise, dtype=float), target.shape),
        np.ones(len(target)) if weights is None else weights,
    )  # fmt: skip
    return unknowns.constants(_least(unknowns, rows))


@dataclass(frozen=True, slots=True)
class _Unknowns:
    """Parameters of a fit, each in units of its spread: the constants, then a factor of each group on each constant."""

    names: tuple[str, ...]
    labels: tuple[str, ...]
    """Groups that have factors."""
    row: Places
    column: Places
    """Pairs of a question and the place of one of its groups in `labels`."""
    wide: Array
    """Spread of each constant."""
    near: Array
    """Spread of each factor: labels × names."""
    first: Array
    """Logarithms at 0: questions × names."""
    base: Array

    @property
    def count(self) -> int:
        return len(self.names) * (1 + len(self.labels))

    def factors(self, x: Array) -> Array:
        """Logarithms of factors, labels × names."""
        return np.asarray(x[len(self.names) :].reshape(len(self.labels), len(self.names)) * self.near)

    def logs(self, x: Array) -> Array:
        """Logarithms of the constants of each question."""
        out = self.first + (x[: len(self.names)] * self.wide)[None, :]
        np.add.at(out, self.row, self.factors(x)[self.column])
        return np.asarray(out)

    def by_parameter(self, change: Array) -> Any:
        """Derivatives by constant (questions × names) as derivatives by parameter, sparse."""
        many, own = len(self.names), np.arange(len(change))
        values = np.concatenate([(change * self.wide).ravel(), (change[self.row] * self.near[self.column]).ravel()])
        lines = np.concatenate([np.repeat(own, many), np.repeat(self.row, many)])
        of_groups = many + self.column[:, None] * many + np.arange(many)
        places = np.concatenate([np.tile(np.arange(many), len(own)), of_groups.ravel()])
        return coo_array((values, (lines, places)), shape=(len(own), self.count)).tocsr()

    def constants(self, x: Array) -> Constants:
        factors = self.factors(x)
        return Constants(
            {name: float(self.base[i] + x[i] * self.wide[i]) for i, name in enumerate(self.names)},
            {
                label: {name: float(factors[j, i]) for i, name in enumerate(self.names)}
                for j, label in enumerate(self.labels)
            },
        )


def _unknowns(
    groups: Sequence[Sequence[str]], priors: Mapping[str, Prior], spread: Mapping[str, float], start: Constants | None
) -> _Unknowns:
    names = tuple(priors)
    labels = tuple(sorted({label for row in groups for label in row if label.split(":")[0] in spread}))
    place = {label: i for i, label in enumerate(labels)}
    pairs = [(row, place[label]) for row, own in enumerate(groups) for label in own if label in place]
    wide = np.array([prior.spread for prior in priors.values()])
    of_kind = np.array([spread[label.split(":")[0]] for label in labels])
    usual = np.log([prior.value for prior in priors.values()])
    return _Unknowns(
        names, labels,
        np.array([row for row, _ in pairs], dtype=int), np.array([column for _, column in pairs], dtype=int),
        wide, np.outer(of_kind, np.minimum(wide, 1.0)),
        np.tile(usual, (len(groups), 1)) if start is None else start.logs(groups, names),
        usual if start is None else np.array([start.base[name] for name in names]),
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Rows:
    """Questions with what was measured (as a logarithm), its noise and its weight."""

    predict: Predict
    target: Array
    noise: Array
    weight: Array

    def residuals(self, answers: Array) -> Array:
        """In units of noise. `answers`: logarithms."""
        return np.asarray((answers - self.target) / self.noise)

    def loss(self, residuals: Array) -> float:
        """Pseudo-Huber: squares of small residuals, absolute values of large ones."""
        return float(np.sum(self.weight**2 * 2.0 * (np.sqrt(1.0 + residuals * residuals) - 1.0)))

    def slopes(self, here: Array, at: Array) -> Array:
        """Derivatives of the logarithm of each answer by the logarithm of each constant, around `here`."""
        change = np.empty(here.shape)
        for i in range(here.shape[1]):
            moved = here.copy()
            moved[:, i] += _STEP
            change[:, i] = (np.log(self.predict(moved)) - at) / _STEP
        return change


def _least(unknowns: _Unknowns, rows: _Rows) -> Array:
    """Parameters of the least loss: Levenberg-Marquardt, with the residuals reweighted in each round."""
    x, damping = np.zeros(unknowns.count), 1.0
    at = np.log(rows.predict(unknowns.logs(x)))
    raw = rows.residuals(at)
    cost = rows.loss(raw)
    for _ in range(_ROUNDS):
        slope = unknowns.by_parameter(rows.slopes(unknowns.logs(x), at)).multiply(1.0 / rows.noise[:, None]).tocsr()
        weight = rows.weight**2 / np.sqrt(1.0 + raw * raw)
        normal = (slope.T @ (slope * weight[:, None]).tocsr()).toarray()
        gradient = slope.T @ (weight * raw) + x
        before = cost
        for _ in range(_TRIES):
            matrix = normal + (1.0 + damping) * np.eye(len(x))
            tried = x - cho_solve(cho_factor(matrix, check_finite=False), gradient, check_finite=False)
            answers = np.log(rows.predict(unknowns.logs(tried)))
            tried_raw = rows.residuals(answers)
            if (new := rows.loss(tried_raw) + float(tried @ tried)) < cost:
                x, at, raw, cost, damping = tried, answers, tried_raw, new, damping / 4.0
                break
            damping *= 6.0
        if before - cost < _SETTLED * before:
            break
    return x
