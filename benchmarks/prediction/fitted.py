"""Constants fitted to cases, and predictions of cases by constants."""

from __future__ import annotations

import numpy as np

from benchmarks.prediction.facts import noise_of
from benchmarks.prediction.serving import Serving
from benchmarks.prediction.training import Training
from twinlens.planning.prediction.calibrate import fit
from twinlens.planning.prediction.constant import Constants


def fitted(questions: Serving | Training, weights: np.ndarray | None = None) -> Constants:
    """Constants fitted to the measured values of these questions."""
    return fit(
        questions.predict,
        questions.measured,
        questions.groups,
        questions.priors,
        spread=questions.spread,
        noise=np.array([noise_of(case) for case in questions.cases]),
        weights=weights,
    )


def answers(questions: Serving | Training, constants: Constants) -> np.ndarray:
    """Predicted values, in the units of the rows."""
    return questions.predict(constants.logs(questions.groups, list(questions.priors)))
