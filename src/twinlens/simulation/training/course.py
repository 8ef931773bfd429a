"""The course of a training run as far as it is known: runs drawn from it, time to finish, and the best save interval.

An interval is over seeds and constants: each drawn run has constants of its own, from the intervals that they have.
Runs of two courses with one seed share what they have in common, so that their ratio is that of the change alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from twinlens.errors import BadInput
from twinlens.record.estimate import Estimate
from twinlens.simulation.points.figures import band
from twinlens.simulation.training.history import Plan, history
from twinlens.simulation.training.steps import Lognormal, Measured, StepTimes, drawn_s, expected_s, in_blocks, redrawn
from twinlens.simulation.work import Floats, Ints
from twinlens.stats.estimator.interval import mean_of_independent
from twinlens.stats.wall_time import PARTS
from twinlens.theory.waiting.checkpoint import daly
from twinlens.units import COUNT, RATIO, SECONDS

_MOST_DRAWN = 20_000_000
"""Steps of single ranks that are drawn at most; a longer run draws its steps from those, in blocks."""
_BLOCK = 64
GROUPS = 10
"""Groups of seeds that the best time between saves is found in, each by itself."""
_GRAIN = 30
_GRAINS = 24_000
"""Of runs in which the best time between saves is looked for: steps are taken together until some 30 of them are
Daly's interval, and a run of 800 such intervals has failures enough."""
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


NOTHING, AS_IS = Constant(0.0), Constant(1.0)


@dataclass(frozen=True, slots=True, eq=False)
class Course:
    """What is known of a run of `steps`. `factors` [ranks]: how much slower each rank is than `times`.

    `times`: of a step without waiting for data; `data`: that waiting, None for none. `level`: by what all steps may be
    off. `failure`: mean time between failures of the job, None for none. Others as in `Plan`. `source`: where the
    numbers come from.
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
    level: Constant = AS_IS

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
    """A run that this course may be, with constants of its own, each from a stream of its own."""
    if course.steps < 1:
        raise BadInput(f"a training run has at least one step, not {course.steps}")
    level, steps, data, save, look, failure, restart, startup = random.spawn(8)
    data_s = np.zeros(course.steps)
    if course.data is not None:
        data_s = _steps(redrawn(course.data, data), (1.0,), course.steps, data)
    step_s = _steps(redrawn(course.times, steps), course.factors, course.steps, steps)
    return Plan(
        step_s * course.level.drawn(level), data_s,
        course.save_every, course.save.drawn(save), course.evaluate_every, course.evaluate.drawn(look),
        float("inf") if course.failure is None else course.failure.drawn(failure),
        course.restart.drawn(restart), course.startup.drawn(startup),
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
    were kept; `parts`: seconds by part (stats/wall_time.py). Values are medians, and bands hold nine of ten runs.

    `each`: seconds by part of each run.
    """

    wall: Estimate
    productive: Estimate
    failures: Estimate
    parts: dict[str, Estimate] = field(default_factory=dict)
    each: tuple[Mapping[str, float], ...] = ()

    @property
    def wall_s(self) -> Floats:
        """Of each run, [seeds]."""
        return np.array([sum(parts.values()) for parts in self.each])


def finish(course: Course, seeds: int, seed: int = 0) -> Finish:
    """When a run ends, over `seeds` runs drawn from the course. Raises BadInput."""
    if seeds < 1:
        raise BadInput(f"a simulation needs at least one seed, not {seeds}")
    ran = [_run(course, np.random.default_rng((seed, each))) for each in range(seeds)]
    each = tuple(parts for parts, _ in ran)
    walls_s = [sum(parts.values()) for parts in each]
    useful = [parts["useful"] / wall_s for parts, wall_s in zip(each, walls_s, strict=True)]
    return Finish(
        band(walls_s, SECONDS, True), band(useful, RATIO, True), band([many for _, many in ran], COUNT, True),
        {name: band([parts[name] for parts in each], SECONDS, True) for name in PARTS}, each,
    )  # fmt: skip


def _run(course: Course, random: np.random.Generator) -> tuple[dict[str, float], float]:
    """Seconds by part of one drawn run, and how often it failed."""
    found = history(drawn(course, random), random)
    return found.parts_s, float(len(found.stretch))


@dataclass(frozen=True, slots=True)
class SaveCurve:
    """`best`: seconds of steps between two saves with which a run ends soonest. `kept`: at each interval tried, in
    seconds of steps, the share of wall time in steps that were kept; of steps, saves and failures alone."""

    best: Estimate
    kept: Mapping[float, Estimate] = field(default_factory=dict)


def best_save_interval(course: Course, seeds: int, seed: int = 0) -> Estimate:
    """The best time between two saves, as `save_curve` finds it. Raises BadInput."""
    return save_curve(course, seeds, seed).best


def save_curve(course: Course, seeds: int, seed: int = 0) -> SaveCurve:
    """Runs drawn at intervals from a fifth of Daly's to five times it; the best has an interval over groups of seeds.

    In each group a curve of fourth degree in the logarithm of the interval is laid through the shares of time that are
    kept, and its highest point counts. Runs are long, whatever the course's own: one failure says little. Steps are
    taken as alike, as what the best depends on is seconds. Raises BadInput.
    """
    if course.failure is None or not course.save.value:
        raise BadInput("a best time between saves exists only where saves cost time and there are failures")
    if seeds < GROUPS:
        raise BadInput(f"the best time between saves needs at least {GROUPS} seeds, not {seeds}")
    around = daly(course.save.value, course.failure.value) / course.step_s
    alike = _in_grains(course, max(1, int(around / _GRAIN)))
    step_s = alike.step_s
    middle = around * course.step_s / step_s
    tried = np.unique(np.rint(np.geomspace(middle / 5, middle * 5, 25)).clip(1).astype(int))
    if len(tried) < 6:
        why = f"too few intervals can be tried: the best is some {around:.2g} steps"
        return SaveCurve(Estimate(None, SECONDS, "none", "simulated", reason=why))
    wall_s = np.array([_walls_s(alike, tried, (seed, each)) for each in range(seeds)])
    shares = alike.steps * step_s / wall_s
    groups = np.array([part.mean(axis=0) for part in np.array_split(shares, GROUPS)])
    highest = [np.exp(_lowest(np.log(tried * step_s), -each)) for each in groups]
    best = replace(mean_of_independent(highest, unit=SECONDS, method_suffix=" of groups of seeds"), origin="simulated")
    kept = {
        float(steps * step_s): band(each, RATIO, True) for steps, each in zip(tried, shares.T.tolist(), strict=True)
    }
    return SaveCurve(best, kept)


def _in_grains(course: Course, grain: int) -> Course:
    """A long run of the same steps, all alike, so many of them as one; nothing but steps, saves and failures."""
    return Course(_GRAINS, Lognormal(course.step_s * grain), save=course.save, failure=course.failure,
                  restart=course.restart)  # fmt: skip


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
