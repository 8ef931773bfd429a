"""A simulated training run as a run folder: rows, saves and start as measured ones have, and the course behind them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import numpy as np

from twinlens.record.run import Run
from twinlens.record.sections import Checkpoints, Simulated
from twinlens.simulation.points.run_folder import write_run
from twinlens.simulation.training.course import Course, drawn
from twinlens.simulation.training.history import history
from twinlens.simulation.training.rows import NOT_MODELLED, Step, rows
from twinlens.simulation.training.steps import Measured
from twinlens.spec.study import RunSpec

RULES_FROM = "training in step: the slowest rank ends a step, a save blocks, failures have no memory (Daly 2006)"


def write_course(
    parent: Path, spec: RunSpec, course: Course, step: Step, origin: Literal["modelled", "fitted", "quoted"],
    facts: dict[str, Any], seed: int = 0,
) -> Run:  # fmt: skip
    """Draw one run from a course, write it as a run folder under `parent`, and read it back.

    `spec`: of the training that it stands for; `facts`: declared values by executor field. Raises BadInput.
    """
    random = np.random.default_rng((seed, spec.repeat))
    made = rows(history(drawn(course, random), random), step)
    sections: dict[str, Any] = {"startup_s": made.startup_s}
    if course.save_every:
        sections["checkpoints"] = Checkpoints("sync", course.save_every, "simulated", 0, saves=made.saves)
    stands_on = Simulated(origin, course.source, RULES_FROM, law_of(course), {}, seed, NOT_MODELLED)
    return write_run(parent, spec, [made.table], stands_on, facts, **sections)


def law_of(course: Course) -> dict[str, Any]:
    """The constants of a course by name; of measured steps how many there were, of how many runs."""
    constants = {
        "ranks": len(course.factors), "slowest_factor": max(course.factors), "step_s": course.step_s,
        "save_every_steps": course.save_every, "save_s": course.save.value, "restart_s": course.restart.value,
        "evaluate_every_steps": course.evaluate_every, "evaluate_s": course.evaluate.value,
        "startup_s": course.startup.value, "failure_s": None if course.failure is None else course.failure.value,
    }  # fmt: skip
    own: dict[str, float]
    if isinstance(course.times, Measured):
        own = {"measured_steps": sum(map(len, course.times.runs_s)), "measured_runs": len(course.times.runs_s),
               "measured_ranks": course.times.ranks, "block_steps": course.times.block}  # fmt: skip
    else:
        own = {"rank_step_s": course.times.mean_s, "rank_step_cv": course.times.cv}
    return {name: value for name, value in (constants | own).items() if value is not None}
