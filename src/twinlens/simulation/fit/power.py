"""Power of an engine from runs that a counter measured: watts of waiting, joules of a step and of a token.

Between two moments a counter rises by what the engine draws anyway, by its steps and by their tokens; a run has many
such moments, in which the three differ. Without a counter nothing is said: no nameplate stands in for one.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.optimize import nnls

from twinlens.measurement.summary_file import summary_of
from twinlens.record.run import Run
from twinlens.simulation.fit.steps import EngineSteps
from twinlens.simulation.points.energy import Power, Powers
from twinlens.simulation.work import Floats
from twinlens.stats.metrics.energy import joules_between
from twinlens.stats.run_summary import energy_scope

BIN_S = 1.0
"""Ten periods of a board's counter."""
FEWEST_BINS = 30
_BLOCK = 4
_DRAWS = 100


def power_of(runs: Sequence[tuple[Run, EngineSteps]], seed: int = 0) -> Powers:
    """The power of the engine that these runs show, joined; where one of them does not, the reason."""
    parts = []
    for run, steps in runs:
        if run.sections.pairing:
            return Powers(absent=f"not measured: in {run.id} points took turns, and the counter counted all of them")
        summary = summary_of(run)
        known = summary.metrics.get("mean_power_w")
        if known is None or known.value is None:
            return Powers(absent=f"not measured: {known.reason if known and known.reason else 'no power was read'}")
        edges_s = np.arange(summary.verdict.begin_s, summary.verdict.end_s, BIN_S)
        enough = len(edges_s) > FEWEST_BINS
        joules = joules_between(run.telemetry, edges_s, energy_scope(run)) if enough else None
        if joules is None:
            return Powers(absent=f"not measured: {run.id} has no {FEWEST_BINS} s of readings of its counter")
        parts.append((work_between(steps, edges_s), joules))
    work, spent_j = (np.concatenate(each) for each in zip(*parts, strict=True))
    return fitted_power(work, spent_j, seed)


def work_between(steps: EngineSteps, edges_s: Floats) -> Floats:
    """Seconds, steps and tokens computed between each two moments; a step counts where it ends. Shape: (edges - 1, 3).

    Tokens of pieces of prompts count with their step as those of answers do.
    """
    place = np.searchsorted(steps.end_s, edges_s)
    tokens = np.concatenate([[0.0], np.cumsum(steps.rows + steps.tokens)])
    return np.column_stack([np.diff(edges_s), np.diff(place), np.diff(tokens[place])])


def fitted_power(work: Floats, spent_j: Floats, seed: int = 0) -> Powers:
    """Watts and joules by non-negative least squares, and draws of them from a bootstrap of blocks.

    `work`: (bins, 3) of `work_between`; `spent_j`: (bins,).
    """
    rng, blocks = np.random.default_rng(seed), len(spent_j) // _BLOCK
    draws = []
    for _ in range(_DRAWS):
        chosen = (rng.integers(0, blocks, blocks)[:, None] * _BLOCK + np.arange(_BLOCK)).ravel()
        draws.append(_power(work[chosen], spent_j[chosen]))
    return Powers(_power(work, spent_j), tuple(draws))


def _power(work: Floats, spent_j: Floats) -> Power:
    size = np.maximum(np.abs(work).max(axis=0), 1e-300)
    found, _ = nnls(work / size, spent_j)
    idle_w, step_j, token_j = map(float, found / size)
    return Power(idle_w, step_j, token_j, "fitted")
