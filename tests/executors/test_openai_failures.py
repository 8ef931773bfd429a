"""The HTTP client against a server that behaves badly: nothing hangs, nothing is lost, every request becomes one
row."""

from __future__ import annotations

import contextlib
import gzip
import json

import pytest
from hostile_server import (
    DONE,
    END,
    HEAD,
    Asked,
    Behaviour,
    answer,
    chunk,
    event,
    good,
    hostile,
    said,
    usage,
)
from http_play import TOKENS, asks, burst, closing, one_by_one, only, opened, play, rows_of, silently_closing, streamed

from twinlens.network import event_loop
from twinlens.record.request import Request
from twinlens.schedule.open_loop import OpenLoop


@pytest.mark.parametrize("behave", [closing, silently_closing])
def test_a_connection_closed_after_each_answer_costs_nothing_but_a_new_one(behave: Behaviour) -> None:
    with hostile(behave) as server:
        assert only(play(server.url, one_by_one(20))).outcome == "ok"
        assert len(server.asked) == 20, "nothing was asked twice"


def test_a_body_that_ends_with_its_connection_or_is_counted_is_read_as_well() -> None:
    body = b"".join([*[said(content="x")] * TOKENS, said("length"), usage(TOKENS), DONE])
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"

    def close(asked: Asked) -> None:
        asked.send(head, b"\r\n", body[:100], body[100:])
        asked.close()

    assert only(rows_of(close)).outcome == "ok"
    counted = b"content-length: %d\r\n\r\n" % len(body)
    assert only(rows_of(lambda asked: asked.send(head, counted, body[:50], body[50:]))).outcome == "ok"


def test_bursts_of_refusals_and_errors_are_rows_and_are_not_asked_again() -> None:
    def burst_of(asked: Asked) -> None:
        status = {1: b"429 Too Many Requests", 2: b"500 Internal Server Error", 3: b"503 Unavailable"}.get(asked.number)
        if status is None:
            return good(asked)
        body = b'{"error": "busy"}'
        asked.send(b"HTTP/1.1 %b\r\nRetry-After: 2\r\ncontent-length: %d\r\n\r\n%b" % (status, len(body), body))

    with hostile(burst_of) as server:
        rows = play(server.url, one_by_one(5))
    assert len(server.asked) == 5
    assert [(row.outcome, row.status) for row in rows] == [
        ("ok", 200), ("refused", 429), ("failed", 500), ("refused", 503), ("ok", 200),
    ]  # fmt: skip
    assert rows[1].error == 'HTTP 429, Retry-After 2: {"error": "busy"}'
    assert all(row.chunk_ns == () and row.output_tokens == 0 for row in rows[1:4])


def test_a_reset_in_mid_answer_keeps_what_had_come() -> None:
    def reset(asked: Asked) -> None:
        asked.send(HEAD, chunk(said(content="x")), chunk(said(content="y")))
        asked.wait(0.05)
        asked.reset()

    row = only(rows_of(reset))
    assert (row.outcome, len(row.chunk_ns)) == ("failed", 2)
    assert row.error is not None
    assert row.error.startswith("the connection broke")
    assert row.end_ns > row.chunk_ns[-1], "a failure is never quick"


def test_a_body_that_stops_short_has_failed() -> None:
    def cut(asked: Asked) -> None:
        asked.send(answer(asked.tokens)[:-5])
        asked.close()

    assert only(rows_of(cut)).error == "the server closed the connection in mid-answer"


def test_no_answer_at_all_has_failed() -> None:
    assert only(rows_of(lambda asked: asked.close())).error == "the server closed the connection before any answer"


@pytest.mark.parametrize("slow", [HEAD, HEAD + chunk(said(content="x")) * 5])
def test_a_slow_loris_is_given_up(slow: bytes) -> None:
    def loris(asked: Asked) -> None:
        with contextlib.suppress(OSError):
            for i in range(len(slow)):
                asked.send(slow[i : i + 1])
                if not asked.wait(0.02):
                    return

    rows = rows_of(loris, burst(3), timeout_s=0.4)
    assert only(rows).error == "no end after 0.4 s"
    assert all(0.4e9 <= row.end_ns - row.sent_ns < 3e9 for row in rows)


def test_a_server_that_never_answers_is_given_up() -> None:
    rows = rows_of(lambda asked: asked.wait(5) and None, burst(3), timeout_s=0.3)
    assert only(rows).error == "no end after 0.3 s"


def endless(asked: Asked) -> None:
    with contextlib.suppress(OSError):
        asked.send(HEAD)
        while asked.wait(0.0):
            asked.send(chunk(said(content=" again")) * 50)


def test_an_endless_stream_is_given_up_and_is_no_good_answer() -> None:
    row = rows_of(endless, burst(1), timeout_s=0.4)[0]
    assert row.outcome == "failed"
    assert row.error in ("no end after 0.4 s", "the answer does not end: over 262144 chunks")  # which comes first
    assert len(row.chunk_ns) > TOKENS


def test_an_endless_stream_does_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    defaults = event_loop.EventLoop.__init__.__kwdefaults__
    monkeypatch.setattr(event_loop.EventLoop.__init__, "__kwdefaults__", defaults | {"most_bytes": 10**6})
    row = rows_of(endless, burst(1))[0]
    assert row.error == "the answer does not end: over 1000000 bytes"


@pytest.mark.parametrize(
    ("events", "words"),
    [
        ([b"data: {broken\n\n"], "an event is not JSON"),
        ([said(content="x"), b'data: {"choices":[{"delta":{"content":"\x80"}}]}\n\n'], "an event is not JSON"),
        ([said(content="x")] * 3 + [said(content="x")[:-4] + b"\n\n"], "an event is not JSON"),
        ([b"data: [1]\n\n"], "no object"),
        ([event({"error": {"message": "out of  memory"}})], "the server says: out of memory"),
        ([said(role="assistant"), DONE], "the answer holds no token"),
        ([b"data: " + b"[" * 100_000 + b"\n\n"], "an event is not JSON"),
    ],
)
def test_events_that_are_not_what_they_should_be_fail_with_the_reason(events: list[bytes], words: str) -> None:
    row = only(rows_of(streamed(*events)))
    assert row.outcome == "failed"
    assert row.error is not None
    assert words in row.error


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"HELO\r\n\r\n", "not HTTP/1.x"),
        (b"HTTP/1.1 200 OK\r\nno colon here\r\n\r\n", "a header without a colon"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: -4\r\n\r\n", "content-length"),
        (HEAD + b"zz\r\n", "a chunk of size"),
        (HEAD + b"3\r\nabcdef\r\n", "longer than it said"),
        (HEAD + b"5" * 400, "does not end"),
        (HEAD.replace(b"text/event-stream", b"text/html") + chunk(b"<html>") + END, "content type text/html"),
        (HEAD.replace(b"\r\n\r\n", b"\r\ncontent-encoding: br\r\n\r\n"), "content-encoding 'br'"),
        (b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 20_000, "head of the answer does not end"),
    ],
)
def test_answers_that_are_not_http_fail_with_the_reason(data: bytes, words: str) -> None:
    def behave(asked: Asked) -> None:
        asked.send(data)
        asked.wait(0.1)
        asked.close()

    rows = rows_of(behave)
    assert {row.outcome for row in rows} == {"failed"}
    assert all(words in (row.error or "") for row in rows), rows[0].error


def test_an_answer_that_is_not_streamed_comes_in_one_piece_at_its_end() -> None:
    body = json.dumps({
        "choices": [{"message": {"content": "a b c"}, "finish_reason": "length"}],
        "usage": {"prompt_tokens": 3, "completion_tokens": TOKENS},
    }).encode()  # fmt: skip
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body)

    def behave(asked: Asked) -> None:
        asked.send(head)
        asked.wait(0.1)
        asked.send(body[:20], body[20:])

    rows = rows_of(behave)
    assert only(rows).chunk_tokens == (TOKENS,)
    assert all(row.outcome == "ok" and row.chunk_ns[0] - row.sent_ns > 0.09e9 for row in rows)


def test_gzip_that_nobody_asked_for_is_unpacked() -> None:
    body = b"".join([*[said(content="x")] * TOKENS, said("length"), usage(TOKENS), DONE])
    packed, head = gzip.compress(body), HEAD.replace(b"\r\n\r\n", b"\r\ncontent-encoding: gzip\r\n\r\n")
    row = only(rows_of(lambda asked: asked.send(head, chunk(packed[:30]), chunk(packed[30:]), END)))
    assert (row.outcome, row.output_tokens) == ("ok", TOKENS)
    broken = only(rows_of(lambda asked: asked.send(head, chunk(b"no gzip"), END)))
    assert broken.error is not None
    assert "compressed" in broken.error


def test_a_server_killed_and_restarted_costs_the_requests_between_and_no_more() -> None:
    with contextlib.ExitStack() as stack:
        first = stack.enter_context(contextlib.ExitStack())
        server = first.enter_context(hostile(good))
        done = lost = 0

        def take(row: Request) -> None:
            nonlocal done, lost
            done += 1
            lost += row.outcome != "ok"
            if done == 3:
                first.close()
            if lost == 3 and row.outcome != "ok":  # not before it was missed, however late the client is
                for asked in server.asked:
                    asked.close()
                stack.enter_context(hostile(good, port=server.port))
            rows.append(row)

        rows: list[Request] = []
        with opened(server.url) as client:
            client.play(OpenLoop(asks(24, every_ns=100_000_000)), take)  # long enough for a machine that is busy
    outcomes = [row.outcome for row in sorted(rows, key=lambda row: row.group)]
    assert len(outcomes) == 24
    assert outcomes[:3] == ["ok"] * 3
    assert outcomes[-3:] == ["ok"] * 3
    assert {"refused", "failed"} & set(outcomes), "those sent while nobody was there"
