"""Answers that end together: what follows leaves first, and the rows are what they would have been."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from hostile_server import DONE, END, HEAD, Asked, chunk, hostile, said, usage
from http_play import TOKENS, asks, opened
from test_openai_http_parts import Clocks

from twinlens.executors.http_client import event_loop
from twinlens.executors.http_client.answer.chunk_end import ends_in_chunks, is_one_chunk
from twinlens.executors.http_client.answer.ended import Ended
from twinlens.executors.http_client.connection import Address, Connection
from twinlens.executors.http_client.event_loop import EventLoop
from twinlens.executors.http_client.exchange import Exchange
from twinlens.executors.openai import player
from twinlens.record.request import Request
from twinlens.schedule.loop.closed_loop import ClosedLoop
from twinlens.schedule.request import ScheduledRequest

TOKEN = chunk(said(content="x"))
LAST = TOKEN + chunk(said("length")) + chunk(usage(TOKENS)) + chunk(DONE) + END
REQUEST = b"POST / HTTP/1.1\r\ncontent-length: 0\r\n\r\n"


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0), backlog=64) as found:
        yield found


def begun(listener: socket.socket, streams: int) -> tuple[EventLoop, list[socket.socket]]:
    """A loop with so many answers under way, of which all but the last token has been read."""
    loop = EventLoop(Address(socket.AF_INET, listener.getsockname(), "here"), timeout_ns=10**11)
    for key in range(streams):
        loop.start(key, REQUEST, TOKENS)
    loop.turn()
    servers = [listener.accept()[0] for _ in range(streams)]
    for data in (HEAD, chunk(said(role="assistant", content="")), *[TOKEN] * (TOKENS - 1)):
        for server in servers:
            server.sendall(data)
        loop.turn()
    while loop._in_flight.queue:
        loop.turn()
    return loop, servers


def test_all_that_follow_leave_before_any_answer_is_understood(
    listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    streams, order = 16, list[str]()
    loop, servers = begun(listener, streams)
    understand, sent = Exchange._fold, iter(range(100, 200))

    def folded(exchange: Exchange) -> None:
        order.append("understood")
        understand(exchange)

    def follow(ended: int) -> tuple[int, bytes, Exchange]:
        order.append("sent")
        return next(sent), REQUEST, loop.prepare(TOKENS)

    monkeypatch.setattr(Exchange, "_fold", folded)
    loop.follow = follow
    for server in servers:  # all of it lies in the machine before the client looks: no race
        server.sendall(LAST)
    ended: list[Ended] = []
    while len(ended) < streams:
        ended += loop.turn()
    assert order[:streams] == ["sent"] * streams
    assert order.count("sent") == streams
    for server in servers:
        assert server.recv(1000).count(b"POST") == 2, "on the same connection"
    assert [one.fault for one in ended] == [None] * streams
    assert all(len(one.chunk_ns) == TOKENS and one.end_ns == one.chunk_ns[-1] for one in ended)
    assert loop.in_flight == streams
    loop.close()


def followed_from_the_start(
    listener: socket.socket, streams: int, ahead_ns: list[int]
) -> tuple[EventLoop, list[socket.socket], list[int]]:
    """A loop whose answers are about to end, and that knows it; the keys whose followers have left."""
    loop = EventLoop(
        Address(socket.AF_INET, listener.getsockname(), "here"),
        timeout_ns=10**11,
        now_ns=lambda: time.monotonic_ns() + ahead_ns[0],
    )
    left: list[int] = []

    def follow(ended: int) -> tuple[int, bytes, Exchange]:
        left.append(ended)
        return 100 + ended, REQUEST, loop.prepare(TOKENS)

    loop.follow = follow
    servers = []
    for key in range(streams):
        loop.start(key, REQUEST, TOKENS)
        servers.append(listener.accept()[0])
    loop.turn()
    for data in (HEAD, chunk(said(role="assistant", content="")), *[TOKEN] * (TOKENS - 1)):
        for server in servers:
            server.sendall(data)
        loop.turn()
    while loop._in_flight.queue:
        loop.turn()
    return loop, servers, left


def test_what_ends_is_followed_before_what_goes_on_is_read(
    listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop, servers, left = followed_from_the_start(listener, 8, [0])
    assert len(loop._in_flight.near) == 8
    going_on = [one.exchange for one in loop._in_flight.running.values() if one.exchange and one.exchange.key < 4]
    kept, seen = [list(exchange.got) for exchange in going_on], list[Any]()
    push = Connection.push_first

    def pushed(connection: Connection, payload: bytes) -> None:
        seen.append([list(exchange.got) for exchange in going_on])
        push(connection, payload)

    monkeypatch.setattr(Connection, "push_first", pushed)
    for server in servers[:4]:
        server.sendall(TOKEN)
    for server in servers[4:]:
        server.sendall(LAST)
    loop.turn()
    assert sorted(left) == [4, 5, 6, 7]
    assert seen == [kept] * 4
    assert all(len(exchange.got) > len(before) for exchange, before in zip(going_on, kept, strict=True))
    loop.close()


def test_an_answer_that_ends_while_others_wait_to_be_read_is_followed_before_them(listener: socket.socket) -> None:
    going_on = 40
    loop, servers, left = followed_from_the_start(listener, going_on + 1, [0])
    reads = [len(one.exchange.got) for one in loop._in_flight.running.values() if one.exchange]
    for server in servers[:going_on]:
        server.sendall(TOKEN)
    loop.turn()
    assert left == []
    some = going_on - len(loop._followers.held)
    assert 0 < some < going_on, "a few are read, then the client looks for ends again"
    servers[going_on].sendall(LAST)
    loop.turn()
    assert left == [going_on]
    while loop._followers.held:
        loop.turn()
    running = [one.exchange for key, one in loop._in_flight.running.items() if key < going_on and one.exchange]
    assert [len(one.got) for one in running] == [before + 3 for before in reads[:going_on]], "each is read, once"
    loop.close()


def test_events_that_wait_are_dropped_with_their_connection(listener: socket.socket) -> None:
    loop, servers, _ = followed_from_the_start(listener, 40, [0])
    for server in servers:
        server.sendall(TOKEN)
    loop.turn()
    assert loop._followers.held
    ended = loop.abandon("over")
    assert len(ended) == 40
    loop.turn()
    assert not loop._followers.held
    assert loop.in_flight == 0
    loop.close()


@pytest.mark.parametrize("size", [1, 9, 15, 16, 17, 255, 256, 4095, 4096, 65536])
def test_a_piece_that_is_one_chunk_is_known_by_its_length(size: int) -> None:
    piece = b"%x\r\n%s\r\n" % (size, b"\n" * size)
    assert is_one_chunk(piece)
    assert not is_one_chunk(piece[:-1])
    assert not is_one_chunk(piece[1:])
    assert not is_one_chunk(piece + piece)
    assert ends_in_chunks(piece + piece + END)
    assert not ends_in_chunks(piece + piece)


def test_the_end_of_an_answer_inside_a_chunk_is_no_end() -> None:
    assert not ends_in_chunks(b"8\r\nx\r\n" + END)
    assert ends_in_chunks(b"8\r\nx\r\n" + END + b"\r\n" + END)
    assert not ends_in_chunks(b"")
    assert not ends_in_chunks(b"g\r\nx\r\n" + END)
    assert ends_in_chunks(b"A\r\n%s\r\n" % (b"x" * 10) + END)


def test_what_was_only_looked_at_is_taken_once_and_keeps_the_kernels_time(listener: socket.socket) -> None:
    loop, servers, left = followed_from_the_start(listener, 3, [0])
    for server in servers:
        server.sendall(LAST)
    ended = loop.turn()
    assert sorted(left) == [0, 1, 2]
    for server in servers:  # the answer to what followed comes at once
        server.sendall(HEAD + TOKEN * TOKENS + LAST)
    loop.follow = None
    while len(ended) < 6:
        ended += loop.turn()
    assert {one.key: one.fault for one in ended} == dict.fromkeys((0, 1, 2, 100, 101, 102))
    sent = {one.key: one.sent_ns for one in ended}
    assert all(0 < one.end_ns <= sent[one.key + 100] for one in ended if one.key < 100)
    assert all(len(one.chunk_ns) == TOKENS for one in ended if one.key < 100)
    loop.close()


def test_a_long_pause_before_a_wave_of_ends_is_no_reason_to_understand_any_of_them_first(
    listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As between two steps of an engine: nothing has waited meanwhile."""
    ahead_ns = [0]
    loop, servers, left = followed_from_the_start(listener, 16, ahead_ns)
    loop._in_flight.near.clear()  # the slower way, of answers whose length nobody knew
    monkeypatch.setattr(event_loop, "MOST_EVENTS", 4)  # one wave, several polls
    looked: list[int] = []
    look = Exchange.look

    def looks(exchange: Exchange) -> bool:
        looked.append(len(left))
        return look(exchange)

    monkeypatch.setattr(Exchange, "look", looks)
    for server in servers:
        server.sendall(LAST)
    ahead_ns[0] = 30_000_000
    while len(left) < 16 or not looked:
        loop.turn()
    assert looked[0] == 16
    loop.close()


@pytest.mark.parametrize("body", [b"data: x\r\n\r\n", b"data: 1\r\n0\r\n\r\n", b": 0\r\n\r\n"])
def test_an_end_is_seen_behind_chunks_that_hold_line_ends(body: bytes) -> None:
    exchange = Exchange(Clocks().offset(), 2**26, tokens=TOKENS)
    for data in (HEAD, TOKEN):
        exchange.got += (data, bytes(16), 1)
        exchange.look()
    assert exchange.is_complete(chunk(body) + LAST)
    assert not exchange.is_complete(chunk(body) + LAST + END)
    assert not exchange.is_complete(chunk(body)[:-1] + LAST)


def test_what_is_given_up_in_between_is_a_whole_answer_and_one_that_was_given_up(listener: socket.socket) -> None:
    loop, servers = begun(listener, 1)
    loop.follow = lambda ended: (7, REQUEST, loop.prepare(TOKENS))
    servers[0].sendall(LAST)
    while not loop._in_flight._parted:
        assert not loop.turn()
    ended = loop.abandon("the client was interrupted")
    assert [(one.key, one.fault) for one in ended] == [(0, None), (7, "the client was interrupted")]
    loop.close()


@pytest.mark.parametrize(
    ("head", "last"),
    [
        (HEAD, TOKEN),
        (HEAD, LAST[:-1]),
        (HEAD, chunk(b": 0\r\n\r\n") + TOKEN),
        (HEAD, chunk(b": x" + END)[:-2]),  # in mid-chunk
        (HEAD, LAST + END),
        (HEAD, b"-1\r\n" + END),
        (HEAD.replace(b"200 OK", b"503 Busy"), LAST),
        (HEAD.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n"), LAST),
        (HEAD.replace(b"transfer-encoding: chunked", b"content-length: 100000"), LAST),
    ],
)
def test_nothing_follows_what_has_not_surely_ended_well(head: bytes, last: bytes) -> None:
    exchange = Exchange(Clocks().offset(), 2**26, tokens=TOKENS)
    for data in (head, TOKEN, TOKEN):
        exchange.got += (data, bytes(16), 1)
        exchange.look()
    exchange.got += (last, bytes(16), 2)
    assert not exchange.is_complete()


def test_what_looks_like_an_end_is_one_only_where_a_chunk_ends() -> None:
    exchange = Exchange(Clocks().offset(), 2**26, tokens=TOKENS)
    for data in (HEAD, TOKEN, TOKEN):
        exchange.got += (data, bytes(16), 1)
        exchange.look()
    exchange.got += (LAST, bytes(16), 2)
    assert exchange.is_complete()


class Noted(ClosedLoop):
    """Remembers what it handed out, and how."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.taken: list[int] = []
        self.given: list[int] = []

    def take(self, now_ns: int) -> ScheduledRequest | None:
        scheduled = super().take(now_ns)
        self.taken += [scheduled.number] if scheduled else []
        return scheduled

    def due(self, now_ns: int) -> tuple[ScheduledRequest, ...]:
        due = super().due(now_ns)
        self.given += [scheduled.number for scheduled in due]
        return due


def piecewise(asked: Asked) -> None:
    for part in (HEAD, TOKEN, TOKEN, TOKEN * (TOKENS - 3)):
        asked.send(part)
        asked.wait(0.005)
    asked.send(LAST)


def test_rows_are_those_of_a_closed_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each request once, never more in flight than slots, and intended at the very moment at which an answer ended."""
    schedule, rows, lock = Noted(4, asks(40)), list[Request](), threading.Lock()
    running = most = 0

    def behave(asked: Asked) -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        asked.send(HEAD, TOKEN)
        asked.wait(0.005)
        for _ in range(TOKENS - 2):
            asked.send(TOKEN)
            asked.wait(0.002)
        with lock:
            running -= 1
        asked.send(LAST)

    with hostile(behave) as server, opened(server.url) as client:
        client.play(schedule, rows.append)
    assert {row.outcome for row in rows} == {"ok"}
    assert sorted(row.group for row in rows) == list(range(40))
    assert sorted(schedule.taken + schedule.given) == list(range(40))
    assert schedule.taken, "no answer was seen to end before it was understood"
    assert most <= 4
    ends = {row.end_ns for row in rows}
    assert all(row.intended_ns in ends and row.sent_ns >= row.intended_ns for row in rows if row.group >= 4)


@pytest.mark.parametrize("at", [1, 2, 5, 9])
def test_an_interrupt_between_an_answer_and_what_follows_it_loses_no_row(at: int) -> None:
    schedule, rows = Noted(3, asks(60)), list[Request]()

    def take(row: Request) -> None:
        rows.append(row)
        if len(rows) == at:
            raise KeyboardInterrupt

    with hostile(piecewise) as server, opened(server.url) as client, pytest.raises(KeyboardInterrupt):
        client.play(schedule, take)
    assert sorted(row.group for row in rows) == sorted(schedule.taken + schedule.given)
    assert all(row.intended_ns <= row.sent_ns <= row.end_ns for row in rows)


def test_an_answer_that_is_broken_inside_a_good_frame_fails_and_what_follows_it_does_not() -> None:
    def behave(asked: Asked) -> None:
        for part in (HEAD, TOKEN, TOKEN):
            asked.send(part)
            asked.wait(0.005)
        bad = chunk(b"data: {no\n\n") if asked.number % 2 else TOKEN * (TOKENS - 3)
        asked.send(bad + LAST)

    schedule, rows = Noted(2, asks(12)), list[Request]()
    with hostile(behave) as server, opened(server.url) as client:
        client.play(schedule, rows.append)
    assert sorted(row.group for row in rows) == list(range(12))
    assert {row.outcome for row in rows} == {"ok", "failed"}
    assert all(row.intended_ns <= row.sent_ns for row in rows)


def test_requests_are_written_before_an_end_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []
    row_of, of = player.row_of, player.RequestWriter.of

    def written(self: Any, *rest: Any) -> bytes:
        order.append("written")
        return of(self, *rest)

    def made(*rest: Any, **more: Any) -> Request:
        order.append("row")
        return row_of(*rest, **more)

    monkeypatch.setattr(player.RequestWriter, "of", written)
    monkeypatch.setattr(player, "row_of", made)
    with hostile(piecewise) as server, opened(server.url) as client:
        order.clear()
        client.play(ClosedLoop(2, asks(8)), lambda row: None)
    assert order.index("row") >= 4, "two that go out and two in stock, before the first has ended"
    assert order.count("written") == 8, "none of them twice"


def test_a_slot_that_was_taken_is_not_free_again() -> None:
    schedule = ClosedLoop(2, asks(4), until_ns=100)
    first = schedule.due(0)
    assert [scheduled.number for scheduled in first] == [0, 1]
    assert (schedule.coming(0), schedule.coming(2)) == (asks(4)[2], None)
    taken = schedule.take(50)
    assert taken is not None
    assert taken.number == 2
    row = Request(0, 0, 0, (), (), 50, 5, 6)
    schedule.done_with_follower(row)
    assert schedule.due(60) == ()
    assert schedule.take(100) is None, "the time is over"
    schedule.done(row)
    assert [(scheduled.number, scheduled.intended_ns) for scheduled in schedule.due(60)] == [(3, 50)]
