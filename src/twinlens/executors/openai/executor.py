"""A server that speaks the OpenAI API, already up somewhere: `executor.options.url`.

One row for every request, whatever happens, and nothing is asked twice. The loop is http_client/event_loop.py; row.py
decides what counts as an answer, discovery.py asks the server about itself.
"""

from __future__ import annotations

import contextlib
import gc
import sys
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from twinlens.errors import BadInput
from twinlens.executors.http_client.answer.ended import Ended
from twinlens.executors.http_client.connection import Address
from twinlens.executors.http_client.connections import OutOfResources
from twinlens.executors.http_client.event_loop import EventLoop
from twinlens.executors.http_client.exchange import Exchange
from twinlens.executors.http_client.limits import refuse_too_many, too_many
from twinlens.executors.openai.clients import client_pool_of
from twinlens.executors.openai.discovery import facts_of, find_out, reachable
from twinlens.executors.openai.request_writer import EndpointConfig, RequestWriter
from twinlens.executors.openai.row import response_of, row_of, unsent_row
from twinlens.executors.openai.target import Target, target_of
from twinlens.executors.protocol import OnResponse, Rows, Say
from twinlens.record.client import ClientRecord, LagCount
from twinlens.record.executor.facts import Facts
from twinlens.record.request import Request
from twinlens.schedule.content.prompt import Words, words_of
from twinlens.schedule.request import Schedule, ScheduledRequest, SeesEnds
from twinlens.spec.study import RunSpec
from twinlens.spec.workload.length import Free
from twinlens.spec.workload.workload import Images, InferenceWorkload

_AHEAD_NS = 5_000_000
_SWITCH_S = 0.0005
_GARBAGE = 50_000
_AT_ONCE = 8
_MOST_STOCK_BYTES = 16 * 2**20
_MOST_LATE_NS = 10_000_000_000
_TOO_LATE = "the client was over 10 s late: it was never sent"


class OpenAIServer:
    """`open` for a spec with the url in its options; a launcher that knows its server uses `attach`."""

    def __init__(self) -> None:
        self._loop: EventLoop | None = None
        self._origin_ns: int | None = None
        self._on_response: OnResponse | None = None

    def open(self, spec: RunSpec, say: Say) -> Facts:
        return self.attach(target_of("openai-http", spec.executor.options), spec, say)

    def attach(self, target: Target, spec: RunSpec, say: Say) -> Facts:
        """Ask the server who it is and what it accepts, and get ready to play. Raises BadInput and ExecutorFailed."""
        workload = spec.workload
        assert isinstance(workload, InferenceWorkload)
        if isinstance(workload.data, Images):
            raise BadInput("images cannot be sent to an OpenAI server; take a language model", code="TL202")
        if client_pool_of(spec.executor.options).is_one:  # else each client sees for itself
            refuse_too_many(max(spec.point.concurrency or 1, spec.point.in_flight or 1))
        say("asking the server who it is")
        words = words_of(workload.prompts)
        if isinstance(workload.output_tokens, Free):
            target = replace(target, force_length=False)
        found = find_out(target, words, spec)
        requests = RequestWriter(
            target, words, found.model, force_length=found.forces_length, with_usage=found.takes_stream_options
        )
        if isinstance(workload.output_tokens, Free):
            requests = requests.ending_freely()
        self._equip(EndpointConfig(target, requests), found.address)
        return facts_of(target, found, spec)

    def endpoint(self) -> EndpointConfig:
        """What another client needs to ask this server too."""
        return self._endpoint

    def connect(self, endpoint: EndpointConfig) -> None:
        """Connect to an endpoint that another client found out, instead of `attach`, asking the server nothing. Raises
        ExecutorFailed where it cannot be reached from here."""
        self._equip(endpoint, reachable(endpoint.target))

    @property
    def network_client(self) -> OpenAIServer:
        """Itself: all it does is ask."""
        return self

    def begin_at(self, origin_ns: int) -> None:
        """Let time zero be this moment of the monotonic clock, which clients that play together share."""
        self._origin_ns = origin_ns

    @property
    def origin_ns(self) -> int | None:
        """Time zero on the monotonic clock, from which rows count; None before the first `play`."""
        return self._origin_ns

    def _equip(self, endpoint: EndpointConfig, address: Address) -> None:
        target = endpoint.target
        self._endpoint, self._requests = endpoint, endpoint.requests
        self._loop = EventLoop(address, timeout_ns=round(target.timeout_s * 1e9), stamps=target.kernel_stamps)
        self._lags, self._key = LagCount(), 0
        self._upcoming: dict[int, ScheduledRequest] = {}
        self._ready: deque[tuple[ScheduledRequest, bytes | None]] = deque()
        self._said: dict[int, list[str]] = {}
        self._merged = 0
        self._stock: deque[tuple[int, bytes, Exchange]] = deque()
        self._stock_bytes = 0
        self._after: dict[int, int] = {}
        self._before: dict[int, int] = {}
        self._early: dict[int, Ended] = {}
        self._closed: SeesEnds | None = None

    def play(self, schedule: Schedule, rows: Rows) -> None:
        assert self._loop is not None
        with undisturbed():  # before time zero: it takes 10 ms, in which the first requests would be late
            if self._origin_ns is None:
                self._origin_ns = time.monotonic_ns()
            try:
                self._play(self._loop, self._origin_ns, schedule, rows)
            except OutOfResources as error:
                self._give_up(self._loop, schedule, rows, "the client ran out of resources")
                raise too_many(len(self._upcoming), str(error)) from error
            except KeyboardInterrupt:
                self._give_up(self._loop, schedule, rows, "the client was interrupted")
                raise

    @property
    def forces_length(self) -> bool:
        """Whether requests say that an answer may not end before its limit."""
        return self._requests.forces_length

    def on_response(self, on_response: OnResponse | None) -> None:
        """Hand every answer, as it ends, to `on_response` too, with what it said: rows keep no text. None: no
        longer."""
        self._on_response = on_response

    @contextlib.contextmanager
    def asking(self, *, words: Words | None = None, in_one_piece: bool = False) -> Iterator[None]:
        """Meanwhile ask with other words, or for answers that are not streamed."""
        usual = self._requests
        if words is not None:
            self._requests = self._requests.quoting(words)
        if in_one_piece:
            self._requests = self._requests.in_one_piece()
        try:
            yield
        finally:
            self._requests = usual

    def client(self) -> ClientRecord:
        """How the client itself has done so far."""
        assert self._loop is not None
        counts = self._loop.counts
        stamped = counts.unstamped_connections == 0 and counts.connects > 0
        return ClientRecord(
            stamps="kernel" if stamped else "client",
            reads=counts.reads,
            merged_reads=self._merged,
            connects=counts.connects,
            retries=counts.retries,
            gather_ns=counts.gather_ns,
            clock_steps=self._loop.offset.steps,
            lags=self._lags,
        )

    def close(self) -> None:
        if self._loop is not None:
            self._loop.close()
            self._loop = None

    def _play(self, loop: EventLoop, origin_ns: int, schedule: Schedule, rows: Rows) -> None:
        # An open loop is settled beforehand: what is due soon is written out now, so that it leaves on time.
        ahead_ns = _AHEAD_NS if getattr(schedule, "is_settled", False) else 0
        ready, now = self._ready, time.monotonic_ns
        self._closed = closed = schedule if isinstance(schedule, SeesEnds) else None
        loop.follow = None if closed is None else partial(self._follow, closed, loop)
        self._stock.clear()  # of other words, maybe
        self._stock_bytes = 0
        begin_ns = now() - origin_ns
        while True:
            ready.extend((scheduled, None) for scheduled in schedule.due(now() - origin_ns))
            started = 0
            while ready and ready[0][0].intended_ns <= (now_ns := now() - origin_ns):
                was_due_ns = max(begin_ns, ready[0][0].released_ns or ready[0][0].intended_ns)
                if ahead_ns and now_ns - was_due_ns > _MOST_LATE_NS:  # or the load would last for as long as it takes
                    self._leave_out(ready.popleft()[0], now_ns, schedule, rows)
                else:
                    self._start(loop, *ready[0])
                    ready.popleft()
                started += 1
                if started % _AT_ONCE == 0:  # connections that have come up meanwhile wait for their request
                    self._take(loop.turn(), origin_ns, schedule, rows)
            due_ns = ready[0][0].intended_ns if ready else schedule.next_due_ns()
            if due_ns is None and not loop.in_flight:
                return
            if due_ns is not None and not ready and due_ns - (now() - origin_ns) <= ahead_ns:
                ready.extend((scheduled, self._payload(scheduled)) for scheduled in schedule.due(due_ns))
                continue
            if closed is not None and not ready and self._stock_up(closed, loop):
                self._take(loop.turn(), origin_ns, schedule, rows)
                continue
            until_ns = None if due_ns is None else origin_ns + due_ns - (0 if ready else ahead_ns)
            self._take(loop.wait(until_ns), origin_ns, schedule, rows)

    def _take(self, all_ended: list[Ended], origin_ns: int, schedule: Schedule, rows: Rows) -> None:
        for ended in all_ended:
            self._done(ended, origin_ns, schedule, rows)

    def _payload(self, scheduled: ScheduledRequest) -> bytes:
        return self._requests.of(
            scheduled, self._said.get(scheduled.session, ()) if scheduled.session is not None else ()
        )

    def _start(self, loop: EventLoop, scheduled: ScheduledRequest, payload: bytes | None) -> None:
        if payload is None and (written := self._from_stock(scheduled)) is not None:
            payload, _ = written
        payload = payload or self._payload(scheduled)
        self._key += 1
        self._upcoming[self._key] = (
            scheduled  # first: an interrupt can come while it is being sent, and it has its row then
        )
        loop.start(self._key, payload, scheduled.output_tokens if loop.follow else 0)

    def _leave_out(self, scheduled: ScheduledRequest, now_ns: int, schedule: Schedule, rows: Rows) -> None:
        row = unsent_row(scheduled, now_ns, _TOO_LATE)
        rows(row)
        schedule.done(row)

    def _stock_up(self, schedule: SeesEnds, loop: EventLoop) -> bool:
        """Write one request of those to come out ahead, as many as may end at once; whether there was one to write."""
        place = len(self._stock)
        if (
            place >= loop.in_flight
            or self._stock_bytes >= _MOST_STOCK_BYTES
            or (scheduled := schedule.coming(place)) is None
        ):
            return False
        payload = self._payload(scheduled)
        self._stock.append((scheduled.number, payload, loop.prepare(scheduled.output_tokens)))
        self._stock_bytes += len(payload)
        return True

    def _from_stock(self, scheduled: ScheduledRequest) -> tuple[bytes, Exchange] | None:
        if not self._stock or self._stock[0][0] != scheduled.number:
            return None
        _, payload, exchange = self._stock.popleft()
        self._stock_bytes -= len(payload)
        return payload, exchange

    def _follow(self, schedule: SeesEnds, loop: EventLoop, ended_key: int) -> tuple[int, bytes, Exchange] | None:
        """What goes out as an answer is seen to end. When it was intended is known once that answer is a row."""
        assert self._origin_ns is not None
        if not self._stock or (scheduled := schedule.take(time.monotonic_ns() - self._origin_ns)) is None:
            return None
        self._key = key = self._key + 1
        self._upcoming[key] = scheduled
        self._after[ended_key], self._before[key] = key, ended_key
        written = self._from_stock(scheduled) or (self._payload(scheduled), loop.prepare(scheduled.output_tokens))
        return key, *written

    def _done(self, ended: Ended, origin_ns: int, schedule: Schedule, rows: Rows) -> None:
        before = self._before.get(ended.key)
        if before in self._upcoming:  # whose end says when this one was intended
            self._early[ended.key] = ended
            return
        scheduled = self._upcoming.pop(ended.key)
        if before is not None:  # only where an interrupt came between the two
            scheduled = replace(scheduled, intended_ns=ended.sent_ns - origin_ns)
        row = row_of(scheduled, ended, origin_ns, free=self._requests.free)
        self._lags.add(ended.lags_ns)
        self._merged += ended.merged
        if scheduled.session is not None:
            self._remember(scheduled, ended, row)
        rows(row)
        if self._on_response is not None:
            self._on_response(scheduled, row, response_of(ended))
        after = self._after.pop(ended.key, None)
        if after is None or self._closed is None:
            schedule.done(row)
            return
        self._closed.done_with_follower(row)
        self._before.pop(after, None)
        self._upcoming[after] = replace(self._upcoming[after], intended_ns=row.end_ns)
        if (early := self._early.pop(after, None)) is not None:
            self._done(early, origin_ns, schedule, rows)

    def _remember(self, scheduled: ScheduledRequest, ended: Ended, row: Request) -> None:
        """What was really said goes into the next turn, where the server's cache may still hold it."""
        assert scheduled.session is not None
        said = self._said.setdefault(scheduled.session, [])
        if row.outcome == "ok" and len(said) == (scheduled.turn or 0):
            said.append(ended.answer.text)

    def _give_up(self, loop: EventLoop, schedule: Schedule, rows: Rows, why: str) -> None:
        assert self._origin_ns is not None
        known = {id(scheduled) for scheduled in self._upcoming.values()}
        self._take(loop.abandon(why), self._origin_ns, schedule, rows)
        taken = known - {
            id(scheduled) for scheduled in self._upcoming.values()
        }  # the one being started may stand in both
        for ended in [*self._early.values()]:
            self._done(ended, self._origin_ns, schedule, rows)
        unsent = [
            scheduled
            for scheduled in self._upcoming.values()
            if id(scheduled) not in {id(one) for one, _ in self._ready}
        ]
        for scheduled in [*unsent, *(scheduled for scheduled, _ in self._ready)]:
            if id(scheduled) in taken:
                continue
            now_ns = max(scheduled.intended_ns, time.monotonic_ns() - self._origin_ns)
            rows(unsent_row(scheduled, now_ns, why))
        self._ready.clear()


_calm = [False]  # whether somebody in this process is inside `undisturbed`


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """Other threads hand the interpreter back soon, and collecting garbage does not walk over what was there before.

    Once is enough: inside another one nothing is done, so that a load of many slices collects before the first only.
    """
    if _calm[0]:
        yield
        return
    switch_s, thresholds = sys.getswitchinterval(), gc.get_threshold()
    try:
        _calm[0] = True
        sys.setswitchinterval(_SWITCH_S)
        gc.collect()
        gc.freeze()
        gc.set_threshold(_GARBAGE, *thresholds[1:])
        yield
    finally:
        _calm[0] = False
        gc.set_threshold(*thresholds)
        gc.unfreeze()
        sys.setswitchinterval(switch_s)
