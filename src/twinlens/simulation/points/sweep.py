"""Points of a simulation: each of several repeats, every one of its own seed and of its own draw of the law."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from twinlens.record.estimate import Estimate
from twinlens.record.run import Run
from twinlens.schedule.build import planned_load
from twinlens.simulation.law import StepLaw
from twinlens.simulation.points.basis import Basis, Binding, binding, capacity, pools_capacity
from twinlens.simulation.points.energy import energy_of
from twinlens.simulation.points.figures import figures_of, over_repeats, spread
from twinlens.simulation.points.fleet import Fleet
from twinlens.simulation.points.play import play
from twinlens.simulation.points.played import Played
from twinlens.simulation.rules import Rules
from twinlens.simulation.work import Ints
from twinlens.spec.study import RunSpec, Study
from twinlens.spec.workload.workload import InferenceWorkload
from twinlens.units import RATIO, REQUESTS_PER_S

CHANGED = ("ttft_s_p50", "ttft_s_p99", "tpot_s_p50", "e2e_latency_s_p99", "output_tokens_per_s")
"""Figures that a what-if is told by."""
_OF_ENOUGH = 512
"""Requests whose lengths stand for the workload's."""
_NEAR = 1.05
"""A quantity this little outside what was measured is as good as inside."""


@dataclass(frozen=True, slots=True, eq=False)
class Repeat:
    """One simulation: what was asked, the law that was drawn, what became of it, and when it was stopped, if it was."""

    spec: RunSpec
    law: StepLaw
    played: Played
    stopped_s: float | None


@dataclass(frozen=True, slots=True, eq=False)
class Point:
    """One point over its repeats. `policy`: of batching and of routing, as named. `figures`: by the id of the metric.

    `fleet`: who serves it; None: one engine. `capacity`: requests per second at which it is overloaded, None where the
    load has no rate or is held back in batches. `binding`: a step in the middle of this load; `full`: of a full engine.
    `beyond`: by which factor each quantity lies outside what was measured, those inside left out.
    """

    spec: RunSpec
    policy: str
    figures: Mapping[str, Estimate]
    capacity: Estimate | None
    binding: Binding | None
    full: Binding | None
    beyond: Mapping[str, float]
    repeats: tuple[Repeat, ...]
    fleet: Fleet | None = None

    @property
    def overloaded(self) -> bool | None:
        """Whether more come than are served: None where that lies within the band, or is not known."""
        rate = self.spec.point.rate_per_s
        if any(each.stopped_s is not None for each in self.repeats):
            return True
        if self.capacity is None or self.capacity.value is None or rate is None:
            return None
        low, high = self.capacity.low or self.capacity.value, self.capacity.high or self.capacity.value
        return True if rate > high else False if rate < low else None


def simulate_point(
    specs: Sequence[RunSpec], basis: Basis, rules: Rules, policy: str = "", fleet: Fleet | None = None
) -> Point:
    """Repeats [>= 1] of one point. Raises BadInput for what cannot be simulated."""
    repeats = []
    for place, spec in enumerate(specs):
        law = basis.drawn(place, len(specs))
        stop_s = 2 * spec.protocol.duration_s + 60.0
        played = play(spec, law, rules, noise=basis.noise_of(spec.seed), horizon_s=stop_s, fleet=fleet)
        repeats.append(Repeat(spec, law, played, stop_s if played.unfinished else None))
    first = specs[0]
    workload = first.workload
    assert isinstance(workload, InferenceWorkload)
    batch = first.point.batch if first.point.admission in ("static", "dynamic") else None
    engines = fleet.replicas if fleet is not None else 1
    found = [
        figures_of(each.played, workload.slo, batch) | _energy(each.played, basis, place, len(specs), engines)
        for place, each in enumerate(repeats)
    ]
    prompts, outputs = _lengths(repeats)
    known = capacities(first, basis, rules, prompts, outputs, fleet)
    middle = repeats[len(repeats) // 2]
    in_pools = fleet is not None and fleet.prefill > 0  # steps of two kinds, and no one in the middle
    step = None if in_pools else _step(middle, prompts, outputs)
    return Point(
        first, policy, over_repeats(found, bool(basis.draws)),
        known[0] if known else None, step, known[1] if known else None,
        _beyond(first, step, basis, prompts, outputs, fleet),
        tuple(repeats), fleet,
    )  # fmt: skip


def _energy(played: Played, basis: Basis, place: int, of: int, engines: int) -> dict[str, float]:
    power = basis.powers.drawn(place, of)
    return {} if power is None else energy_of(played, power, engines)


def changes(before: Point, after: Point, name: str) -> Estimate:
    """A figure after a change over the same before it, of repeats that share seed and draw."""
    pairs = zip(_each(before, name), _each(after, name), strict=True)
    known = [b / a for a, b in pairs if a > 0 and math.isfinite(a) and math.isfinite(b)]
    method = f"ratio of {len(known)} pairs of simulations, each of one seed and one draw of the law"
    return spread(known, RATIO, method) if known else Estimate.absent(RATIO, "no pair of simulations has both")


def _each(point: Point, name: str) -> list[float]:
    return [figures_of(each.played, None)[name] for each in point.repeats]


def _lengths(repeats: Sequence[Repeat]) -> tuple[Ints, Ints]:
    table = repeats[0].played.table.slice(0, _OF_ENOUGH)
    return (table.column("input_tokens").to_numpy(), table.column("asked_tokens").to_numpy())


def capacities(
    spec: RunSpec, basis: Basis, rules: Rules, prompts: Ints, outputs: Ints, fleet: Fleet | None
) -> tuple[Estimate, Binding] | None:
    """Requests per second from which it is overloaded, and a step of a full engine; None where that is not known.

    `prompts`, `outputs` (requests,): tokens.
    """
    point = spec.point
    if point.rate_per_s is None or rules.batching != "continuous" or point.admission in ("static", "dynamic"):
        return None
    if not len(prompts) or planned_load(spec).plan is None:
        return None
    laws = basis.draws or (basis.law,)
    if fleet is not None and fleet.prefill:
        pools = (prompts, outputs, fleet.prefill, fleet.engines - fleet.prefill)
        rates = [pools_capacity(law, rules, *pools)[0] for law in laws]
        return spread(rates, REQUESTS_PER_S, f"full pools of means, over {len(laws)} laws"), pools_capacity(
            basis.law, rules, *pools
        )[1]
    found = [capacity(law, rules, prompts, outputs, point.in_flight) for law in laws]
    engines = fleet.engines if fleet is not None else 1.0
    method = f"a full engine of means, over {len(laws)} laws"
    method += f", × {engines:g} replicas" if fleet is not None else ""
    return spread((rate * engines for rate, _ in found), REQUESTS_PER_S, method), capacity(
        basis.law, rules, prompts, outputs, point.in_flight
    )[1]


def _step(repeat: Repeat, prompts: Ints, outputs: Ints) -> Binding | None:
    """A step in the middle, from the work that all steps did."""
    played = repeat.played
    done = played.table.column("output_tokens").to_numpy()
    if not played.steps or not done.sum():
        return None
    prompt = played.table.column("input_tokens").to_numpy()
    served = done > 0
    rows = float(done.sum()) / played.steps
    context = float((done * (prompt + done / 2.0)).sum()) / played.steps
    tokens = max(0.0, float(prompt[served].sum()) - played.cached_tokens) / played.steps
    pairs = float((prompt[served].astype(float) ** 2).sum()) / 2 / played.steps
    return binding(repeat.law, rows, context, tokens, pairs)


def _beyond(
    spec: RunSpec, step: Binding | None, basis: Basis, prompts: Ints, outputs: Ints, fleet: Fleet | None
) -> dict[str, float]:
    rate, engines = spec.point.rate_per_s, fleet.engines if fleet is not None else 1.0
    in_pools = fleet is not None and fleet.prefill > 0
    asked = {
        "requests_per_s": None if rate is None or in_pools else rate / engines,
        "rows": step.seats if step else None,
    }
    if len(prompts):
        asked |= {"prompt_tokens": float(np.max(prompts)), "answer_tokens": float(np.max(outputs))}
    found = {name: _factor(value, *basis.reach[name]) for name, value in asked.items()
             if value is not None and name in basis.reach}  # fmt: skip
    return {name: factor for name, factor in found.items() if factor > _NEAR}


def _factor(value: float, least: float, most: float) -> float:
    if value > most:
        return value / most if most else np.inf
    return least / value if value < least and value else 1.0


@dataclass(frozen=True, slots=True, eq=False)
class Size:
    """The fewest replicas that keep the SLO at one load. `name`: of batching and routing. `enough`: its point, if any.

    `fewer`: with one less, or the largest fleet that was tried where none is enough for the `reason`; None where one
    less is overloaded or no replica.
    """

    spec: RunSpec
    enough: Point | None
    fewer: Point | None
    name: str
    reason: str = ""

    @property
    def replicas(self) -> int | None:
        """How many; None where no fleet is enough."""
        return self.enough.fleet.replicas if self.enough is not None and self.enough.fleet is not None else None


@dataclass(frozen=True, slots=True)
class Flip:
    """Between two rates another policy is the best: by `metric`, from `below` to `above`."""

    below: str
    above: str
    from_per_s: float
    to_per_s: float


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Sweep:
    """Points in virtual time. `runs`: the folders that keep their rows, one for each point and seed; iterating gives
    them, so that `tl.compare(run, twin)` and `tl.report(twin)` take the result itself. `changed`: what `--set` said.

    `before`: the points without what `--set` said, where it changed the machine, the rules or the lengths.
    `chosen`: of several policies, those of the lowest p99 at each rate; `turns`: between which rates another one is.
    `sizes`: the fewest replicas that keep the SLO, of each point asked. `price_per_hour`: $ of a replica, the user's.
    """

    study: Study
    basis: Basis
    points: tuple[Point, ...]
    runs: tuple[Run, ...]
    changed: tuple[str, ...]
    metric: str
    chosen: dict[float, tuple[str, ...]]
    turns: tuple[Flip, ...]
    before: tuple[Point, ...] = ()
    sizes: tuple[Size, ...] = ()
    price_per_hour: float | None = None

    def __iter__(self) -> Iterator[Run]:
        return iter(self.runs)

    @property
    def folder(self) -> Path | None:
        """Where the run folders lie; None where none were written."""
        return self.runs[0].folder.parent if self.runs else None


def flips(points: Sequence[Point], metric: str) -> tuple[dict[float, tuple[str, ...]], tuple[Flip, ...]]:
    """The policies of the lowest value at each rate, those within each other's bands together; and where the first
    of them changes."""
    by_rate: dict[float, list[Point]] = {}
    for point in points:
        if (rate := point.spec.point.rate_per_s) is not None:
            by_rate.setdefault(rate, []).append(point)
    best = {rate: _best(members, metric) for rate, members in sorted(by_rate.items())}
    best = {rate: names for rate, names in best.items() if names}
    return best, tuple(_turns(list(best.items())))


def _turns(steps: Sequence[tuple[float, tuple[str, ...]]]) -> Iterator[Flip]:
    """Where the first policy is no longer among the best: from the last rate at which it was alone in front."""
    if not steps:
        return
    (low, (name, *_)), *others = steps
    for rate, names in others:
        if name not in names:
            yield Flip(name, names[0], low, rate)
            name = names[0]
        if names == (name,):
            low = rate


def _best(points: Sequence[Point], metric: str) -> tuple[str, ...]:
    known = [(each, each.figures[metric]) for each in points if each.figures[metric].value is not None]
    if not known:
        return ()
    first, figure = min(known, key=lambda each: each[1].value or 0.0)
    most = figure.high if figure.high is not None else figure.value or 0.0
    near = [each.policy for each, other in known if each is not first and _low(other) <= most]
    return (first.policy, *near)


def _low(figure: Estimate) -> float:
    return figure.low if figure.low is not None else figure.value or 0.0


def with_seeds(specs: Sequence[RunSpec], seeds: int) -> list[RunSpec]:
    """The repeats of a point: one for each seed."""
    protocol = specs[0].protocol.model_copy(update={"repeats": seeds})
    return [specs[0].model_copy(update={"protocol": protocol, "repeat": place}) for place in range(seeds)]


def widest(points: Sequence[Point]) -> dict[str, float]:
    """The quantities that lie outside what was measured, each at the point that is farthest out."""
    found: dict[str, float] = {}
    for point in points:
        for name, factor in point.beyond.items():
            found[name] = max(factor, found.get(name, 1.0))
    return found
