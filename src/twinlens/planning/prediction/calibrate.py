"""Calibration on the user's own runs: a few constants moved, and the band narrowed as far as the runs allow."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import Literal

import numpy as np
from scipy.stats import t as student

from twinlens.errors import BadInput
from twinlens.planning.prediction.answer import Said, serving_answer, serving_groups, training_answer, training_groups
from twinlens.planning.prediction.band import FLOOR, LEVEL
from twinlens.planning.prediction.constant import Array, Constants, Prior
from twinlens.planning.prediction.fit import fit
from twinlens.planning.prediction.prior import SERVING, TRAINING
from twinlens.planning.prediction.question import ServingQuestion, TrainingQuestion
from twinlens.planning.prediction.shipped import Calibrated, shipped

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
    names, priors = list(PRIORS[lens]), PRIORS[lens]

    def predict(logs: Array) -> Array:
        out = []
        for (question, metric, _), line in zip(rows, logs, strict=True):
            alone = Constants(dict(zip(names, map(float, line), strict=True)), {})
            out.append(said(question, metric, replace(known, constants=alone)).value)
        return np.array(out)

    held = {name: replace(each, spread=each.spread if name in MOVED[lens] else 1e-3) for name, each in priors.items()}
    groups, measured = [_groups(question) for question, *_ in rows], np.array([seconds for *_, seconds in rows])
    moved = fit(predict, measured, groups, held, spread={_OWN: 0.5}, noise=_NOISE, start=known.constants)
    own = {name: moved.factors[_OWN][name] + moved.base[name] - known.constants.base[name] for name in names}
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
    if isinstance(question, TrainingQuestion):
        return training_answer(question, known).step_s
    answer = serving_answer(question, known)
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
    free = len(logs) - 1
    spread = math.sqrt(sum(each * each for each in logs) / free)
    reach = float(student.ppf((1 + LEVEL) / 2, free)) * spread * math.sqrt(1 + 1 / len(logs))
    return max(reach, math.log1p(floor))
