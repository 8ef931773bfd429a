"""A forecast of training: time to finish, where the time goes, the best time between saves, and what a change does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from twinlens.record.estimate import Estimate
from twinlens.record.run import Run
from twinlens.simulation.points.figures import band, spread
from twinlens.simulation.training.course import GROUPS, Course, Finish, SaveCurve, finish, save_curve
from twinlens.simulation.training.pipeline import Timeline
from twinlens.simulation.training.rows import Step
from twinlens.simulation.training.steps import Lognormal, expected_s
from twinlens.simulation.work import Floats
from twinlens.spec.study import RunSpec, Study
from twinlens.theory.waiting.checkpoint import daly, young
from twinlens.units import RATIO, SAMPLES_PER_S, SECONDS, TOKENS_PER_S

CAUSES = ("compute", "communication", "bubble", "untold")
"""What a step of one rank is made of. `untold`: what a measured run does not tell apart."""
ACCOUNT = (*CAUSES, "slowest", "data", "saves", "evaluation", "startup", "restart", "repeat")
"""Where the time goes. `repeat`: steps that were done again, and those that a failure broke off."""


@dataclass(frozen=True, slots=True, eq=False)
class Known:
    """What is known of one training. `shares`: of a step of one rank by cause (`CAUSES`). `ranks`: whose steps `course`
    has at the start. `passes`: of its pipeline, None without one. `microbatches`: of a step, None where not known.

    `origin`, `device`, `doubts`: as of a basis of serving. `lacks`: costs that are not known, by the course's field.
    """

    course: Course
    step: Step
    shares: Mapping[str, float]
    origin: Literal["modelled", "fitted", "quoted"]
    device: str = ""
    passes: Timeline | None = None
    doubts: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()

    @property
    def ranks(self) -> int:
        return len(self.course.factors)

    @property
    def alone_s(self) -> float:
        """Seconds of a step before anybody waits for a slower rank."""
        times = self.course.times
        return times.mean_s if isinstance(times, Lognormal) else expected_s(times, (1.0,) * times.ranks)


@dataclass(frozen=True, slots=True, eq=False)
class Forecast:
    """One training in virtual time. `account`: shares of the wall time (`ACCOUNT`). `tokens_per_s`, `samples_per_s`:
    over the whole wall time. `saves`: None where no save is due to failures; `daly`, `young`: beside its best."""

    spec: RunSpec
    known: Known
    found: Finish
    account: Mapping[str, Estimate]
    tokens_per_s: Estimate
    samples_per_s: Estimate
    saves: SaveCurve | None = None
    daly: Estimate | None = None
    young: Estimate | None = None

    @property
    def course(self) -> Course:
        return self.known.course


def forecast(spec: RunSpec, known: Known, seeds: int, *, is_before: bool = False) -> Forecast:
    """A training over so many simulations; what stands before a change has no best time between saves.

    Raises BadInput for what cannot be simulated.
    """
    course, step = known.course, known.step
    found = finish(course, seeds)
    tokens, samples = (many * course.steps / found.wall_s for many in (step.tokens, step.samples))
    shares = [_account(known, parts) for parts in found.each]
    account = {name: band([each[name] for each in shares], RATIO, True) for name in ACCOUNT}
    return Forecast(
        spec, known, found, account, _rate(tokens, TOKENS_PER_S), _rate(samples, SAMPLES_PER_S),
        *((None, None, None) if is_before else _saves(course, seeds)),
    )  # fmt: skip


def _account(known: Known, parts: Mapping[str, float]) -> dict[str, float]:
    """Shares of the wall time of one run."""
    own = known.alone_s / expected_s(known.course.times, known.course.factors)
    useful_s, wall_s = parts["useful"], sum(parts.values())
    seconds = {name: known.shares.get(name, 0.0) * own * useful_s for name in CAUSES}
    seconds |= {name: parts[name] for name in ("data", "evaluation", "startup", "restart")}
    seconds |= {"slowest": (1 - own) * useful_s, "saves": parts["checkpoint"]}
    seconds["repeat"] = parts["repeat"] + parts["other"]
    return {name: each / wall_s for name, each in seconds.items()}


def _rate(values: Floats, unit: str) -> Estimate:
    if not values.any():
        return Estimate.absent(unit, "a step has none")
    return band(values.tolist(), unit, True)


def _saves(course: Course, seeds: int) -> tuple[SaveCurve | None, Estimate | None, Estimate | None]:
    """The best time between saves by trying, by Daly and by Young; None where there is none."""
    if course.failure is None or not course.save.value:
        return None, None, None
    closed = [
        Estimate(float(law(course.save.value, course.failure.value)), SECONDS, how, "derived")
        for law, how in ((daly, "Daly 2006, of higher order"), (young, "Young 1974: √(2 × save × MTBF)"))
    ]
    if seeds < GROUPS:
        why = f"the best time between saves needs at least {GROUPS} seeds, not {seeds}"
        return SaveCurve(Estimate(None, SECONDS, "none", "simulated", reason=why)), closed[0], closed[1]
    return save_curve(course, seeds), closed[0], closed[1]


def over(before: Forecast, after: Forecast) -> Mapping[str, Estimate]:
    """Time to finish, and samples per second, over those without the change, of pairs that share seed and constants."""
    walls = after.found.wall_s / before.found.wall_s
    done = (after.known.step.samples * after.course.steps) / (before.known.step.samples * before.course.steps)
    method = f"ratio of {len(walls)} pairs of simulations, each of one seed and one draw of the constants"
    return {"wall_s": spread(walls, RATIO, method), "samples_per_s": spread(done / walls, RATIO, method)}


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Forecasts:
    """Trainings in virtual time, a point each; `before`: the same without what `changed` says, where it changes any.

    `runs`: the folders that keep their rows, one for each point and seed; iterating gives them.
    """

    study: Study
    points: tuple[Forecast, ...]
    before: tuple[Forecast, ...] = ()
    changed: tuple[str, ...] = ()
    runs: tuple[Run, ...] = ()

    def __iter__(self) -> Iterator[Run]:
        return iter(self.runs)

    @property
    def folder(self) -> Path | None:
        """Where the run folders lie; None where none were written."""
        return self.runs[0].folder.parent if self.runs else None


def step_rate(one: Forecast) -> Estimate:
    """Steps per second over the whole wall time."""
    return band((one.course.steps / np.asarray(one.found.wall_s)).tolist(), "steps/s", True)
