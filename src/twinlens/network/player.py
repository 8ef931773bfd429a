"""Plays a schedule against a server: sends what is due, makes a row of each end, and tells the schedule.

One row for every request, whatever happens, and nothing is asked twice.
"""

from __future__ import annotations

import time
from collections import deque
from dataclasses import replace
from functools import partial

from twinlens.network.answer.ended import Ended
from twinlens.network.connection import Exchange
from twinlens.network.dialect.endpoint import Requests
from twinlens.network.dialect.openai import response_of
from twinlens.network.event_loop import EventLoop
from twinlens.record.client import LagCount
from twinlens.record.request import Request
from twinlens.schedule.request import (
    OnResponse,
    Schedule,
    ScheduledRequest,
    SeesEnds,
    Settled,
    TakesRow,
    request_of,
)

_AHEAD_NS = 5_000_000
_AT_ONCE = 8
_MOST_LATE_NS = 10_000_000_000
_SILENCE_NS = 1_000_000  # from the last token to the last byte, beyond what the bytes of one write lie apart
_TOO_LATE = "the client was over 10 s late: it was never sent"


class Player:
    """`writer`: makes the bytes of requests. `lags`, `merged`: of all reads so far."""

    def __init__(self, loop: EventLoop, writer: Requests) -> None:
        self.writer, self._loop = writer, loop
        self._on_response: OnResponse | None = None
        self.lags, self.merged = LagCount(), 0
        self._key = self._origin_ns = 0
        self._upcoming: dict[int, ScheduledRequest] = {}  # sent, or being sent, and without a row, by key
        self._ready: deque[tuple[ScheduledRequest, bytes | None]] = deque()
        self._said: dict[int, list[str]] = {}
        self._stock = Stock()
        self._after: dict[int, int] = {}
        self._before: dict[int, int] = {}
        self._early: dict[int, Ended] = {}
        self._closed: SeesEnds | None = None
        self._schedule: Schedule
        self._rows: TakesRow

    @property
    def under_way(self) -> int:
        """Requests that have no row yet."""
        return len(self._upcoming)

    def play(self, schedule: Schedule, rows: TakesRow, origin_ns: int, on_response: OnResponse | None) -> None:
        """Send what the schedule says, hand out a row for each, until nothing is due or under way.

        `origin_ns`: time zero. `on_response`: is handed every answer too.
        """
        self._schedule, self._rows, self._origin_ns, loop = schedule, rows, origin_ns, self._loop
        self._on_response = on_response
        # An open loop is settled beforehand: what is due soon is written out now, so that it leaves on time.
        ahead_ns = _AHEAD_NS if isinstance(schedule, Settled) and schedule.is_settled else 0
        ready, now = self._ready, time.monotonic_ns
        self._closed = closed = schedule if isinstance(schedule, SeesEnds) else None
        loop.follow = None if closed is None else partial(self._follow, closed)
        self._stock.clear()  # of other words, maybe
        begin_ns = now() - origin_ns
        while True:
            ready.extend((scheduled, None) for scheduled in schedule.due(now() - origin_ns))
            started = 0
            while ready and ready[0][0].intended_ns <= (now_ns := now() - origin_ns):
                was_due_ns = max(begin_ns, ready[0][0].released_ns or ready[0][0].intended_ns)
                if ahead_ns and now_ns - was_due_ns > _MOST_LATE_NS:  # or the load would last for as long as it takes
                    self._leave_out(ready.popleft()[0], now_ns)
                else:
                    self._start(*ready[0])
                    ready.popleft()
                started += 1
                if started % _AT_ONCE == 0:  # connections that have come up meanwhile wait for their request
                    self._take(loop.turn())
            due_ns = ready[0][0].intended_ns if ready else schedule.next_due_ns()
            if due_ns is None and not loop.in_flight:
                return
            if due_ns is not None and not ready and due_ns - (now() - origin_ns) <= ahead_ns:
                ready.extend((scheduled, self._payload(scheduled)) for scheduled in schedule.due(due_ns))
                continue
            if closed is not None and not ready and self._stock_up(closed):
                self._take(loop.turn())
                continue
            until_ns = None if due_ns is None else origin_ns + due_ns - (0 if ready else ahead_ns)
            self._take(loop.wait(until_ns))

    def _take(self, all_ended: list[Ended]) -> None:
        for ended in all_ended:
            self._done(ended)

    def _payload(self, scheduled: ScheduledRequest) -> bytes:
        return self.writer.of(scheduled, self._said.get(scheduled.session, ()) if scheduled.session is not None else ())

    def _start(self, scheduled: ScheduledRequest, payload: bytes | None) -> None:
        if payload is None and (written := self._stock.take(scheduled)) is not None:
            payload, _ = written
        payload = payload or self._payload(scheduled)
        self._key += 1
        # First: an interrupt can come while it is being sent, and it has its row then.
        self._upcoming[self._key] = scheduled
        self._loop.start(self._key, payload, scheduled.output_tokens if self._loop.follow else 0)

    def _leave_out(self, scheduled: ScheduledRequest, now_ns: int) -> None:
        row = unsent_row(scheduled, now_ns, _TOO_LATE)
        self._rows(row)
        self._schedule.done(row)

    def _stock_up(self, schedule: SeesEnds) -> bool:
        """Write one request of those to come out ahead, as many as may end at once; whether there was one to write."""
        place = len(self._stock)
        if place >= self._loop.in_flight or self._stock.is_full or (scheduled := schedule.coming(place)) is None:
            return False
        self._stock.add(scheduled, self._payload(scheduled), self._loop.prepare(scheduled.output_tokens))
        return True

    def _follow(self, schedule: SeesEnds, ended_key: int) -> tuple[int, bytes, Exchange] | None:
        """The request that goes out as an answer is seen to end. When it was intended is known once that answer is a
        row."""
        if not self._stock or (scheduled := schedule.take(time.monotonic_ns() - self._origin_ns)) is None:
            return None
        self._key = key = self._key + 1
        self._upcoming[key] = scheduled
        self._after[ended_key], self._before[key] = key, ended_key
        written = self._stock.take(scheduled)
        return key, *(written or (self._payload(scheduled), self._loop.prepare(scheduled.output_tokens)))

    def _done(self, ended: Ended) -> None:
        before = self._before.get(ended.key)
        if before in self._upcoming:  # whose end says when this one was intended
            self._early[ended.key] = ended
            return
        scheduled = self._upcoming.pop(ended.key)
        if before is not None:  # only where an interrupt came between the two
            scheduled = replace(scheduled, intended_ns=ended.sent_ns - self._origin_ns)
        row = self.writer.row(scheduled, ended, self._origin_ns)
        self.lags.add(ended.lags_ns)
        self.merged += ended.merged
        if scheduled.session is not None:
            self._remember(scheduled, ended, row)
        self._rows(row)
        if self._on_response is not None:
            self._on_response(scheduled, row, response_of(ended))
        if ended.fault is None and ended.over_ns - ended.end_ns > _SILENCE_NS:  # a slot is free once the stream is over
            row = replace(row, end_ns=ended.over_ns - self._origin_ns)
        after = self._after.pop(ended.key, None)
        if after is None or self._closed is None:
            self._schedule.done(row)
            return
        self._closed.done_with_follower(row)
        self._before.pop(after, None)
        self._upcoming[after] = replace(self._upcoming[after], intended_ns=row.end_ns)
        if (early := self._early.pop(after, None)) is not None:
            self._done(early)

    def _remember(self, scheduled: ScheduledRequest, ended: Ended, row: Request) -> None:
        """Puts the real answer into the next turn, where the server's cache may still hold it."""
        assert scheduled.session is not None
        answers = self._said.setdefault(scheduled.session, [])
        if row.outcome == "ok" and len(answers) == (scheduled.turn or 0):
            answers.append(ended.answer.text)

    def give_up(self, why: str) -> None:
        """End everything: a row for each request that was handed out, of those under way as they stand."""
        known = {id(scheduled) for scheduled in self._upcoming.values()}
        self._take(self._loop.abandon(why))
        taken = known - {
            id(scheduled) for scheduled in self._upcoming.values()
        }  # the one being started may stand in both
        for ended in [*self._early.values()]:
            self._done(ended)
        unsent = [
            scheduled
            for scheduled in self._upcoming.values()
            if id(scheduled) not in {id(ready) for ready, _ in self._ready}
        ]
        for scheduled in [*unsent, *(scheduled for scheduled, _ in self._ready)]:
            if id(scheduled) in taken:
                continue
            now_ns = max(scheduled.intended_ns, time.monotonic_ns() - self._origin_ns)
            self._rows(unsent_row(scheduled, now_ns, why))
        self._ready.clear()


def unsent_row(scheduled: ScheduledRequest, now_ns: int, why: str) -> Request:
    """The row of a request that the client could not send."""
    return request_of(
        scheduled,
        sent_ns=now_ns,
        chunk_ns=(),
        chunk_tokens=(),
        end_ns=now_ns,
        output_tokens=0,
        outcome="failed",
        error=why,
    )


# Requests written ahead, in the order in which a closed loop will need them.

_MOST_BYTES = 16 * 2**20


class Stock:
    """Of each: its bytes, and what will take its answer."""

    def __init__(self) -> None:
        self._written: deque[tuple[int, bytes, Exchange]] = deque()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._written)

    @property
    def is_full(self) -> bool:
        """Whether more would take too much memory."""
        return self._bytes >= _MOST_BYTES

    def add(self, scheduled: ScheduledRequest, payload: bytes, exchange: Exchange) -> None:
        """Keep one more."""
        self._written.append((scheduled.number, payload, exchange))
        self._bytes += len(payload)

    def take(self, scheduled: ScheduledRequest) -> tuple[bytes, Exchange] | None:
        """The first, if it is this one."""
        if not self._written or self._written[0][0] != scheduled.number:
            return None
        _, payload, exchange = self._written.popleft()
        self._bytes -= len(payload)
        return payload, exchange

    def clear(self) -> None:
        """Throw all away."""
        self._written.clear()
        self._bytes = 0
