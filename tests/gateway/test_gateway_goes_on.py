"""A backend that is lost in mid-answer: the client is told, or another of the same weights goes on, token for token."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp
import pytest
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
    text_of,
    whole,
)

from twinlens.gateway.backend import Backend

TEXT = "".join(WORDS)
PROMPT_IDS = [101, 102, 103]
IDS = list(range(len(WORDS)))


def model(*, after: int | None = None, by_ids: bool = False, hangs: bool = False) -> Behaviour:
    """A greedy model that says `WORDS` after the prompt, from wherever a prompt or a last message leaves it. `after`:
    so many tokens it is lost, or `hangs`. `by_ids`: it gives and takes numbers of tokens."""

    async def behave(to: Conversation) -> None:
        await to.head()
        said, made = _begun(to.body), 0
        for at in range(said, min(len(WORDS), said + to.body.get("max_tokens", 99))):
            if made == after and hangs:
                await asyncio.sleep(60)
            if made == after:
                to.writer.transport.abort()
                return
            numbers: dict[str, Any] = {}
            if by_ids and to.body.get("return_token_ids"):
                numbers = {"choice": {"token_ids": [IDS[at]]}} | ({"prompt_token_ids": PROMPT_IDS} if not made else {})
            await to.event(WORDS[at], **numbers)
            made += 1
        await to.event(None, "length")
        await to.usage(made, len(PROMPT_IDS) + said)
        await to.done()

    return behave


def _begun(body: dict[str, Any]) -> int:
    prompt = body.get("prompt")
    if isinstance(prompt, list):
        assert prompt[: len(PROMPT_IDS)] == PROMPT_IDS
        return len(prompt) - len(PROMPT_IDS)
    text = prompt.removeprefix("tell") if prompt else ""
    if body.get("continue_final_message"):
        text = body["messages"][-1]["content"]
    return next(count for count in range(len(WORDS) + 1) if "".join(WORDS[:count]) == text)


Check = Callable[[Served, Scripted, Scripted], Awaitable[None]]


def through(first: Behaviour, second: Behaviour, check: Check, *, weights: str = "w", by_ids: bool = False,
            **settings: Any) -> None:  # fmt: skip
    async def run() -> None:
        async with scripted(first) as a, scripted(second) as b:
            one = Backend("a", a.url, "m", weights=weights, gives_token_ids=by_ids)
            other = Backend("b", b.url, "m", weights=weights, gives_token_ids=by_ids)
            async with gateway_of(one, other, **{"stream_failure": "continue", **settings}) as served:
                served.app.router._turn = 1
                await check(served, a, b)

    in_loop(run())


@pytest.mark.parametrize("by_ids", [False, True])
@pytest.mark.parametrize("lost", [1, 4, len(WORDS)])
def test_the_joined_text_is_the_uninterrupted_one(lost: int, by_ids: bool) -> None:
    async def check(served: Served, a: Scripted, b: Scripted) -> None:
        text, data = await served.stream({**CHAT, "stream_options": {"include_usage": True}})
        assert text == TEXT
        assert data.endswith(b"data: [DONE]\n\n")
        assert b"token_ids" not in data
        events = [json.loads(each[6:]) for each in data.split(b"\n\n") if each[:7] == b"data: {"]
        assert {each["id"] for each in events if each["choices"]} == {"x"}
        reasons = [each["finish_reason"] for event in events for each in event["choices"]]
        assert reasons == [None] * len(WORDS) + ["length"]
        told = served.told[0]
        assert told.ending == "ok"
        assert (told.output_tokens, sum(told.chunk_tokens)) == (len(WORDS), len(WORDS))
        if lost < len(WORDS):
            assert b.paths == ["/v1/completions" if by_ids else "/v1/chat/completions"]
            assert events[-1]["usage"] == {"prompt_tokens": 3, "completion_tokens": 8, "total_tokens": 11}
        else:
            assert b.asked == []

    through(model(after=lost, by_ids=by_ids), model(by_ids=by_ids), check, by_ids=by_ids)


def test_plain_text_is_continued_too() -> None:
    async def check(served: Served, a: Scripted, b: Scripted) -> None:
        body = {"model": "m", "prompt": "tell", "max_tokens": len(WORDS)}
        assert (await served.stream(body, "/completions"))[0] == TEXT
        assert b.asked[0]["max_tokens"] == len(WORDS) - 3

    through(model(after=3), model(), check)


def test_with_end_the_client_is_told_inside_the_stream() -> None:
    async def check(served: Served, a: Scripted, b: Scripted) -> None:
        text, data = await served.stream(CHAT)
        assert text == "".join(WORDS[:4])
        assert b"[DONE]" not in data
        error = json.loads(data.split(b"\n\n")[-2][6:])["error"]
        assert "backend a was lost in mid-answer" in error["message"]
        assert b.asked == []
        assert (served.told[0].ending, served.told[0].output_tokens) == ("cut_off", None)

    through(model(after=4), model(), check, stream_failure="end")


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"tools": [{"type": "function", "function": {"name": "f"}}]}, "half of one has no meaning"),
        ({"response_format": {"type": "json_object"}}, "half of one has no meaning"),
        ({"n": 2}, "several answers"),
        ({"frequency_penalty": 1.0}, "would begin anew"),
    ],
)
def test_what_has_no_meaning_by_half_is_ended(more: dict[str, Any], why: str) -> None:
    async def check(served: Served, a: Scripted, b: Scripted) -> None:
        await served.stream({**CHAT, **more})
        assert why in served.told[0].error
        assert b.asked == []

    through(model(after=4), model(), check)


def test_other_weights_do_not_go_on() -> None:
    async def check(served: Served, a: Scripted, b: Scripted) -> None:
        await served.stream(CHAT)
        assert "no other backend is known to have the same weights" in served.told[0].error
        assert b.asked == []

    through(model(after=4), whole, check, weights="")


def test_a_second_backend_that_is_lost_too_ends_the_answer() -> None:
    async def check(served: Served, a: Scripted, b: Scripted) -> None:
        text, data = await served.stream(CHAT)
        assert text == "".join(WORDS[:6])
        assert served.told[0].ending == "cut_off"
        assert text_of(data) == text

    through(model(after=4), model(after=2), check)


def test_a_backend_that_hangs_in_mid_answer_is_lost_after_its_silence() -> None:
    async def check(served: Served, a: Scripted, b: Scripted) -> None:
        assert (await served.stream(CHAT))[0] == TEXT
        assert [each.failure for each in served.told[0].attempts] == ["late", ""]
        assert "silent for 1 s" in served.told[0].attempts[0].said

    through(model(after=4, hangs=True), model(), check, silence_s=1.0)


def test_a_client_that_reads_slowly_is_not_a_silent_backend() -> None:
    async def check(served: Served, a: Scripted, b: Scripted) -> None:
        async with aiohttp.ClientSession(read_bufsize=1) as client:
            asked = {**CHAT, "stream": True}
            async with client.post(f"{served.url}/chat/completions", json=asked) as answer:
                await asyncio.sleep(1.5)
                data = await answer.read()
        assert text_of(data) == TEXT
        assert b.asked == []

    through(model(), model(), check, silence_s=1.0)
