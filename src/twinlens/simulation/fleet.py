"""A fleet: replicas alike or different behind one router; one may start late, die and come back cold, or be slow."""

from __future__ import annotations

import math
from collections.abc import Sequence as Several
from dataclasses import dataclass, replace

import numpy as np

from twinlens.errors import BadInput
from twinlens.simulation.engine import Engine
from twinlens.simulation.fits import check_work, checked_law, checked_rules
from twinlens.simulation.law import Affine, StepLaw
from twinlens.simulation.leaps.carry import Carry, may_carry
from twinlens.simulation.leaps.first_come import is_plain
from twinlens.simulation.leaps.plain_fleet import serve_plain_fleet
from twinlens.simulation.noise import Noise
from twinlens.simulation.outcome import served
from twinlens.simulation.routing import Router, Routing, check_routing
from twinlens.simulation.rules import Rules
from twinlens.simulation.serve import rows_of
from twinlens.simulation.state.sequence import Sequence
from twinlens.simulation.work import DONE, Served, Work

Row = tuple[float, int, int, int, int, int]


@dataclass(frozen=True, slots=True)
class Replica:
    """One engine of a fleet. `slow`: factor on all its seconds. `starts_s`: from when it takes requests (cold start).

    `dies_s`: all that it has is lost, and its requests go to the others from the beginning; `down_s` later it is back,
    with an empty cache, as one more engine; None: never.
    """

    rules: Rules
    law: StepLaw
    noise: Noise | None = None
    slow: float = 1.0
    starts_s: float = 0.0
    dies_s: float | None = None
    down_s: float | None = None


@dataclass(slots=True)
class _Member:
    """An engine from when to when, and who drives it."""

    engine: Engine
    driver: Engine | Carry
    starts_s: float
    dies_s: float


def serve_fleet(
    work: Work,
    replicas: Several[Replica],
    routing: Routing,
    *,
    horizon_s: float | None = None,
    tokens: bool = True,
    given: bool = False,
    leaps: bool = True,
) -> Served:
    """All of the work through a fleet. `engine` of the result counts replicas, then those that came back, in order.

    A request that arrives where no replica is there waits for the first; one that lost its replica keeps its arrival.
    `given`: requests come with the KV cache of their prompt and their first token, made elsewhere (`pools.py`).
    `leaps`: equal steps are passed together. Raises BadInput for a fleet of none, and for work that one of the replicas
    could never serve.
    """
    check_fleet(work, replicas, routing)
    if leaps and not given and (plainly := _served_plainly(work, replicas, routing, tokens, horizon_s)) is not None:
        return plainly
    until_s = math.inf if horizon_s is None else horizon_s
    fleet = _Fleet(replicas, routing, tokens, given, leaps, until_s)
    for place, row in enumerate(rows_of(work)):
        fleet.happen(min(row[0], until_s))
        fleet.route(place, row, row[0])
    return fleet.finish(horizon_s)


def check_fleet(work: Work, replicas: Several[Replica], routing: Routing) -> None:
    """Raises BadInput before any work."""
    if not replicas:
        raise BadInput("a fleet of no replicas serves nobody; give at least one")
    check_routing(routing)
    for place, each in enumerate(replicas):
        if not (each.slow > 0 and math.isfinite(each.slow)):
            raise BadInput(f"replica {place} is slow by {each.slow}; the factor has to be above 0")
        for name in ("starts_s", "dies_s", "down_s"):
            value = getattr(each, name)
            if value is not None and not 0 <= value < math.inf:
                raise BadInput(f"{name} of replica {place} is {value}; it has to be a number that is not negative")
        check_work(work, each.rules)
    if all(each.dies_s is not None and each.down_s is None for each in replicas):
        raise BadInput("every replica dies and none comes back; give one of them down_s, or no dies_s")


def _served_plainly(
    work: Work, replicas: Several[Replica], routing: Routing, tokens: bool, horizon_s: float | None
) -> Served | None:
    """The same by the shortest way; None where a replica comes or goes, is not plain, or has few blocks."""
    always = all(each.starts_s == 0 and each.dies_s is None for each in replicas)
    plain = all(is_plain(each.rules, work) for each in replicas)
    if not (always and plain) or routing.policy == "least-tokens":
        return None
    machines = [(times(checked_law(each.law), each.slow), checked_rules(each.rules), each.noise) for each in replicas]
    return serve_plain_fleet(work, machines, routing, tokens=tokens, horizon_s=horizon_s)


class _Fleet:
    """Members, what is still to happen to them, and where each request is."""

    def __init__(
        self, replicas: Several[Replica], routing: Routing, tokens: bool, given: bool, leaps: bool, until_s: float
    ) -> None:
        self.router, self.tokens, self.given, self.leaps = Router(routing), tokens, given, leaps
        self.until_s = until_s
        self.by_tokens = routing.policy == "least-tokens"
        self.members: list[_Member] = []
        for each in replicas:
            self._start(each, each.starts_s, math.inf if each.dies_s is None else each.dies_s)
        for each in replicas:
            if each.dies_s is not None and each.down_s is not None:
                self._start(each, each.dies_s + each.down_s, math.inf)
        self.deaths = sorted((each.dies_s, place) for place, each in enumerate(self.members) if each.dies_s < math.inf)
        self.starts = sorted({each.starts_s for each in self.members})
        self.changes = [*(time for time, _ in self.deaths), *self.starts]
        self.changes_s, self.alive = math.inf, list[int]()
        self.rows: dict[tuple[int, int], tuple[int, Row]] = {}
        self.sequences: dict[int, Sequence] = {}
        self.places: dict[int, int] = {}
        self.held: list[tuple[int, Row]] = []
        self.now_s = 0.0
        self.loads, self.quiet_s = [0.0] * len(self.members), [-math.inf] * len(self.members)
        """What a member had when it was looked at, and until when that stays."""
        self._look(0.0)

    def _start(self, replica: Replica, starts_s: float, dies_s: float) -> None:
        engine = Engine(
            replica.rules, times(replica.law, replica.slow), replica.noise, number=len(self.members),
            tokens=self.tokens, leaps=self.leaps,
        )  # fmt: skip
        driver = Carry(engine) if self.leaps and may_carry(replica.rules) else engine
        self.members.append(_Member(engine, driver, starts_s, dies_s))

    def _look(self, now_s: float) -> None:
        """Who takes requests now, and until when that holds."""
        self.alive = [i for i, each in enumerate(self.members) if each.starts_s <= now_s < each.dies_s]
        self.changes_s = min((each for each in self.changes if each > now_s), default=math.inf)

    def happen(self, until_s: float) -> None:
        """Deaths and starts until then, in order."""
        while self.changes_s <= until_s and self.changes_s < math.inf:
            now_s = self.changes_s
            self._look(now_s)
            lost = [self._lost(place, now_s) for time, place in self.deaths if time == now_s]
            for place, row in [*self._take_held(), *(each for some in lost for each in some)]:
                self.route(place, row, now_s)

    def _take_held(self) -> list[tuple[int, Row]]:
        held, self.held = self.held, []
        return held

    def _lost(self, place: int, now_s: float) -> list[tuple[int, Row]]:
        """Requests of a member that dies: those that its steps so far have not brought to their end."""
        member = self.members[place]
        member.driver.run_until(now_s)
        gone = [each for each in self._here(member, now_s) if (place, each.number) in self.rows]
        member.engine.running, member.engine.waiting = [], []
        if isinstance(member.driver, Carry):
            member.driver.gather()
        return sorted(self.rows[place, each.number] for each in gone)

    def _here(self, member: _Member, now_s: float) -> list[Sequence]:
        """Sequences that are in a member at a moment, those among them whose last step is still under way."""
        late = [each for each in member.engine.finished[-256:] if each.outcome == DONE and each.end_s > now_s]
        return [*member.engine.running, *(each for _, each in member.engine.waiting), *late]

    def route(self, place: int, row: Row, now_s: float) -> None:
        """A request goes to a replica, or waits until there is one."""
        if not self.alive:
            self.held.append((place, row))
            return
        self.now_s = min(now_s, self.until_s)
        chosen = self.router.choose(self.alive, now_s, row[4], self._load)
        member = self.members[chosen]
        member.driver.run_until(self.now_s)
        _, prompt, output, priority, group, shared = row
        sequence = member.engine.add(
            now_s, prompt, output, priority=priority, group=group, shared=shared, given=self.given
        )
        self.quiet_s[chosen] = -math.inf
        if member.dies_s < math.inf:
            self.rows[chosen, sequence.number] = place, row
        self.sequences[place], self.places[place] = sequence, chosen

    def _load(self, place: int) -> float:
        """Requests of a replica now, or tokens that it has left."""
        now_s = self.now_s
        if now_s < self.quiet_s[place]:
            return self.loads[place]
        member = self.members[place]
        driver, engine = member.driver, member.engine
        driver.run_until(now_s)
        if self.by_tokens:
            if isinstance(driver, Carry):
                driver.settle()
            return engine.outstanding_tokens
        load, finished, back = len(engine.running) + len(engine.waiting), engine.finished, -1
        while len(finished) >= -back and finished[back].end_s > now_s:
            load, back = load + 1, back - 1
        if back == -1 and isinstance(driver, Carry):
            self.loads[place], self.quiet_s[place] = load, driver.quiet_s
        return load

    def finish(self, horizon_s: float | None) -> Served:
        """Everything until then; columns of it."""
        self.happen(self.until_s)
        for member in self.members:
            member.engine.close()
            member.driver.run_until(min(self.until_s, member.dies_s))
            if isinstance(member.driver, Carry):
                member.driver.settle()
        for place, row in self.held:
            self.sequences[place] = Sequence(place, *row[:3], steps=0)
        order = range(len(self.sequences))
        ends = tuple(each.engine.ends.written() for each in self.members if each.engine.ends) if self.tokens else None
        engines = np.array([self.places.get(each, 0) for each in order], dtype=np.int64)
        return served([self.sequences[each] for each in order], engines, ends, horizon_s)


def times(law: StepLaw, factor: float) -> StepLaw:
    """A law all of whose steps last so many times as long."""
    if factor == 1:
        return law
    parts = tuple(Affine(*(getattr(part, name) * factor for name in part.__slots__)) for part in law.parts)
    return replace(law, parts=parts)
