"""Cases of training as arrays, and the model's answer to each."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from benchmarks.prediction.case import Case
from benchmarks.prediction.facts import labels, rates_of, shape_of, stored_of
from twinlens.planning.prediction import constant
from twinlens.planning.prediction.constant import values
from twinlens.planning.prediction.training import TrainingLayout, training_step
from twinlens.planning.prediction.work import stacked, work_of


class Training:
    """Cases of training. Rates are fitted and predicted as seconds per step, and told in the row's own unit."""

    priors, spread = constant.TRAINING, constant.TRAINING_SPREAD

    def __init__(self, cases: Sequence[Case]) -> None:
        self.cases = list(cases)
        self.measured = np.array([case.value for case in self.cases])
        self.groups = [labels(case) for case in self.cases]
        self.work = stacked([work_of(shape_of(case), stored_of(case)) for case in self.cases])
        self.rates = stacked([rates_of(case) for case in self.cases])
        self.layout = stacked([TrainingLayout(**case.layout) for case in self.cases])
        self.batch, self.length, self.micro = (
            np.array([getattr(case, name) for case in self.cases]) for name in ("batch", "prompt", "answer")
        )
        self.devices = np.array([case.devices for case in self.cases], dtype=float)
        self.is_rate = np.array([case.kind == "train-rate" for case in self.cases])

    def predict(self, logs: np.ndarray) -> np.ndarray:
        fitted = values(list(self.priors), logs)
        step = training_step(self.work, self.rates, self.layout, fitted, self.batch, self.micro, self.length).total_s
        return np.where(self.is_rate, self.batch * self.length / (step * self.devices), step)
