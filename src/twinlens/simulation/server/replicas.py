"""Engines behind one address, stepped in virtual time as it passes: requests in, tokens with their times out."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from twinlens.simulation.engine import Engine
from twinlens.simulation.routing import Router, Routing, check_routing
from twinlens.simulation.server.asked import Asked
from twinlens.simulation.server.metrics import State
from twinlens.simulation.state.sequence import Sequence as Request


@dataclass(frozen=True, slots=True)
class Made:
    """`count` tokens of a request, from the `first` on, which its client has at `at_s`.

    `request`: as its engine has it.
    """

    number: int
    request: Request
    first: int
    count: int
    at_s: float


@dataclass(slots=True)
class _Open:
    """A request in an engine. `moments`, `tokens`: of its answer, so many were handed out."""

    number: int
    request: Request
    moments: int = 0
    tokens: int = 0


class Replicas:
    """`engines` with one router in front. Seconds are virtual, and never go back.

    `before_s`, `after_s` of the law lie outside of the engines: here. `most_waiting`: requests that a step found no
    place for, at most at one time.
    """

    def __init__(
        self, engines: Sequence[Engine], routing: Routing, before_s: float = 0.0, after_s: float = 0.0
    ) -> None:
        check_routing(routing)
        self.engines, self._router, self.most_waiting = list(engines), Router(routing), 0
        self._by_tokens = routing.policy == "least-tokens"
        self._late: list[list[float]] = [[] for _ in engines]
        self._waiting = [0] * len(self.engines)
        self._before_s, self._after_s = before_s, after_s
        self._coming: deque[tuple[float, int, Asked]] = deque()
        self._open: list[dict[int, _Open]] = [{} for _ in engines]
        self._at: dict[int, int] = {}
        self._preemptions = [0] * len(self.engines)

    def add(self, number: int, asked: Asked, arrival_s: float) -> None:
        """A request was sent at `arrival_s`."""
        at_s = arrival_s + self._before_s
        self._coming.append((max(at_s, self._coming[-1][0]) if self._coming else at_s, number, asked))

    def leave(self, number: int) -> None:
        """A request is over for its client: an engine that still works on it drops it after the step under way."""
        place = self._at.pop(number, None)
        if place is None:
            self._coming = deque(each for each in self._coming if each[1] != number)
            return
        for key, each in self._open[place].items():
            if each.number == number:
                self.engines[place].drop(each.request)
                self._close(place, key)
                return

    def next_s(self) -> float:
        """When the next step begins or the next request comes; infinite where nothing is under way."""
        return min(self._coming[0][0] if self._coming else math.inf, *(engine.next_s for engine in self.engines))

    def until(self, now_s: float) -> Iterator[Made]:
        """Run all steps that begin by `now_s`, and give the tokens that they bring, some of them later than now."""
        while True:
            place = min(range(len(self.engines)), key=lambda i: self.engines[i].next_s)
            begin_s = self.engines[place].next_s
            arrival_s = self._coming[0][0] if self._coming else math.inf
            if min(begin_s, arrival_s) > now_s:
                return
            if arrival_s <= begin_s:
                self._enter(*self._coming.popleft())
            else:
                # One step: none begins later than this one and before the next float.
                self.engines[place].run_until(math.nextafter(begin_s, math.inf))
                self._waiting[place] = len(self.engines[place].waiting)
                self.most_waiting = max(self.most_waiting, self.waiting)
                yield from self._made(place)

    @property
    def waiting(self) -> int:
        """Requests that the last step of their engine found no place for."""
        return sum(self._waiting)

    def states(self) -> list[State]:
        """Engines as they are now; what has not reached one waits at the first."""
        found = []
        for i, engine in enumerate(self.engines):
            cache = engine.cache
            waiting = len(engine.waiting) + (len(self._coming) if i == 0 else 0)
            preemptions = self._preemptions[i] + sum(each.request.preemptions for each in self._open[i].values())
            found.append(State(len(engine.running), waiting, cache.used / (cache.used + cache.free), preemptions))
        return found

    def _enter(self, at_s: float, number: int, asked: Asked) -> None:
        place = self._router.choose(range(len(self.engines)), at_s, asked.group, lambda i: self._load(i, at_s))
        request = self.engines[place].add(
            at_s,
            asked.prompt_tokens,
            asked.output_tokens,
            priority=asked.priority,
            group=asked.group,
            shared=asked.shared_tokens,
        )
        self._open[place][request.number] = _Open(number, request)
        self._at[number] = place

    def _load(self, place: int, now_s: float) -> float:
        """Requests of an engine, those among them whose last step is still under way; or tokens that it has left."""
        engine = self.engines[place]
        if self._by_tokens:
            return engine.outstanding_tokens
        self._late[place] = late = [each for each in self._late[place] if each > now_s]
        return len(engine.running) + len(engine.waiting) + len(late)

    def _made(self, place: int) -> Iterator[Made]:
        engine = self.engines[place]
        for request in (*engine.running, *engine.finished):
            known = self._open[place].get(request.number)
            if known is None or known.moments == request.made:
                continue
            tokens = request.tokens(request.made)
            at_s = engine.now_s + self._after_s
            yield Made(known.number, request, known.tokens, tokens - known.tokens, at_s)
            known.moments, known.tokens = request.made, tokens
        for request in engine.finished:
            self._late[place].append(request.end_s)
            self._at.pop(self._close(place, request.number), None)
        engine.finished.clear()

    def _close(self, place: int, key: int) -> int:
        known = self._open[place].pop(key, None)
        if known is None:
            return 0
        self._preemptions[place] += known.request.preemptions
        return known.number
