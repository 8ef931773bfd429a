"""One request to one backend: opened until its first content is here, then read piece by piece."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from dataclasses import dataclass
from typing import Any

import aiohttp

from twinlens.gateway.asked import PATHS, Asked, Kind
from twinlens.gateway.backend import Backend
from twinlens.gateway.outcome import Attempt
from twinlens.gateway.relay.failed import Failed
from twinlens.gateway.relay.passing import Passing
from twinlens.network.answer.events import Answer
from twinlens.network.answer.frame import Malformed
from twinlens.network.target import SIMULATED
from twinlens.record.foreign_text import in_one_line

_MOST_WHOLE_BYTES = 2**26
_MOST_ERROR_BYTES = 2**16
_LEFT_S = 0.5
_HEADERS = {"Content-Type": "application/json", "Accept": "text/event-stream"}


@dataclass(frozen=True, slots=True)
class Posting:
    """What is sent: where, and the body."""

    kind: Kind
    body: bytes


def posting_of(asked: Asked, backend: Backend, *, token_ids: bool = False) -> Posting:
    """The request as this backend understands it: its own name of the model, and counts at the end of a stream.
    `token_ids`: numbers of the tokens are asked for, from which another backend could go on."""
    body: dict[str, Any] = dict(asked.body)
    if backend.model:
        body["model"] = backend.model
    if asked.streams:
        body["stream_options"] = {**(body.get("stream_options") or {}), "include_usage": True}
    if token_ids:
        body["return_token_ids"] = True
    return Posting(asked.kind, json.dumps(body, separators=(",", ":")).encode())


class Upstream:
    """`passing`: of a stream; `whole`: the bytes of an answer in one piece. `held`: what came up to the first content.
    `takes_ids`: what another backend needs to go on is kept."""

    def __init__(self, session: aiohttp.ClientSession, backend: Backend, asked: Asked, attempt: Attempt,
                 *, takes_ids: bool = False) -> None:  # fmt: skip
        self.backend, self.attempt = backend, attempt
        self._session, self._asked = session, asked
        self.passing = Passing(hides_usage=not asked.wants_usage, takes_ids=takes_ids)
        self.held, self.held_tokens = b"", 0
        self.whole = b""
        self._response: aiohttp.ClientResponse | None = None
        self._ends = False

    @property
    def answer(self) -> Answer:
        return self.passing.answer

    async def open(self, posting: Posting, within_s: float) -> None:
        """Until the first content of a stream, or the whole of an answer in one piece. Raises Failed."""
        try:
            async with asyncio.timeout(within_s):
                await self._open(posting)
        except Failed:
            self.close()
            raise
        except (TimeoutError, aiohttp.ServerTimeoutError):
            self.close()
            raise Failed("first token late", f"no first token within {within_s:.3g} s") from None
        except aiohttp.ClientSSLError as wrong:
            self.close()
            raise Failed("connect", f"its certificate is not accepted: {in_one_line(str(wrong), 120)}") from None
        except (aiohttp.ClientConnectorError, aiohttp.ServerDisconnectedError, ConnectionError) as wrong:
            self.close()
            raise Failed("connect", in_one_line(str(wrong) or type(wrong).__name__, 160)) from None
        except (aiohttp.ClientError, OSError, ValueError) as wrong:
            self.close()
            raise Failed("broken", in_one_line(str(wrong) or type(wrong).__name__, 160)) from None
        except BaseException:  # the client left, or another backend was faster
            self.close()
            raise

    async def _open(self, posting: Posting) -> None:
        url = self.backend.url + PATHS[posting.kind]
        response = await self._session.post(url, data=posting.body, headers=_HEADERS, allow_redirects=False)
        self._response, self.attempt.status = response, response.status
        if response.status != 200:
            raise await _refused(response)
        if response.headers.get("Content-Encoding", "identity") != "identity":
            raise Failed("malformed", "its answer is compressed, which was not asked for")
        if self._asked.streams and response.content_type == "text/event-stream":
            await self._until_content()
        else:
            await self._read_whole(response)

    async def _until_content(self) -> None:
        while not self.held_tokens and not self._ends:
            block, tokens = await self._next()
            self.held, self.held_tokens = self.held + block, self.held_tokens + tokens
        if self.held_tokens or (self.answer.finish is not None and not self.passing.wrong):
            return
        raise self._failure()

    async def _read_whole(self, response: aiohttp.ClientResponse) -> None:
        whole = bytearray()
        async for data in response.content.iter_any():
            whole += data
            if len(whole) > _MOST_WHOLE_BYTES:
                raise Failed("malformed", f"its answer does not end: over {_MOST_WHOLE_BYTES} bytes")
        try:
            self.answer.take_whole(bytes(whole), 0)
        except Malformed as wrong:
            raise Failed("malformed", str(wrong)) from None
        if self.answer.error:
            raise Failed("error event", self.answer.error)
        self.whole, self._ends = bytes(whole), True

    async def read(self) -> tuple[bytes, int, int]:
        """The next events, how many of them have content, and when they were here (monotonic ns); no bytes at the end.

        Raises Failed where the answer is over and not whole.
        """
        try:
            while not self._ends:
                block, tokens = await self._next()
                if block:
                    return block, tokens, time.monotonic_ns()
        except (aiohttp.ServerTimeoutError, TimeoutError):
            raise Failed("late", "silent for too long in mid-answer") from None
        except (aiohttp.ClientError, OSError, ValueError) as wrong:
            raise Failed("broken", in_one_line(str(wrong) or type(wrong).__name__, 160)) from None
        if self.passing.wrong or self.answer.finish is None:
            raise self._failure()
        return b"", 0, time.monotonic_ns()

    async def _next(self) -> tuple[bytes, int]:
        assert self._response is not None
        data = await self._response.content.readany()
        if not data:
            self._ends = True
            return self.passing.end()
        given = self.passing.feed(data)
        self._ends = bool(self.passing.wrong) or self.answer.is_done
        return given

    def _failure(self) -> Failed:
        if self.answer.error:
            return Failed("error event", self.answer.error)
        if self.passing.wrong:
            return Failed("malformed", self.passing.wrong)
        begun = "in mid-answer" if self.answer.reads else "before it began"
        return Failed("broken", f"ended the answer {begun}")

    @property
    def says(self) -> dict[str, str]:
        """Headers of its answer that go on: a simulated server stays one behind a gateway."""
        found = self._response.headers.get(SIMULATED) if self._response is not None else None
        return {SIMULATED: found} if found and found.isprintable() else {}

    async def finish(self) -> None:
        """Read to the very end what ends with `[DONE]`, so that the connection can be used again."""
        if self._response is not None and not self._response.content.at_eof() and self.answer.is_done:
            with contextlib.suppress(TimeoutError, aiohttp.ClientError, OSError):
                async with asyncio.timeout(_LEFT_S):
                    await self._response.content.readany()
        self.close()

    def close(self) -> None:
        """Its connection is kept where the answer was read to its end, and closed where it was not: that ends the
        request at the backend too."""
        if self._response is not None:
            self._response.release() if self._ends and self._response.content.at_eof() else self._response.close()


async def _refused(response: aiohttp.ClientResponse) -> Failed:
    if 300 <= response.status < 400:
        return Failed("status", "it sends elsewhere, which is not followed", status=response.status)
    body = await response.content.read(_MOST_ERROR_BYTES)
    said = in_one_line(body[:200].decode("utf-8", "replace"), 200)
    after_s = _seconds(response.headers.get("Retry-After", ""))
    return Failed(
        "status", f"it answers {response.status}: {said}", status=response.status, body=body, retry_after_s=after_s
    )


def _seconds(word: str) -> float | None:
    try:
        seconds = float(word)
    except ValueError:
        return None
    return seconds if 0 <= seconds < 86400 else None
