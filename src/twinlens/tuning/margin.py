"""Margins of a candidate to the constraints of a bound, by all that it did so far; its loss beside the default's."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from twinlens.measurement.summary_file import summary_of
from twinlens.record.estimate import Estimate
from twinlens.record.run import Run
from twinlens.spec.tune import Constraint, Tune
from twinlens.stats.summary.group import Group, group
from twinlens.tuning.ledger import Margin

LOSS = "loss"
"""The constraint of every tuning of training: the loss stays within `tune.loss_within` of the default's."""
GATE = "fidelity"
"""The constraint of every tuning of precisions: the quality check of each run passes."""
_FEWEST_STEPS = 8


def margins_of(tune: Tune, runs: Sequence[Run], default: Sequence[Run]) -> tuple[Margin, ...]:
    """The margins of a candidate's runs. `default`: those of the default. None of a candidate that has no rows yet."""
    if not runs:
        return ()
    grouped = next(iter(group([summary_of(run) for run in runs])), None)
    found = [] if grouped is None else [_margin(each, grouped) for each in tune.constraints]
    if grouped is not None and tune.tier in ("precision", "open"):
        found += _gates(grouped)
    if runs[-1].lens == "training" and default and runs[-1].folder != default[-1].folder:
        found += _loss(runs[-1], default[-1], tune.loss_within)
    return tuple(found)


def _margin(constraint: Constraint, grouped: Group) -> Margin:
    estimate = grouped.metrics.get(constraint.metric) or Estimate.absent("", "these runs do not have it")
    value = estimate.value
    keeps = None if value is None else constraint.keeps(value)
    return Margin(constraint.metric, constraint.limit, value, estimate.low, estimate.high, keeps, estimate.lacks or "")


def _gates(grouped: Group) -> list[Margin]:
    gates = [run.gate for run in grouped.runs if run.gate is not None]
    if not gates:
        return []
    passed = sum(gate.go for gate in gates)
    return [Margin(GATE, 1.0, passed / len(gates), None, None, passed == len(gates))]


def _loss(run: Run, default: Run, within: float) -> list[Margin]:
    """The relative difference of the mean loss over the later half of the steps that both runs took."""
    mine, theirs = _losses(run), _losses(default)
    steps = min(mine.size, theirs.size)
    if steps < _FEWEST_STEPS:
        return [Margin(LOSS, within, None, None, None, None, f"{steps} steps of both, fewer than {_FEWEST_STEPS}")]
    later = slice(steps // 2, steps)
    base = float(theirs[later].mean())
    change = abs(float(mine[later].mean()) - base) / max(abs(base), 1e-12)
    return [Margin(LOSS, within, change, None, None, change <= within)]


def _losses(run: Run) -> np.ndarray:
    losses = np.asarray(run.steps.loss[run.steps.kind == "step"], dtype=np.float64)
    return losses[np.isfinite(losses)]
