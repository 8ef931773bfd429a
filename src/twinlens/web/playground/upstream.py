"""One question to one server: what comes, and when it was here, by the monotonic clock of this process.

The client of a measurement (network/client.py) understands an answer when it is over and takes the kernel's stamps; a
talk is to be seen as it comes. So the times here hold what the event loop of the site adds, and each is one request's.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from functools import partial

import aiohttp

from twinlens.gateway.relay.connections import session as connections
from twinlens.network.answer.events import Answer, Events
from twinlens.network.answer.frame import Malformed
from twinlens.network.discovery import first_model
from twinlens.network.target import STREAMED
from twinlens.record.foreign_text import all_whole, in_one_line, whole
from twinlens.system.document import json_of
from twinlens.web.playground.wanted import Wanted

MOST_BYTES = 16 * 2**20
_PAGE_BYTES = 4 * 2**20
_NO_CHAT = (400, 404, 405, 422)
_LONGEST_S, _SILENCE_S, _PAGE_S = 1800.0, 300.0, 5.0


@dataclass(slots=True)
class Exchange:
    """One request and what came of it. Times in ns of the monotonic clock; `chunk_ns`: of each chunk with text.
    `merged`: chunks that came together with the one before, whose time they share. `endpoint`: the one that answered.
    `error`: why it is not whole."""

    wanted: Wanted
    sent_ns: int = 0
    end_ns: int = 0
    status: int | None = None
    error: str | None = None
    chunk_ns: list[int] = field(default_factory=list)
    merged: int = 0
    endpoint: str = "chat"
    answer: Answer = field(default_factory=Answer)
    is_stopped: bool = False

    @property
    def tokens(self) -> int:
        """Output tokens: as counted by the server, else one a chunk."""
        counted = (self.answer.usage or {}).get("completion_tokens")
        return counted if type(counted) is int and counted >= 0 else len(self.chunk_ns)

    @property
    def prompt_tokens(self) -> int | None:
        """Of the prompt, by the server's count; None where it gives none."""
        counted = (self.answer.usage or {}).get("prompt_tokens")
        return counted if type(counted) is int and counted >= 0 else None


def session(url: str, key: str = "") -> aiohttp.ClientSession:
    """Connections of its own for one talk."""
    return connections(url, key, longest_s=_LONGEST_S, silence_s=_SILENCE_S)


async def page(asking: aiohttp.ClientSession, url: str) -> bytes | None:
    """A small page of a server; None where it has none, or takes too long."""
    try:
        within = aiohttp.ClientTimeout(total=_PAGE_S)
        async with asking.get(url, timeout=within, allow_redirects=False) as answer:
            if answer.status != 200:
                return None
            content = await answer.content.read(_PAGE_BYTES)
            while len(content) < _PAGE_BYTES and (more := await answer.content.read(_PAGE_BYTES - len(content))):
                content += more
            return content
    except (aiohttp.ClientError, OSError, TimeoutError, ValueError):
        return None


async def first_served(asking: aiohttp.ClientSession, url: str) -> str:
    """The first model that the server lists; "" where it lists none."""
    content = await page(asking, f"{url}/models")
    try:
        return in_one_line(first_model({"/models": all_whole(json_of((content or b"null").decode()))}), 300)
    except ValueError:
        return ""


async def ask(asking: aiohttp.ClientSession, exchange: Exchange) -> AsyncIterator[tuple[str, list[int]]]:
    """Send it; what each read brought: new text, and the times of its chunks with text. Whatever goes wrong is the
    exchange's `error`."""
    exchange.sent_ns = time.monotonic_ns()
    try:
        async for piece in _read(asking, exchange):
            yield piece
    except Malformed as wrong:
        exchange.error = str(wrong)
    except TimeoutError:
        exchange.error = "the server was silent for too long"
    except (aiohttp.ClientError, OSError, ValueError) as wrong:
        exchange.error = in_one_line(f"no answer: {wrong}" if str(wrong) else type(wrong).__name__, 200)
    except (asyncio.CancelledError, GeneratorExit):
        exchange.is_stopped, exchange.error = True, "stopped"
        raise
    finally:
        exchange.end_ns = exchange.chunk_ns[-1] if exchange.chunk_ns and not exchange.error else time.monotonic_ns()
        exchange.error = exchange.error or exchange.answer.error


async def _read(asking: aiohttp.ClientSession, exchange: Exchange) -> AsyncIterator[tuple[str, list[int]]]:
    """By the chat's endpoint; where the server has none for this model (no template), by that of plain text."""
    headers = {"Content-Type": "application/json", "Accept": "text/event-stream"}
    refused = ""
    for exchange.endpoint in ("chat", "completions"):
        url = exchange.wanted.url + STREAMED[exchange.endpoint]
        body = json.dumps(exchange.wanted.body(exchange.endpoint)).encode()
        exchange.sent_ns = time.monotonic_ns()
        async with asking.post(url, data=body, headers=headers, allow_redirects=False) as answer:
            exchange.status = answer.status
            if answer.status in _NO_CHAT and exchange.endpoint == "chat":
                refused = in_one_line((await answer.content.read(2000)).decode("utf-8", "replace"), 200)
                continue
            if 300 <= answer.status < 400:
                exchange.error = "the server sends elsewhere; write the address that it goes to"
            elif answer.status != 200:
                said = in_one_line((await answer.content.read(2000)).decode("utf-8", "replace"), 200) or refused
                exchange.error = f"the server answers {answer.status}: {said}"
            else:
                async for piece in _understood(answer, exchange):
                    yield piece
            return


async def _understood(answer: aiohttp.ClientResponse, exchange: Exchange) -> AsyncIterator[tuple[str, list[int]]]:
    """The pieces of a good answer. Raises Malformed."""
    if answer.content_type == "application/json":
        yield _taken(exchange, partial(exchange.answer.take_whole, await _whole(answer), 0))
        return
    events, size = Events(), 0
    async for data in answer.content.iter_any():
        if (size := size + len(data)) > MOST_BYTES:
            raise Malformed(f"the answer does not end: over {MOST_BYTES} bytes")
        text, times = _taken(exchange, partial(_feed, exchange.answer, events, data))
        if times:
            yield text, times
        if exchange.answer.is_done:
            return
    text, times = _taken(exchange, partial(_end, exchange.answer, events))
    if times:
        yield text, times
    if exchange.answer.finish is None:
        begun = "before it began" if not exchange.chunk_ns else "in mid-answer"
        exchange.error = f"the server ended the answer {begun}"


async def _whole(answer: aiohttp.ClientResponse) -> bytes:
    content = b""
    async for data in answer.content.iter_any():
        if len(content := content + data) > MOST_BYTES:
            raise Malformed(f"the answer does not end: over {MOST_BYTES} bytes")
    return content


def _feed(answer: Answer, events: Events, data: bytes) -> None:
    for event in events.feed(data):
        answer.take(event, 0)


def _end(answer: Answer, events: Events) -> None:
    for event in events.end():
        answer.take(event, 0)


def _taken(exchange: Exchange, take: Callable[[], None]) -> tuple[str, list[int]]:
    """Understand a read that has just come: its text, which nothing here keeps, and its time once for each chunk with
    text in it."""
    now_ns, answer = time.monotonic_ns(), exchange.answer
    chunks = len(answer.reads)
    take()
    times = [now_ns] * (len(answer.reads) - chunks)
    exchange.merged += max(0, len(times) - 1)
    exchange.chunk_ns += times
    text = whole("".join(answer.parts))
    answer.parts.clear()
    return text, times
