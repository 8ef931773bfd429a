"""Who a backend is: asked until it is known, again when it comes back, and kept when the file is read again."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
from benchmarks.gateway_routing import LAW, measured, started
from tests.gateway.scripted import CHAT, Conversation, gateway_of, in_loop, scripted, whole
from tests.gateway.test_gateway_failover import TEXT

from twinlens.gateway.backend import Backend
from twinlens.gateway.routing import asking
from twinlens.gateway.routing.asking import as_before, keep_asking
from twinlens.gateway.routing.router import Router
from twinlens.gateway.settings import BackendSettings, GatewaySettings
from twinlens.simulation.law import one
from twinlens.simulation.rules import Rules
from twinlens.simulation.server.entry import Settings, serving

KNOWN = measured(LAW, Rules(), 60, 400, started(0))
WEIGHTS = replace(KNOWN, weights="w1")


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "AGAIN_S", 0.05)
    monkeypatch.setattr(asking, "_LOOK_S", 0.05)


@contextlib.asynccontextmanager
async def asked(router: Router, said: list[str]) -> AsyncIterator[None]:
    task = asyncio.create_task(keep_asking(router, said.append))
    try:
        yield
    finally:
        task.cancel()


async def until(said: list[str], count: int) -> None:
    async with asyncio.timeout(60):
        while len(said) < count:
            await asyncio.sleep(0.02)


def test_a_dead_server_that_comes_later_is_asked_for_its_identity_again() -> None:
    with socket.create_server(("127.0.0.1", 0)) as held:
        port = held.getsockname()[1]
    url, said = f"http://127.0.0.1:{port}/v1", list[str]()

    async def run() -> None:
        router = Router([Backend("a", url)], GatewaySettings(backend=(BackendSettings(name="a", url=url),)))
        async with asked(router, said):
            await until(said, 1)
            assert not router.backends[0].was_asked
            server = serving(one(0.002), Rules(), Settings(port=port, model="m"))
            await asyncio.to_thread(server.__enter__)
            try:
                await until(said, 2)
            finally:
                await asyncio.to_thread(server.__exit__, None, None, None)
        assert (router.backends[0].was_asked, router.backends[0].model) == (True, "m")

    in_loop(run())
    assert said[0].startswith("a: not measured (not asked: no server answers")
    assert said[1:] == ["a: not measured (no run is named for it)"]


def test_a_server_that_was_gone_is_asked_again_and_said_to_be_another_where_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answers, said = ["same", "same", "not the one measured"], list[str]()
    monkeypatch.setattr(asking, "_identified", lambda each: replace(each, identity=answers.pop(0), was_asked=True))

    async def run() -> None:
        backend = Backend("a", "http://x", "m", measured=KNOWN)
        router = Router([backend], GatewaySettings(backend=(BackendSettings(name="a", url="http://x"),)))
        async with asked(router, said):
            await until(said, 1)
            health = router.states["a"].health
            for left in (1, 0):
                health.end(1, "connect", is_trial=False, retry_after_s=None, is_busy=False)
                await asyncio.sleep(0.15)
                health.end(2, "", is_trial=True, retry_after_s=None, is_busy=False)
                async with asyncio.timeout(60):
                    while len(answers) > left:
                        await asyncio.sleep(0.02)
            await until(said, 2)
            assert router.backends[0].predicts is False

    in_loop(run())
    assert said == ["a: same", "a: not the one measured"], "that it is the same again is no news"


def test_what_a_server_said_stays_when_the_file_is_read_again() -> None:
    said = Backend("a", "http://x", "m", measured=WEIGHTS, identity="same", weights="w1", was_asked=True)
    old = replace(said, longest_tokens=9, gives_token_ids=True)
    new = Backend("a", "http://x", measured=replace(WEIGHTS), most_in_flight=3)
    kept = as_before(new, old)
    assert (kept.identity, kept.model, kept.weights, kept.gives_token_ids) == ("same", "m", "w1", True)
    assert kept.measured is old.measured, "so that what was learnt of its law goes on"
    assert kept.most_in_flight == 3
    for other in (
        replace(new, url="http://y"),
        replace(new, model="n"),
        replace(new, key="k"),
        replace(new, measured=None),
    ):
        assert as_before(other, old) is other
    assert as_before(new, None) is new
    assert as_before(new, replace(old, was_asked=False)) is new


def test_numbers_of_tokens_are_asked_for_once_when_the_weights_are_known() -> None:
    tried: list[str] = []

    async def gives(to: Conversation) -> None:
        if "messages" in to.body:
            return await whole(to)
        tried.append(to.path)
        said = {
            "choices": [{"index": 0, "text": "b", "token_ids": [1], "prompt_token_ids": [2], "finish_reason": "stop"}]
        }
        await to.head(kind="application/json")
        return await to.raw(json.dumps(said).encode())

    async def run() -> None:
        async with (
            scripted(gives, knows_ids=True) as a,
            gateway_of(Backend("a", a.url, "m"), stream_failure="continue") as served,
        ):
            app = served.app
            assert tried == [], "nobody knows its weights yet"
            app.router.backends = tuple(replace(each, weights="w", was_asked=True) for each in app.router.backends)
            await app.find_token_ids()
            await app.find_token_ids()
            assert (await served.stream(CHAT))[0] == TEXT
            await app.renew(app.settings, [Backend("a", a.url, weights="w")])
            assert app.router.backends[0].gives_token_ids is True
        assert len(tried) == 1

    in_loop(run())
