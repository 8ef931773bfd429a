"""The parts of the HTTP client by themselves: cuts anywhere, clocks that are set, lags, and the fast way's equality."""

from __future__ import annotations

import json
import struct
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hostile_server import DONE, END, HEAD, chunk, said, usage
from hypothesis import given, settings
from hypothesis import strategies as st

from twinlens.network.answer.ended import Ended
from twinlens.network.answer.events import Events
from twinlens.network.answer.fast_path import FastPath
from twinlens.network.connection import Exchange
from twinlens.network.dialect.openai import row_of
from twinlens.network.timestamp import NO_STAMP, WallOffset, arrival_ns
from twinlens.record.client import LagCount
from twinlens.schedule.request import ScheduledRequest

S = 1_000_000_000


class Clocks:
    """A wall clock and a monotonic clock that a test moves."""

    def __init__(self) -> None:
        self.monotonic, self.wall = 100 * S, 1_790_000_000 * S

    def offset(self) -> WallOffset:
        return WallOffset(lambda: self.wall, lambda: self.monotonic)

    def move(self, ns: int) -> None:
        self.monotonic += ns
        self.wall += ns


def stamp(wall_ns: int) -> bytes:
    return struct.pack("qq", *divmod(wall_ns, S))


def exchanged(parts: list[bytes], *, look_each: bool = False) -> Ended:
    """What an exchange makes of these reads, the n-th of which arrived at n milliseconds and was read at n + 0.1."""
    clocks = Clocks()
    exchange = Exchange(clocks.offset(), 2**26)
    begin = clocks.monotonic
    exchange.sent_ns = begin
    for data in parts:
        clocks.move(1_000_000)
        exchange.got += (data, stamp(clocks.wall), clocks.monotonic + 100_000)
        if look_each or len(exchange.got) >= exchange.look_at or data[-4:] == b"\r\n\r\n" or len(data) < 4:
            look(exchange)
    exchange.lose()
    look(exchange)
    ended = exchange.ended(clocks.monotonic + S)
    ended.chunk_ns[:] = (ended.chunk_ns - begin) // 1_000_000
    return ended


def look(exchange: Exchange) -> None:
    while not exchange.look() and exchange.is_behind:
        pass


def cut(data: bytes, places: list[int]) -> list[bytes]:
    edges = sorted({0, len(data), *(place % (len(data) + 1) for place in places)})
    return [data[a:b] for a, b in pairwise(edges)]


def facts(ended: Ended) -> tuple[Any, ...]:
    answer = ended.answer
    return answer.text, len(ended.chunk_ns), answer.usage, answer.finish, answer.reasoning, ended.fault, answer.is_done


def odd(text: str) -> bytes:
    """Content, beside a string that looks like it."""
    return f'data: {{"choices":[{{"delta":{{"content":{text}}}}}],"extra":"\\"content\\":\\"x\\""}}\n\n'.encode()


deltas = st.one_of(
    st.text(max_size=8).map(lambda text: said(content=text)),
    st.text(max_size=4).map(lambda text: said(content=text, role="assistant")),
    st.text(max_size=4).map(lambda text: said(reasoning_content=text)),
    st.just(said(content=None, tool_calls=[{"function": {"arguments": "{}"}}])),
    st.just(b": a comment\n\n"),
    st.just(said("stop")),
    st.text(max_size=4).map(lambda text: odd(json.dumps(text))),
)
places = st.lists(st.integers(0, 10**6), max_size=30)


@given(st.lists(deltas, max_size=20), places, st.booleans(), st.booleans())
@settings(max_examples=150, deadline=None)
def test_where_the_bytes_are_cut_changes_nothing(
    events: list[bytes], at: list[int], carriage: bool, once: bool
) -> None:
    if carriage:
        events = [event.replace(b"\n", b"\r\n") for event in events]
    framed = [chunk(*events)] if once and events else list(map(chunk, events))
    whole = HEAD + b"".join([*framed, chunk(usage(3)), chunk(DONE)]) + END
    assert (
        facts(exchanged(cut(whole, at)))
        == facts(exchanged([whole]))
        == facts(exchanged(cut(whole, at), look_each=True))
    )


@given(st.lists(deltas, min_size=1, max_size=30), places)
@settings(max_examples=150, deadline=None)
def test_the_fast_way_reads_what_the_general_way_reads(events: list[bytes], at: list[int]) -> None:
    whole = HEAD + b"".join(map(chunk, [*events, said("length"), usage(3), DONE])) + END
    quick = exchanged(cut(whole, at))
    learn, FastPath.read = FastPath.read, lambda self, wire, at, *rest: at  # type: ignore[method-assign, assignment]
    try:
        general = exchanged(cut(whole, at))
    finally:
        FastPath.read = learn  # type: ignore[method-assign]
    assert facts(quick) == facts(general)
    assert quick.chunk_ns.tolist() == general.chunk_ns.tolist()
    assert quick.merged == general.merged


@pytest.mark.parametrize("frame", ["chunked", "length", "close"])
def test_a_long_stream_is_read_by_its_template_at_the_time_of_each_read(frame: str) -> None:
    words = [f" w{i}" + "x" * (i % 40) for i in range(400)]
    events = [said(role="assistant", content=""), *[said(content=word) for word in words], said("length"), usage(400)]
    if frame == "chunked":
        parts = [HEAD, *map(chunk, events), END]
    else:
        size = b"content-length: %d\r\n" % sum(map(len, events)) if frame == "length" else b""
        parts = [b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n" + size + b"\r\n", *events]
    ended = exchanged(parts)
    assert ended.answer.text == "".join(words)
    assert ended.chunk_ns.tolist() == list(range(3, 403)), "head and role came at 1 and 2"
    assert ended.fault is None
    assert ended.merged == 0
    assert set(ended.lags_ns.tolist()) == {100_000}


@pytest.mark.parametrize(
    "bad",
    [
        said(content="x").replace(b'"x"', b'"\\x"'),
        said(content="x").replace(b'"x"', b'"a\tb"'),
        said(content="x").replace(b'"x"', b'"\xff"'),
        said(content="x").replace(b'"x"', b'"a"b"'),
        said(content="x").replace(b"null}]}", b"null}]"),
    ],
)
def test_the_fast_way_lets_nothing_broken_through(bad: bytes) -> None:
    good = [said(content="x")] * 10
    ended = exchanged([HEAD, *map(chunk, [*good, bad, *good]), END])
    assert ended.fault is not None
    assert "not JSON" in ended.fault
    assert len(ended.chunk_ns) == 10, "what came before it counts"


def test_a_chunk_that_lies_about_its_size_is_found_out_on_the_fast_way_too() -> None:
    good = [chunk(said(content="x"))] * 10
    longer = chunk(said(content="yy")).replace(b"%x" % len(said(content="yy")), b"%x" % len(said(content="x")), 1)
    ended = exchanged([HEAD, *good, longer, *good, END])
    assert ended.fault == "a chunk is longer than it said"


def test_events_of_several_lines_are_joined_and_the_last_needs_no_empty_line() -> None:
    events = Events()
    assert list(events.feed(b"\n\n: c\ndata: a\ndata:b\nid: 1\n\ndata")) == [b"a\nb"]
    assert list(events.feed(b": c\r")) == []
    assert list(events.feed(b"\n")) == []
    assert list(events.end()) == [b"c"]
    assert list(Events().end()) == []


def test_a_stamp_is_put_on_the_monotonic_clock() -> None:
    clocks = Clocks()
    offset = clocks.offset()
    stamps = stamp(clocks.wall + 500) + stamp(clocks.wall + 900)
    read_ns = np.array([clocks.monotonic + 700, clocks.monotonic + 1000])
    assert arrival_ns(stamps, read_ns, offset, 0).tolist() == [clocks.monotonic + 500, clocks.monotonic + 900]


@pytest.mark.parametrize("step_ns", [-3600 * S, -5 * S, -30_000_000, 30_000_000, 5 * S, 3600 * S])
@pytest.mark.parametrize("known_ns", [0, 8_000_000])
def test_setting_the_clock_moves_no_stamp(step_ns: int, known_ns: int) -> None:
    """The step happens between two reads, and is found out at once or up to 10 ms later."""
    clocks = Clocks()
    offset, stamps, read_ns, true = clocks.offset(), b"", [], []
    for i in range(10):
        clocks.move(20_000_000)
        if i == 5:
            clocks.wall += step_ns
        stamps += stamp(clocks.wall)
        true.append(clocks.monotonic)
        clocks.move(50_000)
        read_ns.append(clocks.monotonic)
        if i == 5:
            clocks.move(known_ns)
        offset.watch(clocks.monotonic)
    assert offset.steps == 1
    assert arrival_ns(stamps, np.array(read_ns), offset, 0).tolist() == true


def test_without_a_stamp_the_read_itself_counts_and_no_time_lies_before_the_send_or_falls() -> None:
    clocks = Clocks()
    now = clocks.monotonic
    stamps = stamp(clocks.wall - S) + NO_STAMP + stamp(clocks.wall + 100)
    times_ns = arrival_ns(stamps, np.array([now + 10, now + 200, now + 300]), clocks.offset(), now)
    assert times_ns.tolist() == [now, now + 200, now + 200]


def test_noise_of_the_measurement_is_no_step() -> None:
    clocks = Clocks()
    offset = clocks.offset()
    clocks.move(20_000_000)
    clocks.wall += 15_000
    offset.watch(clocks.monotonic)
    assert (offset.steps, offset.next_ns) == (0, clocks.monotonic + 10_000_000)


@given(st.lists(st.integers(1, 10**12), min_size=1, max_size=200))
def test_lag_quantiles_are_right_within_a_bucket(lags: list[int]) -> None:
    count = LagCount()
    for lag in lags:
        count.add(np.array([lag]))
    true = float(np.quantile(lags, 0.5, method="inverted_cdf"))
    said_ns = count.quantile_ns(0.5)
    assert said_ns is not None
    assert true * 0.999 <= said_ns <= max(true * 1.1, true + 1)  # whole nanoseconds: the edge is rounded
    assert count.max_ns == max(lags)


def test_no_lag_is_no_number() -> None:
    assert LagCount().quantile_ns(0.5) is None
    assert LagCount().max_ns is None


@given(st.integers(0, 500), st.integers(1, 100))
def test_tokens_are_spread_over_chunks_without_losing_one(tokens: int, chunks: int) -> None:
    events = [said(content="x")] * chunks
    ended = exchanged([HEAD, *map(chunk, [*events, said("length"), usage(tokens)]), END])
    row = row_of(ScheduledRequest(0, 0, 0, 1, tokens, (0,)), ended, 0, forced=True)
    assert len(row.chunk_tokens) == chunks
    assert sum(row.chunk_tokens) == row.output_tokens == tokens
    assert max(row.chunk_tokens) - min(row.chunk_tokens) <= 1
