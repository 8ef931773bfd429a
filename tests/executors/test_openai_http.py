"""The HTTP client and good answers, however they are cut, framed and counted."""

from __future__ import annotations

import numpy as np
import pytest
from hostile_server import (
    DONE,
    END,
    HEAD,
    Asked,
    answer,
    chunk,
    dribble,
    event,
    good,
    hostile,
    said,
    usage,
)
from http_play import TOKENS, asks, one_by_one, only, opened, play, rows_of, streamed

from twinlens.record.request import Request
from twinlens.schedule.admission import Continuous
from twinlens.schedule.open_loop import OpenLoop


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
        client.on_response(lambda scheduled, row, response: texts.append(response.text))
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


@pytest.mark.parametrize(("size", "outcome"), [(1_000_000, "ok"), (2**20, "failed")])
def test_a_line_of_a_megabyte_is_taken_whole_and_a_longer_one_is_no_token(size: int, outcome: str) -> None:
    row = rows_of(streamed(said("length", content="x" * size), usage(TOKENS), DONE), one_by_one(1))[0]
    assert (row.outcome, len(row.chunk_ns)) == (outcome, outcome == "ok")
    assert row.error in (None, "an event of over 1048576 bytes")
