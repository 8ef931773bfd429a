"""A backend that fails before its first content is replaced by another, and the client never notices."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import aiohttp
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.gateway.scripted import (
    CHAT,
    WORDS,
    Behaviour,
    Conversation,
    Scripted,
    Served,
    gateway_of,
    in_loop,
    scripted,
    whole,
)

from twinlens.gateway.backend import Backend
from twinlens.gateway.relay.passing import Passing
from twinlens.network.answer.events import Answer
from twinlens.network.answer.frame import Malformed

TEXT = "".join(WORDS)


def through(
    first: Behaviour,
    check: Callable[[Served, Scripted, Scripted], Awaitable[None]],
    second: Behaviour = whole,
    **settings: Any,
) -> None:
    """A gateway in front of `first` and `second`, the first of which is asked first."""

    async def run() -> None:
        async with scripted(first) as a, scripted(second) as b:
            backends = [Backend("a", a.url, "m"), Backend("b", b.url, "m")]
            async with gateway_of(*backends, first_token_s=1.5, **settings) as served:
                served.app.router._turn = 1  # the next turn is the first backend's
                await check(served, a, b)

    in_loop(run())


async def answers_500(to: Conversation) -> None:
    await to.head("500 Internal Server Error", "application/json")
    await to.raw(b'{"error": "no"}')


async def answers_429(to: Conversation) -> None:
    await to.head("429 Too Many Requests", "application/json", "Retry-After: 7\r\n")


async def hangs(to: Conversation) -> None:
    await asyncio.sleep(60)


async def hangs_after_its_head(to: Conversation) -> None:
    await to.head()
    await to.event("")
    await asyncio.sleep(60)


async def resets(to: Conversation) -> None:
    to.writer.transport.abort()


async def says_garbage(to: Conversation) -> None:
    await to.head()
    await to.raw(b"data: {]\n\n" * 3)


async def has_an_error_inside(to: Conversation) -> None:
    await to.head()
    await to.raw(b'data: {"error": {"message": "out of memory"}}\n\n')


async def ends_at_once(to: Conversation) -> None:
    await to.head()


async def is_compressed(to: Conversation) -> None:
    await to.head(more="Content-Encoding: gzip\r\n")
    await to.raw(gzip.compress(b"data: {}\n\n" * 10000))


async def sends_elsewhere(to: Conversation) -> None:
    await to.head("302 Found", more="Location: http://169.254.169.254/latest\r\n")


async def refuses_the_key(to: Conversation) -> None:
    await to.head("401 Unauthorized", "application/json")


BEFORE = [
    answers_500, answers_429, hangs, hangs_after_its_head, resets, says_garbage, has_an_error_inside, ends_at_once,
    is_compressed, sends_elsewhere, refuses_the_key,
]  # fmt: skip


@pytest.mark.parametrize("behaviour", BEFORE, ids=lambda each: each.__name__)
def test_what_fails_before_the_first_content_is_asked_of_the_next_backend(behaviour: Behaviour) -> None:
    async def check(served: Served, a: Scripted, b: Scripted) -> None:
        text, data = await served.stream(CHAT)
        assert text == TEXT
        assert data.endswith(b"data: [DONE]\n\n")
        (told,) = served.told
        assert [each.backend for each in told.attempts] == ["a", "b"]
        assert told.attempts[0].failure
        assert told.attempts[1].failure == ""
        assert (told.ending, told.output_tokens, sum(told.chunk_tokens)) == ("ok", len(WORDS), len(WORDS))
        assert len(a.asked) == len(b.asked) == 1

    through(behaviour, check)


def test_a_dead_backend_is_passed_over() -> None:
    async def run() -> None:
        dead = Backend("dead", "http://127.0.0.1:9/v1", "m")
        async with scripted(whole) as b, gateway_of(dead, Backend("b", b.url, "m")) as served:
            for _ in range(4):
                assert (await served.stream(CHAT))[0] == TEXT

    in_loop(run())


def test_an_answer_in_one_piece_is_tried_again_too() -> None:
    async def check(served: Served, a: Scripted, b: Scripted) -> None:
        status, data = await served.ask(CHAT)
        assert (status, json.loads(data)["choices"][0]["message"]["content"]) == (200, TEXT)
        assert served.told[0].output_tokens == len(WORDS)

    through(answers_500, check)


def test_a_wrong_request_is_not_tried_again_and_the_client_reads_what_the_backend_says() -> None:
    async def refuses(to: Conversation) -> None:
        await to.head("422 Unprocessable Entity", "application/json")
        await to.raw(b'{"error": {"message": "top_p is no number"}}')

    async def check(served: Served, a: Scripted, b: Scripted) -> None:
        status, data = await served.ask({**CHAT, "top_p": "x"})
        assert (status, json.loads(data)["error"]["message"]) == (422, "top_p is no number")
        assert len(a.asked) == 1
        assert b.asked == []

    through(refuses, check)


def test_where_all_fail_the_sentence_names_each_backend_and_what_it_did() -> None:
    async def check(served: Served, a: Scripted, b: Scripted) -> None:
        status, data = await served.ask({**CHAT, "stream": True})
        error = json.loads(data)["error"]
        assert status == 502
        assert "a: it answers 500" in error["message"]
        assert "b: ended the answer before it began" in error["message"]
        assert served.told[0].ending == "failed"

    through(answers_500, check, ends_at_once)


def test_where_all_are_full_the_shortest_wait_is_told() -> None:
    async def later(to: Conversation) -> None:
        await to.head("429 Too Many Requests", "application/json", "Retry-After: 3\r\n")

    async def run() -> None:
        async with (
            scripted(answers_429) as a,
            scripted(later) as b,
            gateway_of(Backend("a", a.url), Backend("b", b.url)) as served,
            aiohttp.ClientSession() as client,
            client.post(f"{served.url}/chat/completions", json=CHAT) as got,
        ):
            assert (got.status, got.headers["Retry-After"]) == (429, "3")

    in_loop(run())


def test_a_storm_of_failures_is_not_answered_by_a_storm_of_requests() -> None:
    async def check(served: Served, a: Scripted, b: Scripted) -> None:
        for _ in range(30):
            await served.ask(CHAT)
        assert len(a.asked) + len(b.asked) <= 30 + 10 + 3

    through(answers_500, check, answers_500)


def test_a_client_that_leaves_takes_its_request_at_the_backend_along() -> None:
    async def slow(to: Conversation) -> None:
        await to.head()
        for word in WORDS:
            await to.event(word)
            await asyncio.sleep(0.2)

    async def check(served: Served, a: Scripted, b: Scripted) -> None:
        async with aiohttp.ClientSession() as client:
            asked = client.post(f"{served.url}/chat/completions", json={**CHAT, "stream": True})
            async with asked as answer:
                await answer.content.readany()
                answer.close()
        for _ in range(100):
            if a.left:
                break
            await asyncio.sleep(0.02)
        assert a.left == 1
        assert served.told[0].ending == "left"
        assert len(served.told) == 1

    through(slow, check)


def test_each_read_cut_anywhere_gives_the_same_bytes() -> None:
    delta = b'{"content":"\xc3\xa9\\n\\ndata: [DONE]"}'
    event = b'data: {"id":"x","choices":[{"index":0,"delta":' + delta + b',"finish_reason":null}]}\n\n'
    stream = b": hello\n\n" + event * 3 + b'data: {"choices":[{"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
    for ends in (b"\n", b"\r\n"):
        wire = stream.replace(b"\n", ends)
        for size in (1, 2, 3, 7, 50, len(wire)):
            passing, out, tokens = Passing(hides_usage=True), b"", 0
            for at in range(0, len(wire), size):
                block, count = passing.feed(wire[at : at + size])
                out, tokens = out + block, tokens + count
            assert out == stream.removesuffix(b"data: [DONE]\n\n")
            assert (tokens, passing.answer.is_done, passing.answer.finish) == (3, True, "stop")


def test_a_missing_done_is_made_good_where_the_answer_had_its_end() -> None:
    async def forgets(to: Conversation) -> None:
        await to.head()
        await to.event("once")
        await to.event(None, "stop")

    async def check(served: Served, a: Scripted, b: Scripted) -> None:
        assert (await served.stream(CHAT))[1].endswith(b"data: [DONE]\n\n")
        assert served.told[0].ending == "ok"

    through(forgets, check)


def test_the_counts_come_only_where_they_were_asked_for() -> None:
    async def check(served: Served, a: Scripted, b: Scripted) -> None:
        _, without = await served.stream(CHAT)
        _, asked = await served.stream({**CHAT, "stream_options": {"include_usage": True}})
        assert b'"usage"' not in without
        assert b'"completion_tokens": 8' in asked

    through(whole, check)


def test_a_faster_second_backend_wins_and_the_loser_is_cancelled() -> None:
    async def check(served: Served, a: Scripted, b: Scripted) -> None:
        router, route = served.app.router, served.app.router.route
        router.route = lambda *given, **more: replace(route(*given, **more), hedge_s=0.05)  # type: ignore[method-assign]
        assert (await served.stream(CHAT))[0] == TEXT
        for _ in range(100):
            if a.left:
                break
            await asyncio.sleep(0.02)
        assert a.left == 1
        assert {each.backend: each.failure for each in served.told[0].attempts} == {"a": "hedged", "b": ""}

    through(hangs, check, hedging={"share": 0.2})


def test_a_client_that_goes_with_its_whole_answer_has_not_left() -> None:
    async def lingers(to: Conversation) -> None:
        await to.head()
        await to.event("once", "stop")
        await to.done()
        await asyncio.sleep(5)

    async def check(served: Served, a: Scripted, b: Scripted) -> None:
        asked = {**CHAT, "stream": True}
        async with aiohttp.ClientSession() as client, client.post(f"{served.url}/chat/completions", json=asked) as got:
            await got.read()
        for _ in range(200):
            if served.told:
                break
            await asyncio.sleep(0.02)
        assert [each.ending for each in served.told] == ["ok"]

    through(lingers, check)


KINDS = st.sampled_from(("", "reasoning", "usage", "finish", "garbage"))


@given(st.lists(st.tuples(st.text(max_size=8), KINDS), max_size=12), st.integers(0, 40))
def test_what_passes_quickly_is_understood_as_by_the_parser(said: list[tuple[str, str]], size: int) -> None:
    events = []
    for text, kind in said:
        delta = {"reasoning_content" if kind == "reasoning" else "content": text}
        finish = "stop" if kind == "finish" else None
        event = {"id": "x", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}
        more = {"usage": {"completion_tokens": 3}} if kind == "usage" else {}
        made = b"{]" if kind == "garbage" else json.dumps({**event, **more}, ensure_ascii=len(text) % 2 == 0).encode()
        events.append(b"data: " + made + b"\n\n")
    plain, wrong, whole_ones = Answer(), "", []
    for each in events:
        try:
            plain.take(each[6:-2], 0)
        except Malformed as fault:
            wrong = str(fault)
            break
        whole_ones.append(each)
    wire, passing, out, tokens = b"".join(events), Passing(hides_usage=True), b"", 0
    for piece in [wire[at : at + size] for at in range(0, len(wire), size)] if size else events:
        block, count = passing.feed(piece)
        out, tokens = out + block, tokens + count
        if passing.wrong:
            break
    assert (out, passing.wrong, tokens) == (b"".join(whole_ones), wrong, len(plain.reads))
    answer = passing.answer
    assert (answer.text, answer.finish, answer.usage) == (plain.text, plain.finish, plain.usage)
    assert (answer.reasoning, answer.thought_bytes) == (plain.reasoning, plain.thought_bytes)


def test_a_route_says_who_was_asked_why_and_what_came_of_it() -> None:
    async def check(served: Served, a: Scripted, b: Scripted) -> None:
        root, body = served.url.removesuffix("/v1"), {**CHAT, "stream": True}
        async with aiohttp.ClientSession() as client:
            async with client.post(f"{served.url}/chat/completions", json=body) as got:
                await got.read()
                number, backend = got.headers["X-Twinlens-Route"], got.headers["X-Twinlens-Backend"]
            async with client.get(f"{root}/route/{number}") as got:
                told = await got.json()
            async with client.get(f"{root}/route/nothing") as got:
                assert (got.status, (await got.json())["error"]["type"]) == (404, "not_found_error")
        assert backend == "b"
        text = json.dumps(told)
        assert all(word in text for word in ('"a"', '"b"', "in turn", "it answers 500"))

    through(answers_500, check)
