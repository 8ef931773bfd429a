"""Serving by day and training in what is left, as a question to both lenses: two sets of numbers, never added."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from twinlens.record.estimate import Estimate
from twinlens.record.run import Run
from twinlens.simulation.law import Affine, StepLaw
from twinlens.simulation.points.basis import Basis
from twinlens.simulation.points.figures import band
from twinlens.simulation.points.smallest import keeps_surely
from twinlens.simulation.points.sweep import Point, simulate_point, with_seeds
from twinlens.simulation.training.day import Day, Device, Outcome, Turn, Way, day_of, fewest, turn_of
from twinlens.simulation.training.forecast import Forecast
from twinlens.spec.slo import Slo
from twinlens.spec.study import RunSpec
from twinlens.units import DAY_S, SECONDS

_HALVINGS = 7
STEPS_A_DAY = "steps/day"


@dataclass(frozen=True, slots=True, eq=False)
class Share:
    """One way to share devices over a day. `outcome`: at the median speed of training. `steps`: a day; `finish`:
    seconds until all are trained. `latency`: of the metric that decides, by the rate of a period, None at 0.

    `needs`: the fewest devices that serve all and train in the time asked, None where no time was asked.
    `turn`: where it begins or ceases to need fewer devices than both apart, likewise.
    """

    way: Way
    outcome: Outcome
    steps: Estimate
    finish: Estimate
    latency: Mapping[float, Estimate]
    needs: Outcome | None = None
    turn: Turn | None = None

    @property
    def worst(self) -> Estimate | None:
        """The latency of the period in which it is longest; None where nobody asks."""
        known = [each for each in self.latency.values() if each.value is not None]
        absent = next((each for each in self.latency.values() if each.value is None), None)
        return absent or max(known, key=lambda each: each.value or 0.0, default=None)


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Mix:
    """`served_per_s`: what one device serves within the SLO, alone. `training`: on one device, alone. `day`: the rates
    that come; its steps are those asked, 0 for none. `metric`: the latency that is told. `slowdowns`: of serving and of
    training beside each other, None where nobody measured them. `switch_s`: None where nobody said it."""

    spec: RunSpec
    basis: Basis
    training: Forecast
    served_per_s: float
    day: Day
    metric: str
    ways: tuple[Share, ...]
    slowdowns: tuple[float, float] | None = None
    switch_s: float | None = None
    within_s: float | None = None

    def __iter__(self) -> Iterator[Run]:
        return iter(())

    @property
    def folder(self) -> None:
        """Of mixed work no rows are kept."""
        return


def most_served(spec: RunSpec, basis: Basis, slo: Slo, seeds: int) -> float | None:
    """Requests per second that one device serves within the SLO in the whole band; None where it keeps none.

    Looked for below the rate of overload by halving, to 1 % of that.
    """
    most = served_at(spec, basis, spec.point.rate_per_s or 1.0, 1).capacity
    if most is None or most.value is None:
        return None
    low, high = 0.0, most.high or most.value
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if keeps_surely(served_at(spec, basis, middle, seeds), slo) else (low, middle)
    return low or None


def served_at(spec: RunSpec, basis: Basis, rate_per_s: float, seeds: int) -> Point:
    """One engine at another rate."""
    point = spec.point.model_copy(update={"rate_per_s": rate_per_s})
    return simulate_point(with_seeds([spec.model_copy(update={"point": point})], seeds), basis, basis.rules)


def slowed(basis: Basis, factor: float) -> Basis:
    """The same engine, each of whose steps takes `factor` times as long."""
    return replace(basis, law=_slowed(basis.law, factor), draws=tuple(_slowed(law, factor) for law in basis.draws))


def _slowed(law: StepLaw, factor: float) -> StepLaw:
    parts = tuple(Affine(*(getattr(each, name) * factor for name in Affine.__slots__)) for each in law.parts)
    return replace(law, parts=parts)


def shared(
    way: Way, day: Day, device: Device, devices: int, training: Forecast, latency: Mapping[float, Estimate],
    within_s: float | None,
) -> Share:  # fmt: skip
    """A day of one way. `latency`: by the rate of a period, as `rate_of_each` says at which rate to simulate it."""
    speeds = training.course.steps / training.found.wall_s
    daily = [day_of(way, day, replace(device, steps_per_s=float(each)), devices).steps for each in speeds]
    steps = band(daily, STEPS_A_DAY, True)
    if min(daily) > 0:
        finish = band([training.course.steps / each * DAY_S for each in daily], SECONDS, True)
    else:
        finish = Estimate(None, SECONDS, steps.method, "simulated", reason="nothing is left in which to train")
    outcome = day_of(way, day, device, devices)
    needs = fewest(way, day, device) if within_s is not None else None
    turn = turn_of(way, day, device) if within_s is not None and way != "apart" else None
    return Share(way, outcome, steps, finish, latency, needs, turn)


def rate_of_each(day: Day, outcome: Outcome) -> dict[float, float]:
    """The rate that one device meets, by the rate that comes in a period; periods without requests are left out."""
    pairs = zip(np.asarray(day.rate_per_s).tolist(), outcome.serving.tolist(), strict=True)
    return {rate: rate / max(serving, 1.0) for rate, serving in pairs if rate > 0}


def latencies(
    spec: RunSpec, basis: Basis, rates: Mapping[float, float], metric: str, seeds: int
) -> dict[float, Estimate]:
    """The metric at the rate of each period, simulated on one of its devices."""
    return {comes: served_at(spec, basis, each, seeds).figures[metric] for comes, each in rates.items()}


def period_words(day: Day, values: Sequence[float]) -> Iterator[tuple[str, float]]:
    """ "00:00–08:00" with the value of each period."""
    for place, each in enumerate(values):
        ends = (round(end * day.period_s / 60) for end in (place, place + 1))
        yield "–".join(f"{end // 60:02d}:{end % 60:02d}" for end in ends), each
