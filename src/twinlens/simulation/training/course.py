"""The course of a training run as far as it is known: runs drawn from it, time to finish, and the best save interval.

An interval is over seeds and constants: each drawn run has constants of its own, from the intervals that they have.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from twinlens.errors import BadInput
from twinlens.record.estimate import Estimate
from twinlens.simulation.training.history import Plan, history
from twinlens.simulation.training.steps import Measured, StepTimes, drawn_s, expected_s, in_blocks, redrawn
from twinlens.simulation.work import Floats, Ints
from twinlens.stats.estimator.interval import mean_of_independent
from twinlens.stats.wall_time import PARTS
from twinlens.theory.waiting.checkpoint import daly
from twinlens.units import COUNT, RATIO, SECONDS

_MOST_DRAWN = 20_000_000
"""Steps of single ranks that are drawn at most; a longer run draws its steps from those, in blocks."""
_BLOCK = 64
_GROUPS = 10
_LEVEL_SD = 1.959964
"""Standard deviations to each end of an interval at 95 %."""


@dataclass(frozen=True, slots=True)
class Constant:
    """Seconds with the interval at 95 % that they have; ends of None where there is none. 0 is nothing, for sure."""

    value: float
    low: float | None = None
    high: float | None = None

    def drawn(self, random: np.random.Generator) -> float:
        """Another value that it may have: lognormal to each side, by the distance of the end."""
        off = float(random.standard_normal()) / _LEVEL_SD
        end = self.high if off > 0 else self.low
        if not self.value or end is None:
            return self.value
        return float(self.value * (max(end, self.value / 100) / self.value) ** abs(off))


NOTHING = Constant(0.0)


@dataclass(frozen=True, slots=True, eq=False)
class Course:
    """What is known of a run of `steps`. `factors` [ranks]: how much slower each rank is than `times`.

    `times`: of a step without waiting for data; `data`: that waiting, None for none. `failure`: mean time between
    failures of the job, None for none. Others as in `Plan`. `source`: where the numbers come from.
    """

    steps: int
    times: StepTimes
    factors: tuple[float, ...] = (1.0,)
    data: StepTimes | None = None
    save_every: int = 0
    save: Constant = NOTHING
    evaluate_every: int = 0
    evaluate: Constant = NOTHING
    failure: Constant | None = None
    restart: Constant = NOTHING
    startup: Constant = NOTHING
    source: str = ""

    @property
    def step_s(self) -> float:
        """Expected seconds of a step with its waiting for data."""
        return expected_s(self.times, self.factors) + (expected_s(self.data, [1.0]) if self.data else 0.0)


def of_nodes(node_failure_s: float, nodes: int) -> float:
    """Mean time between failures of a job that fails when any of its nodes does."""
    if not node_failure_s > 0 or nodes < 1:
        raise BadInput("the time between failures of a node is above 0, and a job has at least one node")
    return node_failure_s / nodes


def drawn(course: Course, random: np.random.Generator) -> Plan:
    """A run that this course may be, with constants of its own."""
    if course.steps < 1:
        raise BadInput(f"a training run has at least one step, not {course.steps}")
    data_s = np.zeros(course.steps)
    if course.data is not None:
        data_s = _steps(redrawn(course.data, random), (1.0,), course.steps, random)
    return Plan(
        _steps(redrawn(course.times, random), course.factors, course.steps, random), data_s,
        course.save_every, course.save.drawn(random), course.evaluate_every, course.evaluate.drawn(random),
        float("inf") if course.failure is None else course.failure.drawn(random),
        course.restart.drawn(random), course.startup.drawn(random),
    )  # fmt: skip


def _steps(times: StepTimes, factors: tuple[float, ...], steps: int, random: np.random.Generator) -> Floats:
    most = max(1000, _MOST_DRAWN // len(factors))
    if steps <= most:
        return drawn_s(times, factors, steps, random)
    block = times.block if isinstance(times, Measured) else _BLOCK
    return in_blocks(drawn_s(times, factors, most, random), block, steps, random)


@dataclass(frozen=True, slots=True)
class Finish:
    """Runs drawn from a course. `wall`: seconds from start to last step; `productive`: the fraction of it in steps that
    were kept; `parts`: seconds by part (stats/wall_time.py). Values are medians, and intervals hold 95 % of the runs.
    """

    wall: Estimate
    productive: Estimate
    failures: Estimate
    parts: dict[str, Estimate] = field(default_factory=dict)


def finish(course: Course, seeds: int, seed: int = 0) -> Finish:
    """When a run ends, over `seeds` runs drawn from the course. Raises BadInput."""
    if seeds < 1:
        raise BadInput(f"a simulation needs at least one seed, not {seeds}")
    ran = [_run(course, np.random.default_rng((seed, each))) for each in range(seeds)]
    parts = {name: np.array([each[0][name] for each in ran]) for name in PARTS}
    wall_s = np.sum(list(parts.values()), axis=0)
    failures = np.array([each[1] for each in ran])
    return Finish(
        _over(wall_s, SECONDS), _over(parts["useful"] / wall_s, RATIO), _over(failures, COUNT),
        {name: _over(values, SECONDS) for name, values in parts.items()},
    )  # fmt: skip


def _run(course: Course, random: np.random.Generator) -> tuple[dict[str, float], float]:
    """Seconds by part of one drawn run, and how often it failed."""
    found = history(drawn(course, random), random)
    return found.parts_s, float(len(found.stretch))


def _over(values: Floats, unit: str) -> Estimate:
    method = f"median of {len(values)} simulated runs"
    low, value, high = (float(each) for each in np.quantile(values, [0.025, 0.5, 0.975]))
    if len(values) < 40:  # fewer have no 2.5 % on either side
        why = "an interval at 95 % needs 40 seeds"
        return Estimate(value, unit, method, "simulated", n=len(values), no_interval=why)
    return Estimate(value, unit, f"{method}, of which 95 % lie inside", "simulated", low, high, 0.95, len(values))


def best_save_interval(course: Course, seeds: int, seed: int = 0) -> Estimate:
    """Seconds of steps between two saves with which the run ends soonest, with its interval over groups of seeds.

    Runs are drawn at intervals from a fifth of Daly's to five times it; in each group a curve of fourth degree in the
    logarithm of the interval is laid through the wall times, and its lowest point counts. Raises BadInput.
    """
    if course.failure is None or not course.save.value:
        raise BadInput("a best time between saves exists only where saves cost time and there are failures")
    if seeds < _GROUPS:
        raise BadInput(f"the best time between saves needs at least {_GROUPS} seeds, not {seeds}")
    step_s = course.step_s
    around = daly(course.save.value, course.failure.value) / step_s
    tried = np.unique(np.rint(np.geomspace(around / 5, around * 5, 25)).clip(1, course.steps).astype(int))
    if len(tried) < 6:
        why = f"too few intervals can be tried: the best is some {around:.2g} steps of {course.steps}"
        return Estimate(None, SECONDS, "none", "simulated", reason=why)
    wall_s = np.array([_walls_s(course, tried, (seed, each)) for each in range(seeds)])
    groups = np.array([part.mean(axis=0) for part in np.array_split(wall_s, _GROUPS)])
    lowest = [np.exp(_lowest(np.log(tried * step_s), each)) for each in groups]
    return replace(mean_of_independent(lowest, unit=SECONDS, method_suffix=" of groups of seeds"), origin="simulated")


def _walls_s(course: Course, tried: Ints, seed: tuple[int, ...]) -> list[float]:
    """Wall seconds of one drawn run at each interval, in steps; its failures fall anew."""
    random = np.random.default_rng(seed)
    plan = drawn(course, random)
    return [history(replace(plan, save_every=int(every)), random).wall_s for every in tried]


def _lowest(at: Floats, values: Floats) -> float:
    """Where the curve of fourth degree through values is lowest within their range."""
    middle = at.mean()
    curve = np.polynomial.Polynomial.fit(at - middle, values, 4)
    roots = curve.deriv().roots()
    inside = roots[np.abs(roots.imag) < 1e-9].real
    tried = np.concatenate([inside[(inside > (at - middle)[0]) & (inside < (at - middle)[-1])], (at - middle)[[0, -1]]])
    return float(tried[np.argmin(curve(tried))] + middle)
