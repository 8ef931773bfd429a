"""Calibration on the user's own runs: a few constants moved, and the band narrowed as far as the runs allow."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import Any, Literal

import numpy as np

from twinlens.errors import BadInput
from twinlens.planning.prediction.answer import (
    Said,
    ServingAnswer,
    TrainingAnswer,
    serving_answer,
    serving_groups,
    training_answer,
    training_groups,
)
from twinlens.planning.prediction.band import FLOOR, LEVEL, Calibrated, shipped
from twinlens.planning.prediction.constant import SERVING, TRAINING, Array, Constants, Prior
from twinlens.planning.prediction.question import ServingQuestion, TrainingQuestion

_OWN = "own"
_NOISE = 0.06
Lens = Literal["serving", "training"]
Metric = Literal["tpot", "ttft", "step"]
PRIORS: Mapping[Lens, Mapping[str, Prior]] = {"serving": SERVING, "training": TRAINING}
MOVED: Mapping[Lens, tuple[str, ...]] = {
    "serving": ("eta_weights", "eta_cache", "eta_prefill", "step_s", "layer_s", "arrive_s", "burst"),
    "training": ("eta_train", "eta_train_experts", "touches", "launch_s", "train_step_s", "exposed_data",
                 "exposed_gather", "exposed_tensor"),
}  # fmt: skip
"""Constants that a handful of runs can tell apart; the others stay as they were fitted to public rows."""


@dataclass(frozen=True, slots=True)
class Observation:
    """One measured run: the question that it answers, and what was measured, in seconds: mean TPOT and TTFT, or a step
    of training."""

    question: ServingQuestion | TrainingQuestion
    tpot_s: float | None = None
    ttft_s: float | None = None
    step_s: float | None = None

    @property
    def lens(self) -> Lens:
        return "training" if isinstance(self.question, TrainingQuestion) else "serving"

    def measured(self) -> Iterator[tuple[Metric, float]]:
        """What it measured, in seconds."""
        own: tuple[tuple[Metric, float | None], ...] = (
            ("tpot", self.tpot_s), ("ttft", self.ttft_s), ("step", self.step_s),
        )  # fmt: skip
        yield from ((metric, seconds) for metric, seconds in own if seconds is not None)


_Row = tuple[ServingQuestion | TrainingQuestion, Metric, float]


def calibrated(runs: Sequence[Observation], known: Calibrated | None = None, *, today: date) -> Calibrated:
    """Constants of the runs' lens with factors of the user's own, and bands from the spread of these runs.

    A band from n points is Student's for one more, with one of n counted out; it is never wider than that of these runs
    before, and never narrower than identical systems differ. Raises BadInput without a measured time.
    """
    rows: list[_Row] = [(run.question, metric, seconds) for run in runs for metric, seconds in run.measured()]
    if not rows:
        raise BadInput("none of these runs measured a TPOT, a TTFT or a step; calibration needs one of them")
    lens = runs[0].lens
    known = known or shipped()[lens]
    names, free, groups = list(PRIORS[lens]), MOVED[lens], [_groups(question) for question, *_ in rows]
    usual, places = known.constants.logs(groups, names), [names.index(name) for name in free]

    def predict(logs: Array) -> Array:
        whole, answers, out = usual.copy(), dict[tuple[int, bytes], ServingAnswer | TrainingAnswer](), []
        whole[:, places] = logs
        for (question, metric, _), line in zip(rows, whole, strict=True):
            key = id(question), line.tobytes()
            if key not in answers:  # one answer has every time of a run
                alone = Constants(dict(zip(names, map(float, line), strict=True)), {})
                answers[key] = _answer(question, replace(known, constants=alone))
            out.append(_time(answers[key], metric).value)
        return np.array(out)

    held, measured = {name: PRIORS[lens][name] for name in free}, np.array([seconds for *_, seconds in rows])
    moved = fit(predict, measured, groups, held, spread={_OWN: 0.5}, noise=_NOISE, start=known.constants)
    own = {name: moved.factors[_OWN][name] + moved.base[name] - known.constants.base[name] for name in free}
    found = replace(known, constants=Constants(known.constants.base, {**known.constants.factors, _OWN: own}))
    ran = {
        "device": frozenset(run.question.device.name for run in runs),
        "engine": frozenset(run.question.engine for run in runs),
        "model": frozenset(run.question.model for run in runs),
    }
    many = "1 run" if len(runs) == 1 else f"{len(runs)} runs"
    return replace(
        found,
        bands={**known.bands, **_bands(lens, rows, known, found)},
        seen={kind: known.seen[kind] | names for kind, names in ran.items()},
        fitted_on=f"{many} of your own, on top of {known.fitted_on}",
        date=today.isoformat(),
        own=ran,
    )


def said(question: ServingQuestion | TrainingQuestion, metric: Metric, known: Calibrated) -> Said:
    """What constants say of a metric."""
    return _time(_answer(question, known), metric)


def _answer(question: ServingQuestion | TrainingQuestion, known: Calibrated) -> ServingAnswer | TrainingAnswer:
    if isinstance(question, TrainingQuestion):
        return training_answer(question, known)
    return serving_answer(question, known)


def _time(answer: ServingAnswer | TrainingAnswer, metric: Metric) -> Said:
    if isinstance(answer, TrainingAnswer):
        return answer.step_s
    return answer.tpot_s if metric == "tpot" else answer.ttft_s


def _groups(question: ServingQuestion | TrainingQuestion) -> tuple[str, ...]:
    return training_groups(question) if isinstance(question, TrainingQuestion) else serving_groups(question)


def _bands(
    lens: Lens, rows: Sequence[_Row], before: Calibrated, after: Calibrated
) -> Mapping[str, Mapping[str, float]]:
    """Bands of "seen" by metric, from the residuals of the user's runs; runs of one question are one point.

    One point tells no spread. Of serving it moves to the public band of what was seen, which held for others of the
    same server (tests/planning/test_capacity_here.py); training keeps the band that it had.
    """
    out: dict[str, dict[str, float]] = {}
    kinds = {(question.metric if isinstance(question, TrainingQuestion) else metric) for question, metric, _ in rows}
    for kind in sorted(kinds):
        points: dict[ServingQuestion | TrainingQuestion, list[float]] = {}
        ends = []
        for question, metric, seconds in rows:
            if kind != (question.metric if isinstance(question, TrainingQuestion) else metric):
                continue
            points.setdefault(question, []).append(math.log(said(question, metric, after).value / seconds))
            had = said(question, metric, before).band
            ends.append((had.low, had.high, had.rows))
        low, high, count = min(each[0] for each in ends), max(each[1] for each in ends), min(each[2] for each in ends)
        if len(points) > 1:
            reach = _reach([sum(each) / len(each) for each in points.values()], FLOOR[lens])
            low, high, count = max(math.exp(-reach), low), min(math.exp(reach), high), len(points)
        elif lens == "serving":
            continue
        out[f"{kind}: seen"] = {"low": low, "high": high, "rows": count}
    return out


def _reach(logs: Sequence[float], floor: float) -> float:
    """How far one more lies, as a logarithm: Student's t at `LEVEL`, at least the floor."""
    from scipy.stats import t as student

    free = len(logs) - 1
    spread = math.sqrt(sum(each * each for each in logs) / free)
    reach = float(student.ppf((1 + LEVEL) / 2, free)) * spread * math.sqrt(1 + 1 / len(logs))
    return max(reach, math.log1p(floor))


# Fit of constants: robust least squares on logarithms, with each factor held near 1 unless data move it.

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
        from scipy.sparse import coo_array

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
    from scipy.linalg import cho_factor, cho_solve

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
