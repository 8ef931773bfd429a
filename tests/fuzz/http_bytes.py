"""Answers over HTTP, as they are and spoilt: one outcome however they are cut, and always a row that can be written."""

from __future__ import annotations

import gzip
import json
import random
import zlib
from itertools import pairwise
from typing import Any

import pyarrow as pa
from frame import cut, mutated

from twinlens.network.answer.ended import Ended
from twinlens.network.connection import Exchange
from twinlens.network.dialect.openai import response_of, row_of
from twinlens.network.timestamp import NO_STAMP, WallOffset
from twinlens.record.request import REQUEST_SCHEMA
from twinlens.schedule.request import ScheduledRequest

_OFFSET = WallOffset(lambda: 0, lambda: 0)
_ASK = ScheduledRequest(0, 0, 0, 5, 6, (3, 0, 0))
_TEXTS = [" word", "", "é", "日本", "😀", "\ud800", "\udc00", 'a"b', "\\", "\n", "\x1b[2J", "x" * 300, "data: x", "~"]
_COUNTS = [6, 0, None, -1, 2**31, 10**18, 10**30, 1.5, 6.0, "6", True, [6], {}]
WORDS = [
    b"\r\n", b"\n\n", b"\r", b"\n", b"\r\n\r\n", b"0\r\n\r\n", b"0;x=1\r\n", b"data: ", b"data:", b"[DONE]", b"{", b"}",
    b"null", b'"', b"\\", b"\\ud800", b"\xff", b"\xed\xa0\x80", "²".encode(), b"\x1b[31m", b"9" * 30, b"-1",
    b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 100 Continue\r\n\r\n", b"Content-Length: 5\r\n", b": ping\n\n", b"x" * 300,
    b"data: {}\n\n", b'"content":"~"', b'"text":"x",', b'"refusal": "x",', b'"finish_reason":"stop"',
]  # fmt: skip


def check(source: random.Random) -> None:
    """One answer, cut in four ways."""
    data = mutated(source, answer(source), WORDS)
    if not data:
        return
    fold = source.choice([2, 5, 64])
    facts = [outcome(cut(source, data), fold, source) for _ in range(3)]
    facts.append(outcome([data], fold, source))
    for one, other in pairwise(facts):
        assert one == other, f"{data!r}"


def outcome(parts: list[bytes], fold: int, source: random.Random) -> tuple[Any, ...]:
    """What the client makes of these reads, looking when its loop would, or more often."""
    often = source.random() < 0.3
    exchange = Exchange(_OFFSET, 2**16, fold)
    exchange.sent_ns = 1
    is_over = False
    for number, data in enumerate(parts):
        exchange.got += (data, NO_STAMP, number + 2)
        is_asked = len(exchange.got) >= exchange.look_at or len(data) < 4 or data[-4] == 13 or data[0] <= 13
        if (often or is_asked) and (is_over := looked(exchange)):
            break
    if not is_over:
        exchange.lose()
        assert looked(exchange), "a closed connection ends it"
    ended = exchange.ended(10**9)
    written(ended)
    answer = ended.answer
    return (
        ended.status, sorted(ended.headers.items()), ended.fault, answer.text, len(ended.chunk_ns), answer.reasoning,
        repr(answer.usage), answer.finish, answer.error, answer.is_done, answer.chunks_at_finish, ended.body,
    )  # fmt: skip


def looked(found: Exchange) -> bool:
    while not (is_over := found.look()):
        if not found.is_behind:
            break
    return is_over


def written(ended: Ended) -> None:
    """The row, and what guards look at, can be kept and shown."""
    row = row_of(_ASK, ended, 0)
    pa.RecordBatch.from_pylist([{name: getattr(row, name) for name in REQUEST_SCHEMA.names}], schema=REQUEST_SCHEMA)
    assert (row.error is None) == (row.outcome == "ok")
    assert row.error is None or (row.error.isprintable() and len(row.error) <= 400)
    response = response_of(ended)
    for word in (response.text, response.first, response.finish or ""):
        word.encode()


def answer(source: random.Random) -> bytes:
    """A whole answer: most of them are good ones."""
    events = [event(source) for _ in range(source.choice([0, 1, 6, 6, 6, 40]))]
    end = source.choice([b"\n\n", b"\n\n", b"\r\n\r\n", b"\r\r"])
    if source.random() < 0.7:
        head = source.choice([b'{"id":"x","choices":[{"index":0,"delta":{"content":', b'{"choices":[{"text":'])
        tail = source.choice([b"}}]}", b'},"finish_reason":null}]}'])
        words = [json.dumps(source.choice(_TEXTS), ensure_ascii=source.random() < 0.5) for _ in range(20)]
        events[1:1] = [head + word.encode("utf-8", "surrogatepass") + tail for word in words]
    body = b"".join(b"data: " + one + end for one in [*events, b"[DONE]"])
    head = b"HTTP/1.1 " + source.choice([b"200 OK"] * 8 + [b"404 No", b"429 Busy", b"500", b"204 None", b"2\xb20 OK"])
    head += b"\r\ncontent-type: " + source.choice([b"text/event-stream"] * 6 + [b"application/json", b"text/html"])
    if source.random() < 0.1:
        head = b"HTTP/1.1 100 Continue\r\n\r\n" * source.choice([1, 3]) + head
    if source.random() < 0.1:
        head += b"\r\nx: " + b"y" * source.choice([500, 5000, 65_000, 70_000])
    if source.random() < 0.15:
        pack = source.choice(
            [gzip.compress, zlib.compress, lambda data: gzip.compress(data[:50]) + gzip.compress(data[50:])]
        )
        body, head = pack(body), head + b"\r\ncontent-encoding: gzip"
    return head + framed(source, body, end)


def framed(source: random.Random, body: bytes, end: bytes) -> bytes:
    """The rest of the head, and the body in its frame."""
    frame = source.choice(["chunked", "chunked", "chunked", "odd", "length", "close"])
    if frame == "length":
        return b"\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body) + source.choice([b"", b"", b"more"])
    if frame == "close":
        return b"\r\n\r\n" + body
    parts = [one + end for one in body.split(end)[:-1]] or [body]
    if frame == "odd":
        parts = [part for part in cut(source, body) if part]
    over = source.choice(
        [b"0\r\n\r\n"] * 4 + [b"0;a=b\r\n\r\n", b"00\r\nx: y\r\nz: 1\r\n\r\n", b"0\r\n\r\nmore\n\n\r\n", b"0\r\n"]
    )
    return b"\r\ntransfer-encoding: chunked\r\n\r\n" + b"".join(b"%x\r\n%b\r\n" % (len(p), p) for p in parts) + over


def event(source: random.Random) -> bytes:
    """The data of one event."""
    delta: dict[str, Any] = {"content": source.choice(_TEXTS)}
    if source.random() < 0.3:
        key = source.choice(["reasoning_content", "refusal", "role", "text", "tool_calls"])
        delta[key] = source.choice([source.choice(_TEXTS), [{"function": {"arguments": "{}"}}], None])
    said: dict[str, Any] = {
        "choices": [{"delta": delta, "finish_reason": source.choice([None] * 5 + ["stop", "\ud800"])}]
    }
    if source.random() < 0.15:
        said["usage"] = {"prompt_tokens": source.choice(_COUNTS), "completion_tokens": source.choice(_COUNTS)}
    if source.random() < 0.05:
        said["error"] = source.choice([{"message": "bad \ud800 \x1b[2J"}, "busy", 5])
    text = json.dumps(said, ensure_ascii=source.random() < 0.5, separators=source.choice([(",", ":"), (", ", ": ")]))
    return text.encode("utf-8", "surrogatepass").replace(b"\n", b" ")
