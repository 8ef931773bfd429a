"""Predictions of rows by constants that have not seen them, with bands from the other rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.prediction.case import Case
from benchmarks.prediction.facts import TRAINING_KINDS, shape_of
from benchmarks.prediction.fitted import answers
from benchmarks.prediction.folds import SPLITS, left_out
from benchmarks.prediction.layouts import GROUPS, layout_name
from benchmarks.prediction.serving import Serving
from benchmarks.prediction.training import Training
from twinlens.planning.prediction.band import FLOOR, Calibrated, bands, factors, kinds_of, of_groups


@dataclass(frozen=True, slots=True)
class Predicted:
    """Predictions of cases with their bands; nan where a band is not known."""

    cases: list[Case]
    value: np.ndarray
    low: np.ndarray
    high: np.ndarray
    how: str

    def where(self, mask: np.ndarray) -> Predicted:
        chosen = [case for case, keep in zip(self.cases, mask, strict=True) if keep]
        return Predicted(chosen, self.value[mask], self.low[mask], self.high[mask], self.how)

    @property
    def measured(self) -> np.ndarray:
        return np.array([case.value for case in self.cases])


def metric_of(case: Case) -> str:
    """The metric that a band is for: training apart for dense models and mixtures of experts."""
    if case.kind in TRAINING_KINDS:
        return "training step of experts" if shape_of(case).experts else "training step"
    return case.kind


def lens_of(case: Case) -> str:
    return "training" if case.kind in TRAINING_KINDS else "serving"


def by_shipped(cases: Sequence[Case], known: Calibrated) -> Predicted:
    """Predictions by the constants that come with Twinlens."""
    make = Training if lens_of(cases[0]) == "training" else Serving
    value = answers(make(cases), known.constants)
    low, high = np.full(len(cases), np.nan), np.full(len(cases), np.nan)
    for i, case in enumerate(cases):
        try:
            named = {"device": case.card.name, "engine": case.engine, "model": case.model}
            band = known.band(metric_of(case), **named, groups=layout_name(case) == GROUPS)
        except KeyError:
            continue
        low[i], high[i] = value[i] * band.low, value[i] * band.high
    return Predicted(list(cases), value, low, high, "shipped constants")


def by_folds(cases: Sequence[Case], split: str) -> Predicted:
    """Predictions of each case without its device, model or engine; bands from the residuals of the other groups."""
    make = Training if lens_of(cases[0]) == "training" else Serving
    value = left_out(make, cases, split)
    measured = np.array([case.value for case in cases])
    logs = np.log(value / measured)
    keys = np.array([str(SPLITS[split](case)) for case in cases])
    metrics = np.array([metric_of(case) for case in cases])
    grouped = np.array([layout_name(case) == GROUPS for case in cases])
    low, high = np.full(len(cases), np.nan), np.full(len(cases), np.nan)
    floor = FLOOR[lens_of(cases[0])]
    for metric in set(metrics):
        for key in set(keys[metrics == metric]):
            mine = (metrics == metric) & (keys == key)
            others = (metrics == metric) & (keys != key) & np.isfinite(logs)
            if others.sum() < 40:
                continue
            least, most = factors(
                [float(each) for each in logs[others]], floor, groups=[str(each) for each in keys[others]]
            )
            low[mine], high[mine] = value[mine] * least, value[mine] * most
            near = grouped & (metrics == metric) & (keys != key) & np.isfinite(logs)
            if near.sum() >= 20:  # as `Calibrated.band`: no narrower than that of such rows alone
                least, most = factors(
                    [float(each) for each in logs[near]], floor, groups=[str(each) for each in keys[near]]
                )
                own = mine & grouped
                low[own], high[own] = np.minimum(low[own], value[own] * least), np.maximum(high[own], value[own] * most)
    return Predicted(list(cases), value, low, high, f"without its {split}")


def band_table(folds: dict[str, Predicted]) -> dict[str, dict[str, float]]:
    """Bands by metric and by what was unseen, from left-out residuals."""
    logs: list[float] = []
    kinds: list[tuple[str, ...]] = []
    floor: list[float] = []
    groups: list[str] = []
    for split, said in folds.items():
        unseen = {"device": split != "device", "engine": split != "engine", "model": split != "model"}
        for case, value in zip(said.cases, said.value, strict=True):
            if not np.isfinite(value):
                continue
            metric = metric_of(case)
            own = kinds_of(metric, **unseen)[0]
            logs.append(float(np.log(value / case.value)))
            near = (of_groups(metric),) if layout_name(case) == GROUPS else ()
            kinds.append((own, metric) if split != "model on a device" else (f"{metric}: seen", *near))
            floor.append(FLOOR[lens_of(case)])
            groups.append(f"{split} {SPLITS[split](case)}")
    return bands(logs, kinds, floor, groups=groups)
