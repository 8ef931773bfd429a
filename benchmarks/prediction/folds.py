"""Leave-out folds: fit on all cases but those of some devices, models or engines, and predict these."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np

from benchmarks.prediction.case import Case
from benchmarks.prediction.fitted import answers, fitted
from benchmarks.prediction.serving import Serving
from benchmarks.prediction.training import Training

_FOLDS, _MOST = 6, 1000
SPLITS: dict[str, Callable[[Case], object]] = {
    "device": lambda case: case.card.name,
    "model": lambda case: case.model,
    "engine": lambda case: case.engine,
    "model on a device": lambda case: (case.model, case.card.name),
}


def balance(cases: Sequence[Case]) -> np.ndarray:
    """Weights under which a group of hundreds of like rows counts as thirty would."""
    keys = [(c.file, c.kind, c.engine, c.model, c.card.name, c.precision) for c in cases]
    many = Counter(keys)
    return np.array([min(1.0, (30.0 / many[key])) ** 0.5 for key in keys])


def left_out(make: type[Serving] | type[Training], cases: Sequence[Case], split: str) -> np.ndarray:
    """Predicted value of each case by constants that were fitted without its group. Seeded."""
    key, rng = SPLITS[split], np.random.default_rng(12)
    groups = sorted({str(key(case)) for case in cases})
    rng.shuffle(groups)
    place = {group: i % _FOLDS for i, group in enumerate(groups)}
    fold = np.array([place[str(key(case))] for case in cases])
    out = np.full(len(cases), np.nan)
    weights = balance(cases)
    for number in range(_FOLDS):
        train, test = np.flatnonzero(fold != number), np.flatnonzero(fold == number)
        if not len(test) or not len(train):
            continue
        if len(train) > _MOST:
            train = rng.choice(train, _MOST, replace=False, p=weights[train] ** 2 / np.sum(weights[train] ** 2))
        part = [cases[i] for i in train]
        constants = fitted(make(part), balance(part))
        out[test] = answers(make([cases[i] for i in test]), constants)
    return out
