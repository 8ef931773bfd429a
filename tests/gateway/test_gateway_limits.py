"""Keys and budgets at the door of a gateway: what is refused before a backend sees it, and what is settled after."""

from __future__ import annotations

import asyncio
import json
import tomllib
from dataclasses import replace
from decimal import Decimal
from typing import Any

from tests.gateway.scripted import CHAT, WORDS, Conversation, gateway_of, in_loop, scripted, whole

from twinlens.gateway.backend import Backend
from twinlens.gateway.limits.keys import new_key
from twinlens.gateway.settings import KeySettings
from twinlens.gateway.watch.columns import request_rows

PRICED = (Decimal(2), "USD")


def key_of(name: str, **limits: Any) -> tuple[str, KeySettings]:
    key, lines = new_key(name)
    return key, KeySettings.model_validate({**tomllib.loads(lines)["key"][0], **limits})


def test_without_a_key_nothing_is_asked_and_with_one_its_name_stands_in_the_row() -> None:
    key, settings = key_of("team-a", models=("m",))

    async def run() -> None:
        async with scripted(whole) as a, gateway_of(Backend("a", a.url, "m"), keys=[settings]) as served:
            wrong: tuple[dict[str, str], ...] = ({}, {"Authorization": "Bearer x"}, {"Authorization": f"Basic {key}"})
            for headers in wrong:
                status, data = await served.ask(CHAT, **headers)
                assert (status, json.loads(data)["error"]["type"]) == (401, "authentication_error")
            assert a.asked == []
            assert (await served.ask({**CHAT, "model": "other"}, Authorization=f"Bearer {key}"))[0] == 403
            assert (await served.ask(CHAT, Authorization=f"Bearer {key}"))[0] == 200
            assert (served.told[-1].ending, served.told[-1].key) == ("ok", "team-a")
            assert key not in repr(served.told)

    in_loop(run())


def test_tokens_are_settled_from_what_the_backend_counted() -> None:
    key, settings = key_of("a", tokens_per_min=100)
    large = {**CHAT, "max_tokens": 80}

    async def run() -> None:
        async with scripted(whole) as a, gateway_of(Backend("a", a.url, "m"), keys=[settings]) as served:
            asked = [await served.ask(large, Authorization=f"Bearer {key}") for _ in range(3)]
            assert [status for status, _ in asked] == [200, 200, 429], "81 reserved, 11 used: the third has too little"
            assert "100 tokens a minute" in json.loads(asked[-1][1])["error"]["message"]
            assert len(a.asked) == 2

    in_loop(run())


def test_money_of_a_day_is_spent_by_the_price_of_the_backend_that_answered() -> None:
    key, settings = key_of("a", money_per_day="0.00004 USD")

    async def run() -> None:
        async with scripted(whole) as a:
            backend = Backend("a", a.url, "m", token_price=PRICED)
            async with gateway_of(backend, keys=[settings]) as served:
                asked = [await served.ask(CHAT, Authorization=f"Bearer {key}") for _ in range(3)]
            money = [each.money for each in served.told]
        assert [status for status, _ in asked] == [200, 200, 402], "8 output tokens at 2 USD a million, twice"
        assert money == [Decimal("0.000016"), Decimal("0.000016"), Decimal(0)], "it stands in the rows too"


def test_prompt_tokens_are_charged_where_they_have_a_price() -> None:
    key, settings = key_of("a", money_per_day="0.00004 USD")
    priced = Backend("a", "", "m", token_price=PRICED, input_price=(Decimal(4), "USD"))

    async def run() -> None:
        async with scripted(whole) as a, gateway_of(replace(priced, url=a.url), keys=[settings]) as served:
            asked = [await served.ask(CHAT, Authorization=f"Bearer {key}") for _ in range(3)]
            assert [status for status, _ in asked] == [200, 402, 402]
            assert served.told[0].money == 8 * Decimal("0.000002") + 3 * Decimal("0.000004")

    in_loop(run())

    in_loop(run())


def test_where_no_price_is_known_a_limit_of_money_lets_nobody_in() -> None:
    key, settings = key_of("a", money_per_day="5.00 USD")

    async def run() -> None:
        async with scripted(whole) as a, gateway_of(Backend("a", a.url, "m"), keys=[settings]) as served:
            status, data = await served.ask(CHAT, Authorization=f"Bearer {key}")
            assert (status, "no price" in json.loads(data)["error"]["message"]) == (402, True)

    in_loop(run())


def test_an_answer_that_no_backend_gave_costs_nothing() -> None:
    key, settings = key_of("a", tokens_per_min=10)

    async def refuses(to: Conversation) -> None:
        await to.head("500 No", "application/json")

    async def run() -> None:
        async with scripted(refuses) as a, gateway_of(Backend("a", a.url, "m"), keys=[settings]) as served:
            small = {**CHAT, "max_tokens": 5}
            statuses = [(await served.ask(small, Authorization=f"Bearer {key}"))[0] for _ in range(5)]
            assert statuses[0] == 502
            assert 429 not in statuses, "a backend that refused has used no token"

    in_loop(run())


def test_a_whole_answer_that_nobody_counted_is_said_to_be_not_counted() -> None:
    async def says_no_counts(to: Conversation) -> None:
        said = {"choices": [{"index": 0, "message": {"role": "assistant", "content": "once"}, "finish_reason": "stop"}]}
        await to.head(kind="application/json")
        await to.raw(json.dumps(said).encode())

    async def run() -> None:
        async with scripted(says_no_counts) as a, gateway_of(Backend("a", a.url, "m")) as served:
            before = served.app.router.states["a"].load.answer_tokens
            assert (await served.ask(CHAT))[0] == 200
            (told,) = served.told
            assert (told.output_tokens, told.chunk_tokens, told.ending) == (None, [0], "ok")
            assert told.error == "the backend counted no tokens of this answer"
            assert served.app.router.states["a"].load.answer_tokens == before, "nothing was learnt from it"

    in_loop(run())


def test_a_whole_answer_teaches_the_length_that_its_backend_counted() -> None:
    async def run() -> None:
        async with scripted(whole) as a, gateway_of(Backend("a", a.url, "m")) as served:
            load = served.app.router.states["a"].load
            load.answer_tokens = 100.0 + len(WORDS)
            await served.ask(CHAT)
            assert load.answer_tokens == 99.0 + len(WORDS)  # one part in a hundred of the way

    in_loop(run())


def test_embeddings_have_prompt_tokens_alone_and_are_settled_by_them() -> None:
    key, settings = key_of("a", tokens_per_min=100)

    async def embeds(to: Conversation) -> None:
        said = {"object": "list", "data": [{"object": "embedding", "index": 0, "embedding": [0.5, 0.25]}],
                "usage": {"prompt_tokens": 40, "total_tokens": 40}}  # fmt: skip
        await to.head(kind="application/json")
        await to.raw(json.dumps(said).encode())

    async def run() -> None:
        async with scripted(embeds) as a:
            backend = Backend("a", a.url, "m", token_price=PRICED, input_price=(Decimal(1), "USD"))
            async with gateway_of(backend, keys=[settings]) as served:
                body = {"model": "m", "input": "x" * 20}
                asked = [await served.ask(body, "/embeddings", Authorization=f"Bearer {key}") for _ in range(4)]
                assert [status for status, _ in asked] == [200, 200, 200, 429], (
                    "5 reserved, 40 used: a debt after three"
                )
                assert json.loads(asked[0][1])["data"][0]["embedding"] == [0.5, 0.25]
                first = served.told[0]
                assert (first.input_tokens, first.output_tokens, first.chunk_tokens) == (40, 0, [0])
                assert (first.money, first.error) == (Decimal("0.00004"), "")
                assert a.paths == ["/v1/embeddings"] * 3

    in_loop(run())


def test_a_request_that_waits_for_a_free_backend_says_for_how_long() -> None:
    free = asyncio.Event()

    async def waits(to: Conversation) -> None:
        await free.wait()
        await whole(to)

    async def run() -> None:
        async with scripted(waits) as a, gateway_of(Backend("a", a.url, "m", most_in_flight=1), queue=1) as served:
            asked = [asyncio.create_task(served.ask(CHAT)) for _ in range(2)]
            async with asyncio.timeout(60):
                while not (a.asked and len(served.app._failover.queue)):  # type: ignore[union-attr]
                    await asyncio.sleep(0.01)
            status, data = await served.ask(CHAT)
            assert (status, "1 requests wait already" in json.loads(data)["error"]["message"]) == (429, True)
            await asyncio.sleep(0.05)
            free.set()
            assert [(await each)[0] for each in asked] == [200, 200]
            refused, first, second = served.told
            assert (refused.status, refused.queued_ns, first.queued_ns) == (429, 0, 0)
            assert second.queued_ns >= 50_000_000
            rows = request_rows([first, second], 0, first.intended_ns).to_pylist()
            assert rows[0]["released_ns"] is None
            assert rows[1]["intended_ns"] < rows[1]["released_ns"] <= rows[1]["sent_ns"]

    in_loop(run())
