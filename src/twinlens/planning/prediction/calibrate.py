"""Calibration on the user's own runs: a few constants moved, and the band narrowed as far as the runs allow."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date

import numpy as np
from scipy.stats import t as student

from twinlens.errors import BadInput
from twinlens.planning.prediction.answer import serving_answer, serving_groups
from twinlens.planning.prediction.band import FLOOR, LEVEL
from twinlens.planning.prediction.constant import Array, Constants
from twinlens.planning.prediction.fit import fit
from twinlens.planning.prediction.prior import SERVING
from twinlens.planning.prediction.question import ServingQuestion
from twinlens.planning.prediction.shipped import Calibrated, shipped

_OWN = "own"
_MOVED = ("eta_weights", "eta_cache", "eta_prefill", "step_s", "layer_s", "arrive_s", "burst")
"""Constants that a handful of runs can tell apart; the others stay as they were fitted to public rows."""
_NOISE = 0.06


@dataclass(frozen=True, slots=True)
class Observation:
    """One measured run: the question that it answers, and its mean TPOT and TTFT in seconds, where measured."""

    question: ServingQuestion
    tpot_s: float | None = None
    ttft_s: float | None = None


def calibrated(runs: Sequence[Observation], known: Calibrated | None = None, *, today: date) -> Calibrated:
    """Serving constants with factors of the user's own, and bands from the spread of these runs.

    A band from n runs is Student's for one more run, with a residual for each constant that could have moved counted
    out; it is never wider than the public one and never narrower than identical systems differ. Raises BadInput without
    a measured latency.
    """
    known = known or shipped()["serving"]
    rows = [(run, metric) for run in runs for metric in ("tpot", "ttft") if _measured(run, metric) is not None]
    if not rows:
        raise BadInput("none of these runs measured a TPOT or a TTFT; calibration needs runs of inference under load")
    measured = np.array([_measured(run, metric) for run, metric in rows], dtype=float)
    names = list(SERVING)

    def predict(logs: Array) -> Array:
        out = []
        for (run, metric), line in zip(rows, logs, strict=True):
            alone = Constants(dict(zip(names, map(float, line), strict=True)), {})
            said = serving_answer(run.question, replace(known, constants=alone))
            out.append((said.tpot_s if metric == "tpot" else said.ttft_s).value)
        return np.array(out)

    groups = [serving_groups(run.question) for run, _ in rows]
    held = {name: replace(each, spread=each.spread if name in _MOVED else 1e-3) for name, each in SERVING.items()}
    moved = fit(predict, measured, groups, held, spread={_OWN: 0.5}, noise=_NOISE, start=known.constants)
    base = dict(moved.base)
    factors = {**known.constants.factors, _OWN: moved.factors[_OWN]}
    shifted = {name: base[name] - known.constants.base[name] for name in names}
    factors[_OWN] = {name: factors[_OWN][name] + shifted[name] for name in names}
    constants = Constants(known.constants.base, factors)
    found = replace(known, constants=constants)
    bands = {**known.bands, **_bands(rows, found)}
    seen = {
        "device": known.seen["device"] | {run.question.device.name for run in runs},
        "engine": known.seen["engine"] | {run.question.engine for run in runs},
        "model": known.seen["model"] | {run.question.model for run in runs},
    }
    text = f"{len(runs)} runs of your own, on top of {known.fitted_on}"
    return replace(found, bands=bands, seen=seen, fitted_on=text, date=today.isoformat())


def _measured(run: Observation, metric: str) -> float | None:
    return run.tpot_s if metric == "tpot" else run.ttft_s


def _bands(rows: Sequence[tuple[Observation, str]], known: Calibrated) -> Mapping[str, Mapping[str, float]]:
    """Bands of "seen" by metric, from the residuals of the user's runs; none from a single run."""
    out: dict[str, dict[str, float]] = {}
    for metric in ("tpot", "ttft"):
        logs = []
        for run, own in rows:
            if own == metric:
                said = serving_answer(run.question, known)
                value = (said.tpot_s if metric == "tpot" else said.ttft_s).value
                logs.append(math.log(value / float(_measured(run, metric) or math.nan)))
        if len(logs) < 2:
            continue
        free = max(len(logs) - 1, 1)
        spread = math.sqrt(sum(each * each for each in logs) / free)
        reach = float(student.ppf((1 + LEVEL) / 2, free)) * spread * math.sqrt(1 + 1 / len(logs))
        reach = max(reach, math.log1p(FLOOR["serving"]))
        public = known.bands.get(f"{metric}: seen", {"low": 0.0, "high": math.inf})
        low, high = max(math.exp(-reach), public["low"]), min(math.exp(reach), public["high"])
        out[f"{metric}: seen"] = {"low": low, "high": high, "rows": len(logs)}
    return out
