"""Virtual time beside real time: each token is written when the simulation makes it."""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import math
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from aiohttp.http_writer import StreamWriter

from twinlens.network.wakeup import Timer
from twinlens.simulation.server.answer import Answer
from twinlens.simulation.server.fault import Fault
from twinlens.simulation.server.replicas import Replicas
from twinlens.simulation.state.sequence import Sequence


@dataclass(slots=True, eq=False)
class Stream:
    """One request under way. `over`: why it ended, when it has. `writer`: None of an answer in one piece.

    `request`: as its engine has it, from the first token on. `last_ns`: when its latest token was written, of the
    monotonic clock.
    """

    number: int
    answer: Answer
    arrival_s: float
    over: asyncio.Future[str]
    fault: Fault | None = None
    writer: StreamWriter | None = None
    request: Sequence | None = None
    last_ns: int = 0

    def end(self, why: str) -> None:
        """It is over; of one whose client has left, asyncio has cancelled `over` and the place is freed soon."""
        if not self.over.done():
            self.over.set_result(why)


Write = Callable[[Stream, int, int, float], Awaitable[None]]
"""Writes tokens of a request: the first of them, how many, and how many real seconds too late."""


@dataclass(slots=True)
class Lag:
    """How much later tokens were written than they were due, in real seconds."""

    writes: int = 0
    total_s: float = 0.0
    most_s: float = 0.0

    def add(self, lag_s: float) -> None:
        self.writes += 1
        self.total_s += lag_s
        self.most_s = max(self.most_s, lag_s)

    @property
    def mean_s(self) -> float | None:
        return self.total_s / self.writes if self.writes else None


@dataclass(slots=True, order=True)
class _Due:
    at_s: float
    order: int
    stream: Stream = field(compare=False)
    first: int = field(compare=False)
    count: int = field(compare=False)


class Pace:
    """Steps `replicas` in real time. `speed`: seconds of the simulation in one of the clock.

    Step ends lie where the simulation puts them, however late this process wakes: no delay adds up.
    """

    def __init__(self, replicas: Replicas, speed: float, write: Write) -> None:
        self.replicas, self.speed, self.lag = replicas, speed, Lag()
        self._write, self._timer, self._wake = write, Timer(), asyncio.Event()
        self._begin_ns, self._order = time.monotonic_ns(), 0
        self._streams: dict[int, Stream] = {}
        self._due: list[_Due] = []

    def now_s(self) -> float:
        """The moment of the simulation."""
        return (time.monotonic_ns() - self._begin_ns) / 1e9 * self.speed

    def add(self, stream: Stream) -> None:
        """A request begins."""
        self._streams[stream.number] = stream
        self.replicas.add(stream.number, stream.answer.asked, stream.arrival_s)
        self._wake.set()

    def leave(self, stream: Stream) -> None:
        """A request is no longer wanted: its place in the engine is free from the next step on."""
        if self._streams.pop(stream.number, None) is not None:
            self.replicas.leave(stream.number)
            self._wake.set()

    async def run(self) -> None:
        """Until cancelled."""
        loop = asyncio.get_running_loop()
        if self._timer.fd is not None:
            loop.add_reader(self._timer.fd, self._rang)
        try:
            while True:
                self._wake.clear()
                await self._until(self.now_s())
                await self._sleep(loop)
        finally:
            if self._timer.fd is not None:
                loop.remove_reader(self._timer.fd)
            self._timer.close()

    def _rang(self) -> None:
        self._timer.heard()
        self._wake.set()

    async def _until(self, now_s: float) -> None:
        for made in self.replicas.until(now_s):
            stream = self._streams.get(made.number)
            if stream is None:
                continue
            stream.request, due_s = made.request, made.at_s
            if stream.fault is not None:
                due_s = stream.fault.due_s(due_s, made.first, stream.arrival_s)
            self._order += 1
            heapq.heappush(self._due, _Due(due_s, self._order, stream, made.first, made.count))
        while self._due and self._due[0].at_s <= now_s:
            due = heapq.heappop(self._due)
            if due.stream.number not in self._streams or due.stream.over.done():
                continue
            lag_s = (self.now_s() - due.at_s) / self.speed
            self.lag.add(lag_s)
            await self._write(due.stream, due.first, due.count, lag_s)
            if due.stream.over.done():
                self.leave(due.stream)

    async def _sleep(self, loop: asyncio.AbstractEventLoop) -> None:
        at_s = min(self._due[0].at_s if self._due else math.inf, self.replicas.next_s())
        at_ns = self._begin_ns + round(at_s / self.speed * 1e9) + 1 if at_s < math.inf else None
        if self._timer.fd is not None or at_ns is None:
            self._timer.set(at_ns)
            await self._wake.wait()
            return
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._wake.wait(), max(0.0, (at_ns - time.monotonic_ns()) / 1e9))
