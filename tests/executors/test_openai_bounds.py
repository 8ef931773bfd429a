"""What a hostile answer may cost: itself, with a sentence, and nobody else."""

from __future__ import annotations

import contextlib
import gzip
import json
import zlib
from pathlib import Path
from typing import Any

import pytest
from hostile_server import DONE, END, HEAD, Asked, Behaviour, answer, chunk, event, good, hostile, said, usage
from http_play import TOKENS, burst, one_by_one, only, opened, play, rows_of, streamed
from test_openai_http_parts import Clocks, exchanged

from material import inference, quiet, spec_of
from twinlens.errors import ExecutorFailed
from twinlens.executors.openai.executor import OpenAIServer
from twinlens.network import event_loop
from twinlens.network.connection import Exchange
from twinlens.network.dialect.openai import row_of
from twinlens.record.arrow import RowWriter, read_rows
from twinlens.record.request import REQUEST_SCHEMA, Request
from twinlens.schedule.request import ScheduledRequest

EVENTS = [*[said(content="x")] * TOKENS, said("length"), usage(TOKENS), DONE]


@pytest.mark.parametrize(
    ("head", "words"),
    [
        ("HTTP/1.1 2²0 OK\r\ncontent-length: 0", "not HTTP/1.x"),
        ("HTTP/1.1 2000 OK\r\ncontent-length: 0", "not HTTP/1.x"),
        ("HTTP/1.1 000 OK\r\ncontent-length: 0", "not HTTP/1.x"),
        ("HTTP/1.1 200 OK\r\ncontent-length: 1²", "content-length"),
        ("HTTP/1.1 200 OK\r\ncontent-length: " + "9" * 5000, "content-length"),
        ("HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-length: 6", "two lengths"),
        ("HTTP/1.1 200 OK\r\ntransfer-encoding: gzip, chunked", "transfer-encoding"),
    ],
)
def test_numbers_that_are_none_fail_their_answer_and_no_other(head: str, words: str) -> None:
    def behave(asked: Asked) -> None:
        if asked.number % 2:
            return good(asked)
        asked.send(head.encode("latin-1") + b"\r\n\r\n")
        asked.wait(0.05)
        asked.close()

    rows = sorted(rows_of(behave, one_by_one(4)), key=lambda row: row.group)
    assert [row.outcome for row in rows] == ["failed", "ok", "failed", "ok"]
    assert words in (rows[0].error or "")


@pytest.mark.parametrize(
    "events",
    [
        [b'data: {"error":{"message":"out of \\ud83d memory"}}\n\n'],
        [b'data: {"choices":[{"delta":{"content":"a\\ud83d"},"finish_reason":"st\\ud800op"}]}\n\n'],
        [*[b'data: {"choices":[{"delta":{"content":"\\ud800"}}]}\n\n'] * 12, usage(12)],
    ],
)
def test_half_a_character_is_kept_as_an_unknown_one(events: list[bytes], tmp_path: Path) -> None:
    heard: list[str] = []
    with hostile(streamed(*events)) as server, opened(server.url) as client:
        client.on_response(
            lambda scheduled, row, said: heard.append(f"{said.text}{said.first}{said.finish}{row.error}")
        )
        with RowWriter(tmp_path / "rows", REQUEST_SCHEMA) as rows:
            client.play(one_by_one(2), rows.add)
    assert read_rows(tmp_path / "rows", REQUEST_SCHEMA).num_rows == 2
    assert all("\ufffd" in words and words.encode() for words in heard)


def test_a_pair_that_two_events_share_is_one_character() -> None:
    halves = [b'data: {"choices":[{"delta":{"content":"%b"}}]}\n\n' % half for half in (b"\\ud83d", b"\\ude00")]
    assert exchanged([HEAD, *map(chunk, halves), END]).answer.text == "😀"


@pytest.mark.parametrize("count", [2**31, 10**18, 10**30, -1, 6.0, 1.5, True, "6", [6]])
@pytest.mark.parametrize("name", ["completion_tokens", "prompt_tokens"])
def test_a_count_that_cannot_be_is_refused_and_the_row_says_so(name: str, count: Any, tmp_path: Path) -> None:
    counts = event({"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": TOKENS} | {name: count}})
    ended = exchanged([HEAD, *map(chunk, [*[said(content="x")] * TOKENS, said("length"), counts, DONE]), END])
    row = row_of(ScheduledRequest(0, 0, 0, 5, TOKENS, (0,)), ended, 0)
    assert (row.outcome, row.input_tokens, row.output_tokens) == ("failed", 5, TOKENS)
    assert row.error == f"the server counts what cannot be: {name} {json.dumps(count)}"
    with RowWriter(tmp_path / "rows", REQUEST_SCHEMA) as rows:
        rows.add(row)
    assert read_rows(tmp_path / "rows", REQUEST_SCHEMA).num_rows == 1


def bytewise(data: bytes) -> list[bytes]:
    return [data[i : i + 1] for i in range(len(data))]


@pytest.mark.parametrize(
    ("end", "after"),
    [
        (b"0\r\nserver-timing: x\r\netag: y\r\n\r\n", b""),
        (b"0;signature=abc\r\n\r\n", b""),
        (b"0\r\n\r\n", b"HTTP/1.1 200 OK\r\n"),
        (b"0\r\n\r\n", b"data: more\n\n\r\n"),
        (b"000\r\n\r\n", b"\r\n\r\n"),
    ],
)
def test_an_answer_ends_where_it_ends_however_it_comes(end: bytes, after: bytes) -> None:
    """What comes `after` it may arrive when the next request is under way already: then that one fails, and is not
    counted as answered."""
    end += after
    whole = HEAD + b"".join(map(chunk, EVENTS)) + end

    def in_bytes(asked: Asked) -> None:
        with contextlib.suppress(OSError):  # it closes the connection once what came after the end is there
            for one in bytewise(whole):
                asked.send(one)

    def at_once(asked: Asked) -> None:
        asked.send(whole)

    def beyond_the_last_line(asked: Asked) -> None:
        asked.send(whole[: -len(end)])
        with contextlib.suppress(OSError):
            asked.wait(0.02)
            asked.send(end[:-5])
            asked.wait(0.02)
            asked.send(end[-5:])

    for behave in (in_bytes, at_once, beyond_the_last_line):
        first, second = rows_of(behave, one_by_one(2), timeout_s=60.0)
        assert (first.outcome, first.output_tokens) == ("ok", TOKENS)
        may_fail = after and behave is not at_once
        assert (second.outcome, second.output_tokens) == ("ok", TOKENS) or (may_fail and second.outcome == "failed")


def test_what_follows_an_answer_is_no_part_of_the_next_one() -> None:
    """Or a server could answer before it is asked."""
    forged = answer(TOKENS, " forged")
    with hostile(lambda asked: asked.send(answer(asked.tokens) + forged)) as server:
        play(server.url, one_by_one(3))
        assert len({asked.sock for asked in server.asked}) == 3


@pytest.mark.parametrize("size", [60_000, 70_000])
def test_a_big_head_has_one_outcome_however_it_is_cut(size: int) -> None:
    whole = HEAD[:-2] + b"x: " + b"y" * size + b"\r\n\r\n" + b"".join(map(chunk, EVENTS)) + END
    cuts = [[whole], [whole[:65_000], whole[65_000:]], [whole[i : i + 700] for i in range(0, len(whole), 700)]]
    faults = {exchanged(parts).fault for parts in cuts}
    assert faults == ({None} if size == 60_000 else {"the head of the answer does not end"})


def one_event_of_60_megabytes(asked: Asked) -> None:
    asked.send(HEAD, chunk(b'data: {"x":"' + b"y" * 60_000_000 + b'"}\n\n'), END)


def json_of_60_megabytes(asked: Asked) -> None:
    asked.send(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 60000002\r\n\r\n[")
    asked.send(b"0," * 30_000_000, b"0]")


def bomb_of_many_parts(asked: Asked) -> None:
    part = gzip.compress((b": nothing" * 10 + b"\n\n") * 5_000)
    body = part * 40
    head = HEAD.replace(b"\r\n\r\n", b"\r\ncontent-encoding: gzip\r\n\r\n")
    asked.send(head, *[chunk(body[i : i + 1000]) for i in range(0, len(body), 1000)], END)


def bomb_of_one_event(asked: Asked) -> None:
    head = HEAD.replace(b"\r\n\r\n", b"\r\ncontent-encoding: deflate\r\n\r\n")
    asked.send(head, chunk(zlib.compress(b"data: " + b" " * 50_000_000)), END)


def endless_comments(asked: Asked) -> None:
    asked.send(HEAD)
    while asked.wait(0.0):
        asked.send(chunk(b": xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\n\n") * 1_000)


def endless_reasoning(asked: Asked) -> None:
    asked.send(HEAD)
    while asked.wait(0.0):
        asked.send(chunk(event({"choices": [{"delta": {"reasoning": "h"}}]})) * 1000)


def endless_page(asked: Asked) -> None:
    asked.send(b"HTTP/1.1 500 No\r\n\r\n")
    while asked.wait(0.0):
        asked.send(b"\x1b[2Jwords " * 10_000)


@pytest.mark.parametrize(
    ("worst", "words"),
    [
        (one_event_of_60_megabytes, "an event of over 1048576 bytes"),
        (json_of_60_megabytes, "one piece of JSON of over 2097152 bytes"),
        (bomb_of_many_parts, "the compressed body holds over 16777216 bytes"),
        (bomb_of_one_event, "an event of over 1048576 bytes"),
        (endless_comments, "the answer does not end"),
        (endless_reasoning, "the answer does not end"),
        (endless_page, "the answer does not end"),
    ],
)
def test_an_answer_without_measure_harms_no_other(
    worst: Behaviour, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    held: list[int] = []
    kept: list[int] = []
    look = Exchange.look

    def watched(exchange: Exchange) -> bool:
        held.append(sum(map(len, exchange.got[::3])))
        is_over = look(exchange)
        kept.append(exchange._meaning._body_bytes)
        return is_over

    monkeypatch.setattr(Exchange, "look", watched)
    defaults = event_loop.EventLoop.__init__.__kwdefaults__
    monkeypatch.setattr(event_loop.EventLoop.__init__, "__kwdefaults__", defaults | {"most_bytes": 2**22})

    def behave(asked: Asked) -> None:
        if asked.number:
            return good(asked)
        with contextlib.suppress(OSError):
            worst(asked)

    rows = rows_of(behave, burst(12), timeout_s=5.0)
    outcomes = sorted(row.outcome for row in rows)
    assert outcomes == ["failed"] + ["ok"] * 11
    error = next(row.error for row in rows if row.outcome == "failed") or ""
    ended = any(said in error for said in (words, "the answer does not end", "no end after 5 s"))
    assert ended, "bounded by bytes of a piece or of all that came, and on a slow machine by time"
    assert max(held) <= 2**19, "what is not understood yet is bounded too"
    assert max(kept) <= 2**21, "and so is what is kept to its end"


def test_a_long_answer_is_understood_in_slices() -> None:
    """Between two of them the loop does what is due."""
    exchange = Exchange(Clocks().offset(), 2**26)
    exchange.got += (HEAD + chunk(b": nothing\n\n" * 20_000), bytes(16), 1)
    slices = 1
    while not exchange.look() and exchange.is_behind:
        slices += 1
        assert slices < 10_000
    assert slices >= 220_000 // (32 * 1024)


def test_what_a_terminal_would_obey_is_not_in_a_row() -> None:
    page = b"\x1b[2J\x1b[31mgone\x07\xc2\x9b2J \xe2\x80\xae back"

    def behave(asked: Asked) -> None:
        head = b"HTTP/1.1 500 \x1b[2J\r\nretry-after: \x1b[31m7\r\ncontent-length: %d\r\n\r\n" % len(page)
        asked.send(head, page)

    error = only(rows_of(behave)).error or ""
    assert error.isprintable()
    assert "gone" in error
    finish = only(rows_of(streamed(said(content="x"), said("\x1b[2Jstop")))).error or ""
    assert finish.isprintable()


def test_an_answer_that_is_there_is_no_timeout_and_no_broken_connection() -> None:
    """A client that was busy meanwhile looks at what has come before it says that nothing did."""
    for why in ("no end after 5 s", "the connection broke: Connection reset by peer"):
        for before in (b"", chunk(b": nothing\n\n" * 20_000)):  # more than is understood in one slice, or stopped in it
            exchange = Exchange(Clocks().offset(), 2**26)
            exchange.got += (HEAD + before + b"".join(map(chunk, EVENTS)) + END, bytes(16), 1)
            exchange.give_up(why)
            assert exchange.ended(2).fault is None


def test_a_url_that_ends_before_v1_is_asked_about() -> None:
    with hostile(lambda asked: asked.send(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n")) as server:
        url = server.url.removesuffix("/v1")
        with pytest.raises(ExecutorFailed, match="is /v1 missing") as caught:
            OpenAIServer().open(spec_of(inference("openai-http", options={"url": url})), quiet)
    assert f'executor.options.url="{url}/v1"' in str(caught.value)


@pytest.mark.parametrize("tokens", [4, 2])
def test_a_short_answer_in_one_piece_says_that_it_was_no_stream(tokens: int) -> None:
    message = {"choices": [{"message": {"content": "a b"}, "finish_reason": "stop"}]}
    body = json.dumps(message | {"usage": {"prompt_tokens": 3, "completion_tokens": tokens}}).encode()
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body)
    with hostile(lambda asked: asked.send(head, body)) as server:
        client = OpenAIServer()
        client.open(spec_of(inference("openai-http", options={"url": server.url})), quiet)
        rows: list[Request] = []
        client.play(one_by_one(1), rows.append)
        client.close()
    assert rows[0].error == f"{tokens} of 6 tokens, finish_reason stop; the answer came in one piece, not as a stream"
