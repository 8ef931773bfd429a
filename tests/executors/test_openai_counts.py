"""What a server counts is held against the limit, the chunks and the text: a count that cannot be is no rate."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hostile_server import DONE, Asked, answer, event, good, hostile, said, usage
from http_play import TOKENS, one_by_one, only, opened, rows_of, streamed

from twinlens.errors import ExecutorFailed
from twinlens.network import discovery
from twinlens.record.request import Request

LIMIT = "the server counts {} output tokens, and the limit was {}"


def counting(tokens: int, *chunks: bytes, finish: str = "length", **more: Any) -> Request:
    """The row of an answer of these chunks that claims so many tokens."""
    counts = {"prompt_tokens": 5, "completion_tokens": tokens} | more
    events = [*chunks, said(finish), event({"choices": [], "usage": counts}), DONE]
    return only(rows_of(streamed(*events)))


@pytest.mark.parametrize("counted", [TOKENS + 2, 5_000, 2**24])
def test_more_tokens_than_the_limit_are_no_answer(counted: int) -> None:
    row = only(rows_of(lambda asked: asked.send(answer(asked.tokens, counted=counted))))
    assert (row.outcome, row.error) == ("failed", LIMIT.format(counted, TOKENS))
    assert row.output_tokens == TOKENS, "as many as have come"


def test_the_token_that_ends_an_answer_may_be_counted() -> None:
    row = only(rows_of(lambda asked: asked.send(answer(asked.tokens, counted=TOKENS + 1))))
    assert (row.outcome, row.output_tokens) == ("ok", TOKENS + 1)


@pytest.mark.parametrize("text", ["abc", "ä"])
def test_more_tokens_than_the_text_has_bytes_are_no_answer(text: str) -> None:
    row = counting(TOKENS, said(content=text))
    size = len(text.encode())
    wrong = f"the server counts {TOKENS} output tokens, and its 1 chunks hold {size} bytes of text"
    assert (row.outcome, row.error, row.output_tokens) == ("failed", wrong, 1)


@pytest.mark.parametrize(
    ("chunks", "more"),
    [
        ([said(content="six or more bytes")], {}),
        ([said(content="日本")], {}),
        ([said(reasoning_content="I think"), said(content="a")], {}),
        ([said(content="a")], {"completion_tokens_details": {"reasoning_tokens": TOKENS - 1}}),
        ([said(content="x")] * TOKENS, {}),
    ],
    ids=["one chunk", "characters of three bytes", "reasoning", "reasoning that is not shown", "a chunk each"],
)
def test_as_many_tokens_as_an_answer_can_hold_are_believed(chunks: list[bytes], more: dict[str, Any]) -> None:
    row = counting(TOKENS, *chunks, **more)
    assert (row.outcome, row.output_tokens) == ("ok", TOKENS)


def test_tokens_that_end_a_forced_answer_again_and_again_are_not_shown_and_are_believed() -> None:
    events = [said(content="a"), said("length"), usage(TOKENS), DONE]
    row = only(rows_of(streamed(*events), force_length=True))
    assert (row.outcome, row.output_tokens) == ("ok", TOKENS)


def test_a_limit_that_is_said_to_be_reached_is_held_against_the_text_too() -> None:
    row = only(rows_of(streamed(said(content="a"), said("length"), DONE)))
    assert (row.outcome, row.error) == ("cut_off", f"1 of {TOKENS} tokens, finish_reason length")


def test_more_tokens_of_a_prompt_than_its_words_can_be_are_no_answer() -> None:
    events = [*[said(content="x")] * TOKENS, said("length"), usage(TOKENS, prompt=1_000_000), DONE]
    row = only(rows_of(streamed(*events)))
    assert row.error == "the server counts 1000000 input tokens, and about 5 were sent"
    assert (row.outcome, row.input_tokens) == ("failed", 5)


@pytest.mark.parametrize("after", [1, 3, 200])
def test_what_follows_done_is_no_answer(after: int) -> None:
    events = [*[said(content="x")] * (TOKENS - 2), said("length"), DONE, *[said(content="x")] * after, usage(TOKENS)]
    row = only(rows_of(streamed(*events)))
    assert (row.outcome, row.error) == ("cut_off", f"{TOKENS - 2} of {TOKENS} tokens, finish_reason length")
    whole = [*[said(content="x")] * TOKENS, said("length"), usage(TOKENS), DONE, *[said(content="x")] * after]
    row = only(rows_of(streamed(*whole)))
    assert (row.outcome, len(row.chunk_ns)) == ("ok", TOKENS)


@pytest.mark.parametrize(("busy", "is_measured"), [(1, True), (4, True), (5, False)])
def test_one_refusal_of_the_first_request_ends_no_measurement(
    busy: int, is_measured: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(discovery, "PAUSES_S", (0.0,) * 4)

    def behave(asked: Asked) -> None:
        refused = b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 4\r\n\r\nbusy"
        asked.send(refused) if asked.number < busy else good(asked)

    with hostile(behave) as server, contextlib.ExitStack() as stack:
        if not is_measured:
            stack.enter_context(pytest.raises(ExecutorFailed, match="does not answer a short request: HTTP 503: busy"))
        stack.enter_context(opened(server.url, probe=True))
        assert len(server.asked) == busy + 1


def test_a_liar_in_every_second_answer_costs_the_others_nothing() -> None:
    def behave(asked: Asked) -> None:
        good(asked) if asked.number % 2 else asked.send(answer(asked.tokens, counted=5_000))

    rows = sorted(rows_of(behave, one_by_one(6)), key=lambda row: row.group)
    assert [row.outcome for row in rows] == ["failed", "ok"] * 3
    assert sum(row.output_tokens for row in rows if row.outcome == "ok") == 3 * TOKENS
