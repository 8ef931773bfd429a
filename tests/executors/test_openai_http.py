"""The HTTP client against a server that behaves badly: nothing hangs, nothing is lost, every ask becomes one row."""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import random
import resource
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hostile_server import (
    DONE,
    END,
    HEAD,
    Asked,
    Behaviour,
    Hostile,
    answer,
    chunk,
    dribble,
    event,
    good,
    hostile,
    said,
    usage,
)

from material import Timed, Watched, inference, quiet, spec_of
from twinlens.errors import BadInput, ExecutorFailed
from twinlens.executors import receive
from twinlens.executors.null_server import null_server
from twinlens.executors.openai_http import OpenAIServer
from twinlens.executors.poller import _Poller
from twinlens.record.executor import FIELDS
from twinlens.record.request import REQUEST_SCHEMA, Request
from twinlens.record.rows import RowWriter, read_rows
from twinlens.schedule.admission import Continuous
from twinlens.schedule.ask import Ask, Schedule
from twinlens.schedule.closed_loop import ClosedLoop
from twinlens.schedule.open_loop import OpenLoop

TOKENS = 6


def asks(count: int, every_ns: int = 0, tokens: int = TOKENS) -> list[Ask]:
    return [Ask(i, i, i * every_ns, 5, tokens, (3, 0, i)) for i in range(count)]


def burst(count: int, tokens: int = TOKENS) -> OpenLoop:
    return OpenLoop(asks(count, tokens=tokens))


def one_by_one(count: int, tokens: int = TOKENS) -> ClosedLoop:
    return ClosedLoop(1, asks(count, tokens=tokens))


@contextlib.contextmanager
def opened(url: str, **options: Any) -> Iterator[OpenAIServer]:
    client = OpenAIServer()
    options = {"url": url, "probe": False, "timeout_s": 5.0} | options
    try:
        client.open(spec_of(inference("openai-http", options=options)), quiet)
        yield client
    finally:
        client.close()


def play(url: str, schedule: Schedule, **options: Any) -> list[Request]:
    """The rows of a schedule, after checking what holds whatever the server does."""
    rows: list[Request] = []
    watched = Watched(schedule)
    begin = time.monotonic()
    with opened(url, **options) as client:
        client.play(watched, rows.append)
    assert time.monotonic() - begin < 15, "it took far too long"
    assert sorted(ask.group for ask in watched.asked) == sorted(row.group for row in rows), "one row for every ask"
    for row in rows:
        times = [row.intended_ns, row.sent_ns, *row.chunk_ns, row.end_ns]
        assert times == sorted(times)
        assert len(row.chunk_ns) == len(row.chunk_tokens)
        assert row.outcome != "ok" or sum(row.chunk_tokens) == row.output_tokens
        assert (row.error is None) == (row.outcome == "ok")
    return rows


def rows_of(behave: Behaviour, schedule: Schedule | None = None, **options: Any) -> list[Request]:
    with hostile(behave) as server:
        return play(server.url, schedule or one_by_one(2), **options)


def streamed(*events: bytes) -> Behaviour:
    """A behaviour: these events, a chunk each, and a good end of the body."""
    return lambda asked: asked.send(HEAD, *map(chunk, events), END)


def only(rows: list[Request]) -> Request:
    """The row that all rows are like."""
    assert len({(row.outcome, row.error, len(row.chunk_ns), row.chunk_tokens) for row in rows}) == 1
    return rows[0]


def test_a_good_answer_is_recorded_whole() -> None:
    row = only(rows_of(good))
    assert (row.outcome, row.status, row.input_tokens, row.output_tokens) == ("ok", 200, 7, TOKENS)
    assert row.chunk_tokens == (1,) * TOKENS
    assert row.lag_ns is not None
    assert row.lag_ns >= 0


def test_the_request_asks_for_a_greedy_stream_of_the_length_wanted() -> None:
    with hostile(good) as server:
        play(server.url, one_by_one(1), force_length=True, model="m", body={"top_k": 1})
    body = server.asked[0].body
    assert body.pop("messages")[0]["role"] == "user"
    assert body == {
        "model": "m", "stream": True, "temperature": 0, "stream_options": {"include_usage": True}, "top_k": 1,
        "max_tokens": TOKENS, "min_tokens": TOKENS, "ignore_eos": True,
    }  # fmt: skip
    assert server.asked[0].head.startswith("POST /v1/chat/completions HTTP/1.1")


def test_the_completions_endpoint_takes_a_prompt_and_gives_text() -> None:
    def complete(asked: Asked) -> None:
        assert isinstance(asked.body["prompt"], str)
        words = [event({"choices": [{"index": 0, "text": " w", "finish_reason": None}]})] * asked.tokens
        asked.send(HEAD, *map(chunk, [*words, usage(asked.tokens), DONE]), END)

    row = only(rows_of(complete, endpoint="completions", limit_field="max_completion_tokens"))
    assert (row.outcome, row.output_tokens) == ("ok", TOKENS)


def test_one_connection_serves_one_request_after_another() -> None:
    with hostile(good) as server:
        play(server.url, one_by_one(5))
        assert len({asked.sock for asked in server.asked}) == 1


def test_a_stall_shows_from_the_intended_time_and_not_from_the_send() -> None:
    def stall(asked: Asked) -> None:
        if asked.number == 2:
            asked.wait(0.5)
        good(asked)

    rows = rows_of(stall, Continuous(OpenLoop(asks(40, every_ns=5_000_000)), 1))
    intent, send = (
        np.array([row.end_ns - start(row) for row in rows]) / 1e9
        for start in (lambda row: row.intended_ns, lambda row: row.sent_ns)
    )
    assert np.sum(intent > 0.25) > 15, "all that waited behind it"
    assert np.sum(send > 0.25) == 1, "only the one that was stuck"


def test_several_tokens_in_a_chunk_come_from_usage_and_no_gap_is_then_a_token_s() -> None:
    events = [said(content=" a b c")] * 2
    row = only(rows_of(streamed(*events, said("length"), usage(TOKENS), DONE)))
    assert (row.outcome, row.output_tokens, row.chunk_tokens) == ("ok", TOKENS, (3, 3))


def test_tokens_that_made_no_text_of_their_own_are_counted_too() -> None:
    row = only(rows_of(streamed(*[said(content="é")] * 4, said("length"), usage(TOKENS), DONE)))
    assert (row.outcome, sum(row.chunk_tokens), len(row.chunk_ns)) == ("ok", TOKENS, 4)


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_an_answer_cut_at_every_byte_is_the_same_answer(line_end: str) -> None:
    words = ["ein", " schöner", " 😀", ' "Satz"', "\n", " 日本"]
    parts = [said(content=word).replace(b"\n\n", 2 * line_end.encode()) for word in words]
    whole = HEAD + b"".join(map(chunk, [*parts, said("length"), usage(len(words)), DONE])) + END
    with hostile(lambda asked: dribble(asked, whole)) as server, opened(server.url) as client:
        rows: list[Request] = []
        texts: list[str] = []
        remember = client._done

        def listen(ended: Any, *rest: Any) -> None:
            texts.append(ended.answer.text)
            remember(ended, *rest)

        client._done = listen  # type: ignore[method-assign]
        client.play(one_by_one(2), rows.append)
    assert texts == ["".join(words)] * 2
    assert only(rows).chunk_tokens == (1,) * len(words)


def test_chunks_without_text_are_no_tokens() -> None:
    row = only(
        rows_of(
            streamed(
                said(role="assistant"), said(role="assistant", content=""), b": a comment\n\n", event({"choices": []}),
                b"event: ping\nid: 3\nretry: 10\n\n", *[said(content="x")] * TOKENS, said(content=""), said("length"),
                usage(TOKENS), DONE,
            )
        )
    )  # fmt: skip
    assert (row.outcome, len(row.chunk_ns), row.reasoning_chunks) == ("ok", TOKENS, 0)


@pytest.mark.parametrize("key", ["reasoning_content", "reasoning"])
def test_reasoning_is_told_from_the_answer(key: str) -> None:
    thoughts = [said(**{key: "hm"}), said(**{key: "so", "content": None})]
    row = only(rows_of(streamed(*thoughts, *[said(content="x")] * 4, said("length"), usage(TOKENS), DONE)))
    assert (row.outcome, len(row.chunk_ns), row.reasoning_chunks) == ("ok", TOKENS, 2)


def test_an_answer_of_reasoning_alone_has_tokens_and_no_content() -> None:
    row = only(rows_of(streamed(*[said(reasoning_content="hm")] * TOKENS, said("length"), usage(TOKENS), DONE)))
    assert (row.outcome, len(row.chunk_ns), row.reasoning_chunks) == ("ok", TOKENS, TOKENS)


def test_a_missing_done_is_forgiven() -> None:
    assert only(rows_of(streamed(*[said(content="x")] * TOKENS, said("length"), usage(TOKENS)))).outcome == "ok"


def test_without_usage_chunks_are_counted_or_the_limit_it_reached() -> None:
    counted = only(rows_of(streamed(*[said(content="x")] * TOKENS, DONE)))
    assert (counted.outcome, counted.output_tokens, counted.input_tokens) == ("ok", TOKENS, 5)
    limited = only(rows_of(streamed(*[said(content="x y")] * 3, said("length"), DONE)))
    assert (limited.outcome, limited.output_tokens) == ("ok", TOKENS)


def test_fewer_tokens_than_asked_are_cut_off_and_say_why() -> None:
    row = only(rows_of(streamed(said(content="x"), said(content="y"), said("stop"), usage(2), DONE)))
    assert (row.outcome, row.status, row.output_tokens) == ("cut_off", 200, 2)
    assert row.error == "2 of 6 tokens, finish_reason stop"


def test_four_megabytes_in_one_burst_are_taken_whole() -> None:
    tokens = 20_000
    big = answer(tokens, " word" * 25)
    assert len(big) > 4_000_000
    rows = rows_of(lambda asked: asked.send(big), one_by_one(1, tokens), timeout_s=10.0)
    assert (rows[0].outcome, rows[0].output_tokens, len(rows[0].chunk_ns)) == ("ok", tokens, tokens)
    assert rows[0].merged_reads


def test_a_line_of_four_megabytes_is_taken_whole() -> None:
    rows = rows_of(streamed(said("length", content="x" * 4_000_000), usage(TOKENS), DONE), one_by_one(1))
    assert (rows[0].outcome, len(rows[0].chunk_ns)) == ("ok", 1)


def closing(asked: Asked) -> None:
    asked.send(answer(asked.tokens).replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n", 1))
    asked.close()


def silently_closing(asked: Asked) -> None:
    good(asked)
    asked.close()


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
    assert (row.outcome, row.error) == ("failed", "no end after 0.4 s")
    assert len(row.chunk_ns) > TOKENS


def test_an_endless_stream_does_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    defaults = receive.Loop.__init__.__kwdefaults__
    monkeypatch.setattr(receive.Loop.__init__, "__kwdefaults__", defaults | {"most_bytes": 10**6})
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
        done = 0

        def take(row: Request) -> None:
            nonlocal done
            done += 1
            if done == 3:
                first.close()
            if done == 6:
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


def test_where_nobody_listens_opening_says_so() -> None:
    with pytest.raises(ExecutorFailed, match="no server answers") as caught, opened("http://127.0.0.1:1/v1"):
        pass
    assert caught.value.code == "TL302"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"url": ""}, "needs the server"),
        ({"url": "ftp://127.0.0.1"}, "needs the server"),
        ({"url": "http://127.0.0.1:99999/v1"}, "needs the server"),
        ({"url": "http://me:secret@127.0.0.1/v1"}, "no name, password or query"),
        ({"url": "http://127.0.0.1/v1", "timeout_s": 0}, "timeout_s"),
        ({"url": "http://127.0.0.1/v1", "timeout_s": "5"}, "timeout_s"),
        ({"url": "http://127.0.0.1/v1", "endpoint": "chats"}, "endpoint"),
        ({"url": "http://127.0.0.1/v1", "force_length": "yes"}, "force_length"),
        ({"url": "http://127.0.0.1/v1", "urll": ""}, "no option 'urll'; did you mean 'url'"),
        ({"url": "http://127.0.0.1/v1", "api_key_env": "TWINLENS_NO_SUCH_KEY"}, "is not set"),
        ({"url": "https://127.0.0.1/v1", "ca_file": "/no/such/file"}, "ca_file"),
    ],
)
def test_options_that_cannot_be_are_refused_with_one_sentence(options: dict[str, Any], words: str) -> None:
    with pytest.raises(BadInput) as caught:
        OpenAIServer().open(spec_of(inference("openai-http", options=options)), quiet)
    assert words in str(caught.value)
    assert "secret" not in str(caught.value)


def test_the_key_goes_to_the_server_and_nowhere_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", "sk-hidden")
    with hostile(good) as server:
        client = OpenAIServer()
        spec = spec_of(inference("openai-http", options={"url": server.url, "api_key_env": "MY_KEY"}))
        facts = client.open(spec, quiet)
        rows: list[Request] = []
        client.play(one_by_one(1), rows.append)
        client.close()
    assert all("Authorization: Bearer sk-hidden" in asked.head for asked in server.asked)
    written = json.dumps([facts.to_json(), spec.to_dict()]) + repr([rows, vars(client)])
    assert "sk-hidden" not in written


def test_a_server_that_forbids_unknown_fields_is_asked_without_them() -> None:
    def strict(asked: Asked) -> None:
        if "ignore_eos" in asked.body or "stream_options" in asked.body:
            return asked.send(b"HTTP/1.1 422 Unprocessable\r\ncontent-length: 0\r\n\r\n")
        good(asked)

    with hostile(strict) as server:
        client = OpenAIServer()
        facts = client.open(spec_of(inference("openai-http", options={"url": server.url})), quiet)
        rows: list[Request] = []
        client.play(one_by_one(2), rows.append)
        client.close()
    assert only(rows).outcome == "ok"
    assert any("forbids forced lengths" in note for note in facts.notes)
    assert set(facts.executor.facts) <= set(FIELDS)


def test_more_connections_than_the_machine_has_are_refused_before() -> None:
    data = inference("openai-http", options={"url": "http://127.0.0.1:1/v1"}, point={"concurrency": 10_000_000})
    data["workload"]["arrival"] = {"kind": "closed"}
    with pytest.raises(BadInput, match="10000000 requests at once") as caught:
        OpenAIServer().open(spec_of(data), quiet)
    assert caught.value.code == "TL214"


def test_running_out_of_files_ends_the_run_and_loses_no_row() -> None:
    rows: list[Request] = []
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    watched = Watched(burst(60))
    with hostile(lambda asked: asked.wait(2) and None) as server, opened(server.url) as client:
        free = os.dup(0)
        os.close(free)
        resource.setrlimit(resource.RLIMIT_NOFILE, (free + 20, hard))
        try:
            with pytest.raises(BadInput, match="could open no more connections") as caught:
                client.play(watched, rows.append)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert caught.value.code == "TL214"
    assert {row.outcome for row in rows} == {"failed"}
    assert sorted(row.group for row in rows) == list(range(60)), "sent or not, each is a row"


def test_an_interrupt_makes_rows_of_what_was_running() -> None:
    rows: list[Request] = []
    # All four have reached the server when the signal comes, however long the machine takes over it.
    together = threading.Barrier(4, action=lambda: os.kill(os.getpid(), signal.SIGINT))

    def hold(asked: Any) -> None:
        together.wait(10)
        asked.wait(5)

    with hostile(hold) as server, opened(server.url) as client, pytest.raises(KeyboardInterrupt):
        client.play(burst(4), rows.append)
    assert [(row.outcome, row.error) for row in rows] == [("failed", "the client was interrupted")] * 4


def test_a_full_disk_stops_the_run_with_its_sentence() -> None:
    with hostile(good) as server, opened(server.url) as client:
        rows = RowWriter(Path("/dev/full"), REQUEST_SCHEMA, most=1)
        with pytest.raises(ExecutorFailed, match="disk is full"):
            client.play(burst(4), rows.add)


_KILLED = """
import sys
from pathlib import Path
from material import inference, quiet, spec_of
from test_openai_http import asks
from twinlens.executors.openai_http import OpenAIServer
from twinlens.record.request import REQUEST_SCHEMA
from twinlens.record.rows import RowWriter
from twinlens.schedule.open_loop import OpenLoop
client = OpenAIServer()
client.open(spec_of(inference("openai-http", options={"url": sys.argv[1], "probe": False})), quiet)
client.play(OpenLoop(asks(100000, every_ns=2000000)), RowWriter(Path(sys.argv[2]), REQUEST_SCHEMA).add)
"""


def test_a_killed_client_leaves_its_rows(tmp_path: Path) -> None:
    here = Path(__file__).parent
    paths = os.pathsep.join([str(here), str(here.parent), *sys.path])
    with hostile(good) as server:
        words = [sys.executable, "-c", _KILLED, server.url, str(tmp_path / "rows")]
        client = subprocess.Popen(words, env={**os.environ, "PYTHONPATH": paths})
        until = time.monotonic() + 20
        while len(server.asked) < 300 and time.monotonic() < until:
            time.sleep(0.02)
        client.kill()
        client.wait()
    table = read_rows(tmp_path / "rows", REQUEST_SCHEMA)
    assert table.num_rows >= 50
    assert set(table.column("outcome").to_pylist()) == {"ok"}


def test_errors_never_make_an_answer_look_quicker() -> None:
    def one_in_two(asked: Asked) -> None:
        if asked.number % 2:
            return asked.send(b"HTTP/1.1 500 Oh\r\ncontent-length: 0\r\n\r\n")
        asked.wait(0.02)
        good(asked)

    rows = rows_of(one_in_two, OpenLoop(asks(30, every_ns=3_000_000)))
    assert sum(row.outcome == "ok" for row in rows) == 15
    assert all(row.chunk_ns[0] - row.sent_ns >= 0.02e9 for row in rows if row.outcome == "ok")
    assert all(not row.chunk_ns and row.output_tokens == 0 for row in rows if row.outcome != "ok")


def test_whatever_the_mixture_every_ask_is_one_row() -> None:
    chance = random.Random(4)
    behaviours: list[Behaviour] = [
        good, closing, silently_closing, Asked.reset, Asked.close, streamed(b"data: {\n\n"),
        lambda asked: asked.send(HEAD, chunk(said(content="x"))) or asked.reset(),
        lambda asked: asked.send(b"HTTP/1.1 429 No\r\ncontent-length: 0\r\n\r\n"),
        lambda asked: asked.send(b"\x00" * 50) or asked.close(),
    ]  # fmt: skip
    choice = [chance.randrange(len(behaviours)) for _ in range(1000)]
    rows = rows_of(lambda asked: behaviours[choice[asked.number]](asked), OpenLoop(asks(150, every_ns=1_000_000)))
    assert len(rows) == 150
    assert {row.outcome for row in rows} == {"ok", "failed", "refused"}


def test_time_goes_on_when_it_plays_again_and_nothing_is_sent_early() -> None:
    with hostile(good) as server, opened(server.url) as client:
        rows: list[Request] = []
        client.play(Timed([0, 30_000_000], 5, TOKENS), rows.append)
        first = max(row.end_ns for row in rows)
        client.play(OpenLoop(asks(5, every_ns=20_000_000)), rows.append)
    assert all(row.sent_ns >= row.intended_ns for row in rows)
    assert min(row.sent_ns for row in rows[2:]) > first


def test_a_late_client_is_seen_in_its_lag_and_in_merged_reads() -> None:
    def paced(asked: Asked) -> None:
        asked.send(HEAD)
        for _ in range(asked.tokens):
            asked.send(chunk(said(content="x")))
            asked.wait(0.01)
        asked.send(chunk(usage(asked.tokens)), END)

    rows: list[Request] = []

    def take(row: Request) -> None:
        if not rows:
            time.sleep(0.2)  # the client is busy with something else
        rows.append(row)

    plan = [Ask(0, 0, 0, 5, 2, (3, 0, 0)), Ask(1, 1, 0, 5, 20, (3, 0, 1))]
    with hostile(paced) as server, opened(server.url) as client:
        client.play(OpenLoop(plan), take)
        record = client.client()
    late = rows[1]
    assert late.outcome == "ok"
    assert late.merged_reads
    assert record.merged_reads >= late.merged_reads
    if record.stamps == "kernel":
        assert late.lag_ns is not None
        # The first of the segments that one read took lay there longest, but the stamp is the last one's.
        assert late.lag_ns > 1_000_000
    assert json.loads(json.dumps(record.to_json()))["lag_max_ns"] >= (late.lag_ns or 0)


@pytest.mark.parametrize("stamps", [True, False])
def test_a_system_without_epoll_timers_and_stamps_is_served_too(stamps: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    from twinlens.executors import deadline

    monkeypatch.setattr(deadline, "_c_library", lambda: None)
    monkeypatch.setattr(receive, "poller", _Poller)
    with hostile(closing) as server, opened(server.url, kernel_stamps=stamps, timeout_s=3.0) as client:
        rows: list[Request] = []
        client.play(OpenLoop(asks(20, every_ns=3_000_000)), rows.append)
        assert client.client().stamps == ("kernel" if stamps and sys.platform == "linux" else "client")
    assert only(rows).outcome == "ok"


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    if shutil.which("openssl") is None:
        pytest.skip("needs the openssl command to make a certificate")
    folder = tmp_path_factory.mktemp("tls")
    key, cert = folder / "key.pem", folder / "cert.pem"
    words = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1"]
    words += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(cert)]
    subprocess.run(words, check=True, capture_output=True)
    return key, cert


def served_by_tls(certificate: tuple[Path, Path], behave: Behaviour) -> contextlib.AbstractContextManager[Hostile]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate[1], certificate[0])
    return hostile(behave, tls=context)


def test_tls_is_spoken_with_the_ciphertext_stamped(certificate: tuple[Path, Path]) -> None:
    with served_by_tls(certificate, good) as server, opened(server.url, ca_file=str(certificate[1])) as client:
        rows: list[Request] = []
        client.play(ClosedLoop(3, asks(12)), rows.append)
        assert client.client().stamps == ("kernel" if sys.platform == "linux" else "client")
    assert only(rows).chunk_tokens == (1,) * TOKENS
    assert len({asked.sock for asked in server.asked}) <= 3, "and connections are used again"


def test_a_certificate_that_nobody_vouches_for_is_not_trusted(certificate: tuple[Path, Path]) -> None:
    with served_by_tls(certificate, good) as server:
        row = only(play(server.url, one_by_one(1)))
    assert row.outcome == "failed"
    assert "certificate" in (row.error or "").lower()


def test_a_refused_connection_is_a_refused_row() -> None:
    with hostile(good) as server, opened(server.url) as client:
        listener = socket.create_server(("127.0.0.1", 0))
        free = listener.getsockname()[1]
        listener.close()
        address = client._loop._address  # type: ignore[union-attr]
        client._loop._address = type(address)(address.family, ("127.0.0.1", free), address.host)  # type: ignore[union-attr]
        rows: list[Request] = []
        client.play(one_by_one(3), rows.append)
    assert only(rows).error == "cannot connect: Connection refused"
    assert rows[0].outcome == "refused"


def test_the_null_server_knows_when_each_token_left_and_the_client_says_the_same() -> None:
    with null_server(ttft_s=0.02, itl_s=0.005, life_s=30) as server:
        rows = play(server.url, ClosedLoop(2, asks(8)))
        truth = server.truth()
    assert only(rows).outcome == "ok"
    assert len(truth) == 8
    true = sorted(sent.token_ns[0] - sent.request_ns for sent in truth)
    assert true[0] >= 20_000_000
    said_ns = sorted(row.chunk_ns[0] - row.sent_ns for row in rows)
    assert all(ours >= theirs for ours, theirs in zip(said_ns, true, strict=True)), "a client cannot be early"
    gaps = np.concatenate([np.diff(sent.token_ns) for sent in truth])
    assert np.median(gaps) == pytest.approx(5e6, rel=0.2)


def test_the_null_server_is_gone_when_the_block_ends() -> None:
    with null_server(life_s=30) as server:
        process = server._process
        assert process.is_alive()
    assert not process.is_alive()


def test_a_conversation_carries_what_was_really_said() -> None:
    def numbered(asked: Asked) -> None:
        asked.send(answer(asked.tokens, f" a{asked.number}"))

    turns = [
        Ask(0, 0, 0, 4, 2, (3, 1, 0), session=0, turn=0, history=(4,)),
        Ask(1, 1, 0, 10, 2, (3, 1, 0), session=0, turn=1, history=(4, 2, 4)),
    ]
    with hostile(numbered) as server:
        play(server.url, ClosedLoop(1, turns))
    second = server.asked[1].body["messages"]
    assert [message["role"] for message in second] == ["user", "assistant", "user"]
    assert second[1]["content"] == " a0 a0"
