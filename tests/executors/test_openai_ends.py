"""Answers that end together: what follows leaves first."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from typing import Any

import pytest
from hostile_server import DONE, END, HEAD, chunk, said, usage
from http_play import TOKENS

from twinlens.network import event_loop
from twinlens.network.answer.ended import Ended
from twinlens.network.connection import Connection, Exchange
from twinlens.network.event_loop import EventLoop
from twinlens.network.target import Address

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
    while loop._pool.queue:
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
    while loop._pool.queue:
        loop.turn()
    return loop, servers, left


def test_what_ends_is_followed_before_what_goes_on_is_read(
    listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop, servers, left = followed_from_the_start(listener, 8, [0])
    assert len(loop._pool.near) == 8
    going_on = [one.exchange for one in loop._pool.running.values() if one.exchange and one.exchange.key < 4]
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
    reads = [len(one.exchange.got) for one in loop._pool.running.values() if one.exchange]
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
    running = [one.exchange for key, one in loop._pool.running.items() if key < going_on and one.exchange]
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
    loop._pool.near.clear()  # the slower way, of answers whose length nobody knew
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


def test_what_is_given_up_in_between_is_a_whole_answer_and_one_that_was_given_up(listener: socket.socket) -> None:
    loop, servers = begun(listener, 1)
    loop.follow = lambda ended: (7, REQUEST, loop.prepare(TOKENS))
    servers[0].sendall(LAST)
    while not loop._pool._parted:
        assert not loop.turn()
    ended = loop.abandon("the client was interrupted")
    assert [(one.key, one.fault) for one in ended] == [(0, None), (7, "the client was interrupted")]
    loop.close()
