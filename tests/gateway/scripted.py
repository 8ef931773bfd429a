"""Backends that do as a script says: whole answers, and each way in which a server fails."""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, TypeVar

import aiohttp

from twinlens.gateway.app import App
from twinlens.gateway.backend import Backend
from twinlens.gateway.limits.gate import Gate
from twinlens.gateway.outcome import Outcome
from twinlens.gateway.serve import listen, running, url_of
from twinlens.gateway.settings import GatewaySettings, KeySettings
from twinlens.gateway.watch.records import Records

T = TypeVar("T")
Behaviour = Callable[["Conversation"], Awaitable[None]]
WORDS = ("once", " upon", " a", " time", " there", " was", " a", " server")
CHAT = {"model": "m", "messages": [{"role": "user", "content": "tell"}], "max_tokens": len(WORDS)}


@dataclass
class Conversation:
    """One request at a backend, and the wire to answer it on."""

    body: dict[str, Any]
    path: str
    writer: asyncio.StreamWriter

    async def raw(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def head(self, status: str = "200 OK", kind: str = "text/event-stream", more: str = "") -> None:
        await self.raw(f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nConnection: close\r\n{more}\r\n".encode())

    async def event(self, text: str | None = None, finish: str | None = None, **more: Any) -> None:
        delta: dict[str, Any] = {} if text is None else {"content": text}
        said = {"delta": delta} if "chat" in self.path else {"text": text or ""}
        event = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m"}
        choices = [{"index": 0, **said, "finish_reason": finish, **more.pop("choice", {})}]
        await self.raw(b"data: " + json.dumps({**event, "choices": choices, **more}).encode() + b"\n\n")

    async def usage(self, made: int = len(WORDS), prompt: int = 3) -> None:
        counts = {"prompt_tokens": prompt, "completion_tokens": made, "total_tokens": prompt + made}
        await self.raw(b"data: " + json.dumps({"choices": [], "usage": counts}).encode() + b"\n\n")

    async def done(self) -> None:
        await self.raw(b"data: [DONE]\n\n")


async def whole(to: Conversation) -> None:
    """The answer as it should be."""
    if not to.body.get("stream"):
        message = {"role": "assistant", "content": "".join(WORDS)}
        counts = {"prompt_tokens": 3, "completion_tokens": len(WORDS), "total_tokens": 3 + len(WORDS)}
        said = {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}], "usage": counts}
        await to.head(kind="application/json")
        return await to.raw(json.dumps(said).encode())
    await to.head()
    await to.event("")
    for word in WORDS:
        await to.event(word)
    await to.event(None, "stop")
    await to.usage()
    return await to.done()


@dataclass
class Scripted:
    """A backend on loopback. `asked`: the bodies that came. `left`: how many clients went away before the end."""

    behaviour: Behaviour
    url: str = ""
    asked: list[dict[str, Any]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    left: int = 0
    knows_ids: bool = False

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.closing(writer), contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            size = next(int(line[15:]) for line in head.splitlines() if line.lower().startswith("content-length:"))
            body = json.loads(await reader.readexactly(size))
            if (
                body.get("prompt") == "a" and not self.knows_ids
            ):  # whether it gives numbers of tokens, asked once at the start
                await Conversation(body, "", writer).head("404 Not Found", "application/json")
                return
            self.asked.append(body)
            self.paths.append(head.split()[1])
            answering = asyncio.create_task(self.behaviour(Conversation(body, self.paths[-1], writer)))  # type: ignore[arg-type]
            gone = asyncio.create_task(reader.read(1))
            await asyncio.wait({answering, gone}, return_when=asyncio.FIRST_COMPLETED)
            if not answering.done():
                self.left += 1
                answering.cancel()
            gone.cancel()


@contextlib.asynccontextmanager
async def scripted(
    behaviour: Behaviour, tls: ssl.SSLContext | None = None, *, knows_ids: bool = False
) -> AsyncIterator[Scripted]:
    backend = Scripted(behaviour, knows_ids=knows_ids)
    server = await asyncio.start_server(backend.serve, "127.0.0.1", 0, ssl=tls)
    backend.url = f"http{'s' if tls else ''}://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    try:
        yield backend
    finally:
        server.close()


class Kept(Records):
    """Outcomes, kept."""

    def __init__(self) -> None:
        super().__init__()
        self.outcomes: list[Outcome] = []

    def add(self, outcome: Outcome) -> None:
        self.outcomes.append(outcome)

    def close(self) -> None:
        """Nothing is open."""


@dataclass
class Served:
    """A gateway in front of backends. `told`: what became of each request."""

    url: str
    app: App
    told: list[Outcome]

    async def ask(
        self, body: dict[str, Any] | bytes, path: str = "/chat/completions", **headers: str
    ) -> tuple[int, bytes]:
        async with aiohttp.ClientSession() as client:
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
            async with client.post(self.url + path, data=data, headers=headers) as answer:
                return answer.status, await answer.read()

    async def stream(self, body: dict[str, Any], path: str = "/chat/completions") -> tuple[str, bytes]:
        """The text of a streamed answer, and its bytes."""
        _, data = await self.ask({**body, "stream": True}, path)
        return text_of(data), data


def in_loop(scenario: Coroutine[Any, Any, T]) -> T:
    """In a thread of its own: a test with a browser leaves a loop running in this one."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, scenario).result()


def text_of(data: bytes) -> str:
    events = [json.loads(each[6:]) for each in data.split(b"\n\n") if each[:7] == b"data: {"]
    choices = [each for event in events for each in event.get("choices", [])]
    return "".join(each.get("text") or (each.get("delta") or {}).get("content") or "" for each in choices)


@contextlib.asynccontextmanager
async def gateway_of(
    *backends: Backend, keys: Sequence[KeySettings] | None = None, **settings: Any
) -> AsyncIterator[Served]:
    """A gateway in this loop, round robin unless told otherwise."""
    listed = [{"name": each.name, "url": each.url} for each in backends]
    full = GatewaySettings.model_validate_json(json.dumps({"policy": "round-robin", "backend": listed, **settings}))
    kept = Kept()
    full = full if keys is None else full.model_copy(update={"key": tuple(keys)})
    app = App(full, backends, Gate(full), kept)
    listening = listen("127.0.0.1", 0)
    async with running(app, listening):
        yield Served(url_of(listening), app, kept.outcomes)
