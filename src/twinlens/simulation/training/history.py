"""A training run over time: steps, evaluations, saves, and failures that throw it back to the last save.

Failures are without memory and of the whole job. Not modelled: failures during the start, saves that are lost before
they are durable, spare nodes, steps that take another time when they are done again.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from twinlens.errors import BadInput
from twinlens.simulation.work import Floats, Ints
from twinlens.stats.wall_time import PARTS

MOST_FAILURES = 1_000_000
"""Failures that are expected before a run is said never to end."""


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """One run as it will go but for failures. `step_s`, `data_s` [steps]: seconds of each step, waiting for data left
    out, and of that waiting.

    `save_every`, `evaluate_every`: steps between two; 0 for none. A save blocks the step that it follows for `save_s`,
    the last one too. `failure_s`: mean time between failures, infinite for none; `restart_s`: from a failure until
    training goes on, in which the next may fall.
    """

    step_s: Floats
    data_s: Floats
    save_every: int = 0
    save_s: float = 0.0
    evaluate_every: int = 0
    evaluate_s: float = 0.0
    failure_s: float = float("inf")
    restart_s: float = 0.0
    startup_s: float = 0.0


@dataclass(frozen=True, slots=True, eq=False)
class History:
    """A run that has gone. Rows [n] are steps and evaluations, each as it is when it is done; stretches [k] of them end
    with a save, and failures [f], in the order of time, each end an attempt at a stretch.

    `is_step`, `row_s`: of each row, its waiting for data and its save in it. `first` [k + 1]: the first row of each
    stretch. `stretch`: that of each failure; `lost_s`: from the beginning of the attempt to the failure; `done`: rows
    that the attempt had finished; `down_s`: from the failure until training goes on.
    """

    plan: Plan
    is_step: np.ndarray
    row_s: Floats
    first: Ints
    stretch: Ints
    lost_s: Floats
    done: Ints
    down_s: Floats

    @property
    def parts_s(self) -> dict[str, float]:
        """Seconds by part, as `stats/wall_time.py` takes them from rows; they add up to `wall_s`."""
        plan, at = self.plan, self.first[self.stretch]
        steps_s = np.concatenate([[0.0], np.cumsum(np.where(self.is_step, self.row_s, 0.0))])
        looks_s = np.concatenate([[0.0], np.cumsum(np.where(self.is_step, 0.0, self.row_s))])
        repeat_s = float((steps_s[at + self.done] - steps_s[at]).sum())
        looked_s = float((looks_s[at + self.done] - looks_s[at]).sum())
        saves = len(self.first) - 1 if plan.save_every else 0
        parts = dict.fromkeys(PARTS, 0.0)
        return parts | {
            "useful": float(plan.step_s.sum()), "startup": plan.startup_s, "data": float(plan.data_s.sum()),
            "checkpoint": saves * plan.save_s, "restart": float(self.down_s.sum()), "repeat": repeat_s,
            "evaluation": float(looks_s[-1]) + looked_s, "other": float(self.lost_s.sum()) - repeat_s - looked_s,
        }  # fmt: skip

    @property
    def wall_s(self) -> float:
        return sum(self.parts_s.values())

    @property
    def productive_fraction(self) -> float:
        """The share of wall time in steps that were kept, without waiting for data and saves."""
        parts = self.parts_s
        return parts["useful"] / sum(parts.values())


def history(plan: Plan, random: np.random.Generator) -> History:
    """A run to its last step. Raises BadInput for what is no run, and for one that failures keep from ending."""
    _check(plan)
    steps = np.arange(len(plan.step_s))
    looks = (steps > 0) & (steps % plan.evaluate_every == 0) if plan.evaluate_every else np.zeros(len(steps), bool)
    place = steps + np.cumsum(looks)
    is_step = np.zeros(len(steps) + int(looks.sum()), bool)
    is_step[place] = True
    row_s = np.full(len(is_step), float(plan.evaluate_s))
    row_s[place] = plan.step_s + plan.data_s
    lasts = np.append(steps[plan.save_every - 1 :: plan.save_every] if plan.save_every else [], steps[-1:])
    first = np.concatenate([[0], place[np.unique(lasts).astype(np.int64)] + 1])
    if plan.save_every:
        row_s[first[1:] - 1] += plan.save_s
    stretch, lost_s, down_s = _failures(plan, np.add.reduceat(row_s, first[:-1]), random)
    ends_s = np.cumsum(row_s)
    begins_s = (ends_s - row_s)[first[:-1]]
    done = np.searchsorted(ends_s, begins_s[stretch] + lost_s, side="right") - first[stretch]
    done = np.clip(done, 0, first[stretch + 1] - first[stretch] - 1)
    row_s[first[1:] - 1] -= plan.save_s if plan.save_every else 0.0
    return History(plan, is_step, row_s, first, stretch, lost_s, done, down_s)


def _failures(plan: Plan, stretch_s: Floats, random: np.random.Generator) -> tuple[Ints, Floats, Floats]:
    """The stretch of each failure, how far into it, and how long it takes to go on; failures have no memory."""
    if plan.failure_s == np.inf:
        return np.zeros(0, np.int64), np.zeros(0), np.zeros(0)
    with np.errstate(over="ignore"):
        expected = float(np.expm1(stretch_s / plan.failure_s).sum() * np.exp(plan.restart_s / plan.failure_s))
    if expected > MOST_FAILURES:
        raise BadInput(
            f"with a failure every {plan.failure_s:.4g} s a run that saves every {stretch_s.max():.4g} s and restarts "
            f"in {plan.restart_s:.4g} s does not end; save more often, or take fewer devices"
        )
    stretch = np.repeat(np.arange(len(stretch_s)), random.geometric(np.exp(-stretch_s / plan.failure_s)) - 1)
    lost_s = _cut_off(stretch_s[stretch], plan.failure_s, random)
    again = random.geometric(np.exp(-plan.restart_s / plan.failure_s), len(stretch)) - 1
    of = np.repeat(np.arange(len(stretch)), again)
    more_s = np.bincount(of, _cut_off(np.full(len(of), plan.restart_s), plan.failure_s, random), len(stretch))
    return stretch, lost_s, np.asarray(plan.restart_s + more_s, np.float64)


def _cut_off(within_s: Floats, failure_s: float, random: np.random.Generator) -> Floats:
    """Times to a failure that are known to be shorter than `within_s` [n]."""
    return np.asarray(-failure_s * np.log1p(random.random(len(within_s)) * np.expm1(-within_s / failure_s)), np.float64)


def _check(plan: Plan) -> None:
    if not len(plan.step_s) or len(plan.step_s) != len(plan.data_s):
        raise BadInput("a training run has a step, and for each step the seconds that it waits for data")
    if not (np.isfinite(plan.step_s).all() and plan.step_s.min() > 0):
        raise BadInput("a step takes seconds above 0")
    if not (np.isfinite(plan.data_s).all() and plan.data_s.min() >= 0):
        raise BadInput("a step waits for data for seconds of 0 or more")
    for name in ("save_every", "save_s", "evaluate_every", "evaluate_s", "restart_s", "startup_s"):
        if not 0 <= getattr(plan, name) < np.inf:
            raise BadInput(f"{name} must be finite and not negative, not {getattr(plan, name)}")
    if not plan.failure_s > 0:
        raise BadInput(f"failure_s, the mean time between failures, must be above 0, not {plan.failure_s}")
