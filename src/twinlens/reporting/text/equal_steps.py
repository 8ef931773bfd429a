"""Losses at equal steps: of points that took turns, after as many steps as the slowest of them took."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from twinlens.record.run import Run
from twinlens.spec.workload.workload import TrainingWorkload
from twinlens.stats.metrics.training import loss_after

if TYPE_CHECKING:  # a view is made with it
    from twinlens.reporting.view import Material

_LEAST = 5


def at_equal_steps(material: Sequence[Material]) -> tuple[Material, ...]:
    """The same runs, the final loss of those that took turns at one workload taken after equally many steps.

    Points that take turns for equal times take different numbers of steps, and the faster one would look the better
    learner. Runs with held-out looks keep theirs, and so do those of less than five steps, or that diverged.
    """
    counts: dict[str, list[int]] = {}
    for run, _ in material:
        if _is_meant(run):
            counts.setdefault(_workload(run), []).append(int((run.steps.kind == "step").sum()))
    least = {workload: min(steps) for workload, steps in counts.items() if len(set(steps)) > 1}
    return tuple(
        (run, replace(summary, metrics=summary.metrics | {"final_loss": loss_after(run.steps, least[_workload(run)])}))
        if _is_meant(run) and least.get(_workload(run), 0) >= _LEAST
        else (run, summary)
        for run, summary in material
    )


def _is_meant(run: Run) -> bool:
    if not isinstance(run.spec.workload, TrainingWorkload) or not run.is_finished or not run.sections.pairing:
        return False
    looks = (run.steps.kind == "evaluate").any()
    return not looks and bool(np.isfinite(run.steps.loss).any()) and not np.isinf(run.steps.loss).any()


def _workload(run: Run) -> str:
    return f"{run.spec.name} {run.spec.workload.model_dump_json()}"
