"""A course fitted to measured training: its steps in spells, and what data, saves, looks and recoveries cost."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from twinlens.errors import BadInput
from twinlens.measurement.summary_file import summary_of
from twinlens.record.run import Run
from twinlens.record.step import Steps
from twinlens.simulation.training.course import NOTHING, Constant, Course
from twinlens.simulation.training.rows import Step
from twinlens.simulation.training.steps import Measured
from twinlens.simulation.work import Floats
from twinlens.spec.workload.workload import TrainingWorkload
from twinlens.stats.estimator.dependence import careful_time
from twinlens.stats.estimator.interval import mean_of_independent
from twinlens.stats.metrics.training import training_steadiness
from twinlens.stats.wall_time import in_save
from twinlens.units import SECONDS

FEWEST_STEPS = 50
"""Steps in the steady part of a run, below which spells of slow ones cannot be told from noise."""
_PHASES = ("forward", "backward", "communicate", "optimize")


@dataclass(frozen=True, slots=True, eq=False)
class Fitted:
    """`course`: of as many steps as the longest run had. `step`: what a step does. `ranks`: of the runs. `lacks`: costs
    of the course that the runs do not tell, by name ("save", "restart", "evaluate", "startup"), and "repeats" where one
    run alone cannot say how far the next would be off."""

    course: Course
    step: Step
    ranks: int
    lacks: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class _Read:
    """One run: seconds of its steady steps without data and saves, their waits for data, and single costs."""

    run: Run
    window: Steps
    own_s: Floats
    data_s: Floats
    saves_s: Floats
    looks_s: Floats
    restarts_s: Floats


def fitted(runs: Sequence[Run]) -> Fitted:
    """A course from repeats of one measured point. Raises BadInput for runs that cannot say it.

    Steps count from the end of the step before, so that what lies between two is in them, from where the run is steady.
    A save costs what it blocks and what it slows down (`save_cost_s`).
    """
    if not runs:
        raise BadInput("a course of training is fitted to at least one measured run")
    read = [_read(run) for run in runs]
    if len({summary_of(run).identity for run in runs}) > 1:
        raise BadInput("runs that one course is fitted to must be repeats of one point; give those of one only")
    ranks = {_ranks(run) for run in runs}
    own = tuple(each.own_s for each in read)
    waits = tuple(each.data_s for each in read)
    block = max(_block(each) for each in own)
    workload, first = runs[0].spec.workload, read[0]
    assert isinstance(workload, TrainingWorkload)
    costs = {
        "save": _constant([each.saves_s for each in read]), "evaluate": _constant([each.looks_s for each in read]),
        "restart": _constant([each.restarts_s for each in read]),
        "startup": _constant([np.array([s]) for run in runs if (s := run.sections.startup_s) is not None]),
    }  # fmt: skip
    many = max(int((run.steps.kind == "step").sum()) for run in runs)
    course = Course(
        many, Measured(own, max(ranks), block), (1.0,) * max(ranks),
        Measured(waits, 1, block) if any(each.any() for each in waits) else None,
        workload.checkpoint.every_steps if workload.checkpoint and costs["save"] else 0, costs["save"] or NOTHING,
        _between(first.run.steps, "evaluate") if costs["evaluate"] else 0, costs["evaluate"] or NOTHING, None,
        costs["restart"] or NOTHING, costs["startup"] or NOTHING, ", ".join(run.id for run in runs),
    )  # fmt: skip
    lacks = tuple(name for name, each in costs.items() if each is None) + (("repeats",) if len(runs) == 1 else ())
    return Fitted(course, _step(first), max(ranks), lacks)


def _read(run: Run) -> _Read:
    _refuse(run)
    steps = run.steps
    only, steadiness = training_steadiness(steps)
    held = 0 if steadiness is None else steadiness.steady_end - steadiness.steady_begin
    if steadiness is None or held < FEWEST_STEPS:
        raise BadInput(
            f"run {run.id} has {held} steady steps, and a course is fitted to {FEWEST_STEPS} at least; measure longer"
        )
    window = only.where(slice(steadiness.steady_begin, steadiness.steady_end))
    before = only.end_ns[steadiness.steady_begin - 1] if steadiness.steady_begin else window.begin_ns[0]
    data_s, save_s = (np.nan_to_num(window.phases_ns[name]) / 1e9 for name in ("data", "checkpoint"))
    own_s = np.diff(window.end_ns, prepend=before) / 1e9 - data_s - save_s
    calm = ~in_save(window)
    cost = summary_of(run).metrics.get("save_cost_s")
    saves_s = save_s[save_s > 0] if calm.any() else np.zeros(0)
    if cost is not None and cost.value is not None and saves_s.size:
        saves_s = saves_s + max(0.0, cost.value - float(saves_s.mean()))
    looks, recovers = steps.kind == "evaluate", steps.kind == "recover"
    lasts_s = (steps.end_ns - steps.begin_ns) / 1e9
    if not (own_s[calm] > 0).all():
        raise BadInput(
            f"run {run.id} has steps that only wait for data or for saves; its phases are not to be believed"
        )
    return _Read(run, window, own_s[calm], data_s[calm], saves_s, lasts_s[looks], lasts_s[recovers])


def _refuse(run: Run) -> None:
    if run.lens != "training":
        raise BadInput(
            f"run {run.id} is of {run.lens}, and a course of training is fitted to training; give such a run"
        )
    if run.place == "simulated":
        raise BadInput(f"run {run.id} is simulated, and a course is fitted to what was measured; give measured runs")
    if not run.is_finished:
        raise BadInput(f"run {run.id} is {run.state}; a course is fitted to runs that are finished")
    if (summary := summary_of(run)).validity == "not valid":
        raise BadInput(f"run {run.id} is not valid ({summary.label}), and no course is fitted to it; `show` says why")


def _ranks(run: Run) -> int:
    """Ranks that rows tell of; 1 where they tell of none."""
    known = run.table.column("rank_begin_ns").drop_null()
    many: list[int] = known[0].as_py() if len(known) else [0]
    return len(many)


def _block(own_s: Floats) -> int:
    """Steps that are drawn together: the cube root of their number, and twice the time in which they are alike."""
    wanted = max(float(np.cbrt(len(own_s))), 2 * careful_time(own_s))
    return max(1, min(math.ceil(wanted), len(own_s) // 4))


def _constant(values: Sequence[Floats]) -> Constant | None:
    """The mean with its interval; without one of fewer values than an interval needs, and None of none."""
    together = np.concatenate(values) if values else np.zeros(0)
    if not together.size:
        return None
    mean = mean_of_independent(together, unit=SECONDS)
    return Constant(float(together.mean()), mean.low, mean.high)


def _between(steps: Steps, kind: str) -> int:
    """Optimizer steps from one row of a kind to the next."""
    trained = np.cumsum(steps.kind == "step")[steps.kind == kind]
    return round(float(np.median(np.diff(trained, prepend=0)))) if trained.size else 0


def _step(one: _Read) -> Step:
    """The work of a step, and how its own time divides into phases."""
    own_s = float(one.own_s.sum())
    calm = one.window.where(~in_save(one.window))
    known = {name: calm.phases_ns[name] for name in _PHASES if not np.isnan(calm.phases_ns[name]).all()}
    shares = {name: float(np.nansum(spent)) / 1e9 / own_s for name, spent in known.items()}
    return Step(int(np.median(calm.samples)), int(np.median(calm.tokens)), shares)
