"""One request to one backend: opened until its first content is here, then read piece by piece."""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from twinlens.gateway.asked import PATHS, Asked, Kind
from twinlens.gateway.backend import Backend
from twinlens.gateway.outcome import Attempt, Failure
from twinlens.gateway.relay.passing import Passing
from twinlens.gateway.relay.wire import Broken, Pool, Wire
from twinlens.network.answer.events import Answer
from twinlens.network.answer.frame import Malformed, Reply
from twinlens.network.target import SIMULATED
from twinlens.record.foreign_text import in_one_line

_MOST_WHOLE_BYTES = 2**26
_MOST_ERROR_BYTES = 2**16
_LEFT_S = 0.5
_SIMULATED = SIMULATED.lower()
_CLIENTS = frozenset({400, 404, 405, 409, 413, 415, 422})
"""Statuses that say the request is wrong: no other backend is asked, and the client is told."""
_json = json.JSONEncoder(separators=(",", ":")).encode
Deliver = Callable[[bytes, int], bool]
"""Takes whole events and how many of them have content; whether more may come now."""


class Failed(Exception):
    """A backend did not do its work. `status`, `body`: of its answer, if any came; `retry_after_s`: as asked."""

    def __init__(self, kind: Failure, said: str, *, status: int | None = None, body: bytes = b"",
                 retry_after_s: float | None = None) -> None:  # fmt: skip
        super().__init__(said)
        self.kind, self.said, self.status, self.body, self.retry_after_s = kind, said, status, body, retry_after_s

    @property
    def is_clients(self) -> bool:
        return self.kind == "status" and self.status in _CLIENTS


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
    return Posting(asked.kind, _json(body).encode())


class Upstream:
    """`passing`: of a stream; `whole`: the bytes of an answer in one piece. `held`: what came up to the first content.
    `takes_ids`: what another backend needs to go on is kept. `says`: headers of its answer that go on."""

    def __init__(
        self, pool: Pool, backend: Backend, asked: Asked, attempt: Attempt, *, takes_ids: bool = False
    ) -> None:
        self.backend, self.attempt = backend, attempt
        self._pool, self._asked = pool, asked
        self.passing = Passing(hides_usage=not asked.wants_usage, takes_ids=takes_ids)
        self.held, self.held_tokens = b"", 0
        self.whole = b""
        self.says: dict[str, str] = {}
        self._wire: Wire | None = None
        self._ends = False

    @property
    def answer(self) -> Answer:
        return self.passing.answer

    async def open(self, posting: Posting, within_s: float) -> None:
        """Until the first content of a stream, or the whole of an answer in one piece. Raises Failed."""
        try:
            async with asyncio.timeout(within_s):
                await self._open(posting)
        except TimeoutError:
            self.close()
            raise Failed("first token late", f"no first token within {within_s:.3g} s") from None
        except BaseException as wrong:
            self.close()
            if isinstance(wrong, (OSError, ValueError)):
                raise _failed(wrong) from None
            raise  # it has failed already, the client left, or another backend was faster

    async def _open(self, posting: Posting) -> None:
        self._wire = await self._pool.post(PATHS[posting.kind], posting.body)
        reply = await self._wire.head()
        self.attempt.status = reply.status
        if reply.status != 200:
            raise await _refused(self._wire, reply)
        if reply.headers.get("content-encoding", "identity") != "identity":
            raise Failed("malformed", "its answer is compressed, which was not asked for")
        if (found := reply.headers.get(_SIMULATED)) and found.isprintable():
            self.says = {SIMULATED: found}  # a simulated server stays one behind a gateway
        kind = reply.headers.get("content-type", "").partition(";")[0].strip().lower()
        if self._asked.streams and kind == "text/event-stream":
            await self._until_content(self._wire)
        else:
            await self._read_whole(self._wire)

    async def _until_content(self, wire: Wire) -> None:
        while not self.held_tokens and not self._ends:
            data = await wire.read()
            block, tokens = self._fed(data) if data else self._ended()
            self.held, self.held_tokens = self.held + block, self.held_tokens + tokens
        if self.held_tokens or (self.answer.finish is not None and not self.passing.wrong):
            return
        raise self._failure()

    async def _read_whole(self, wire: Wire) -> None:
        whole = bytearray()
        while data := await wire.read():
            whole += data
            if len(whole) > _MOST_WHOLE_BYTES:
                raise Failed("malformed", f"its answer does not end: over {_MOST_WHOLE_BYTES} bytes")
        try:
            self.answer.take_whole(bytes(whole), 0)
        except Malformed as wrong:
            raise Failed("malformed", str(wrong)) from None
        if self.answer.error:
            raise Failed("error event", self.answer.error)
        if not self._has_content():
            raise Failed("malformed", "its answer has nothing in it that was asked for")
        self.whole, self._ends = bytes(whole), True
        self.close()

    def _has_content(self) -> bool:
        said = self.answer.said or {}
        if self._asked.kind == "embeddings":
            return isinstance(said.get("data"), list)
        return bool(self.answer.reads) or self.answer.finish is not None

    async def flow(self, deliver: Deliver) -> bool:
        """Whole events go to `deliver` as they come, in the very callback that has read them. True: the answer is over;
        False: `deliver` wants no more now. Raises Failed where the answer is over and not whole."""
        assert self._wire is not None
        takes, passing, answer = True, self.passing, self.answer
        feed = passing.feed

        def took(data: bytes) -> bool:
            nonlocal takes
            block, tokens = feed(data)
            takes = deliver(block, tokens) if block else True
            if answer.is_done or passing.wrong:
                self._ends = True
                return False
            return takes

        try:
            if not self._ends:
                await self._wire.flow(took)
            if not takes and not self._ends:
                return False
            if not self._ends:
                block, tokens = self._ended()
                if block:
                    deliver(block, tokens)
        except (OSError, ValueError) as wrong:
            raise Failed("broken", in_one_line(str(wrong) or type(wrong).__name__, 160)) from None
        if self.passing.wrong or self.answer.finish is None:
            raise self._failure()
        return True

    def _fed(self, data: bytes) -> tuple[bytes, int]:
        given = self.passing.feed(data)
        self._ends = bool(self.passing.wrong) or self.answer.is_done
        return given

    def _ended(self) -> tuple[bytes, int]:
        self._ends = True
        return self.passing.end()

    def _failure(self) -> Failed:
        if self.answer.error:
            return Failed("error event", self.answer.error)
        if self.passing.wrong:
            return Failed("malformed", self.passing.wrong)
        begun = "in mid-answer" if self.answer.reads else "before it began"
        return Failed("broken", f"ended the answer {begun}")

    async def finish(self) -> None:
        """Read to the very end what ends with `[DONE]`, so that the connection can be used again."""
        if self._wire is not None and self.answer.is_done and not self._wire.reply.is_over:
            with contextlib.suppress(TimeoutError, OSError):
                async with asyncio.timeout(_LEFT_S):
                    while await self._wire.read():
                        pass
        self.close()

    def close(self) -> None:
        """Its connection is kept where the answer was read to its end, and closed where it was not: that ends the
        request at the backend too."""
        wire, self._wire = self._wire, None
        if wire is not None:
            wire.close()


def _failed(wrong: OSError | ValueError) -> Failed:
    """What became of a connection, in words."""
    said = in_one_line(str(wrong) or type(wrong).__name__, 160)
    if isinstance(wrong, ssl.SSLCertVerificationError):
        why = in_one_line(wrong.verify_message or said, 160).rstrip(".")
        return Failed("connect", f"its certificate is not accepted: {why}")
    if isinstance(wrong, ssl.SSLError):
        return Failed("connect", f"no encrypted connection: {in_one_line(wrong.reason or said, 160)}")
    is_begun = isinstance(wrong, Broken) and wrong.has_begun
    return Failed("broken" if is_begun or not isinstance(wrong, OSError) else "connect", said)


async def _refused(wire: Wire, reply: Reply) -> Failed:
    if 300 <= reply.status < 400:
        return Failed("status", "it sends elsewhere, which is not followed", status=reply.status)
    body = b""
    while len(body) < _MOST_ERROR_BYTES and (data := await wire.read()):
        body += data
    said = in_one_line(body[:200].decode("utf-8", "replace"), 200)
    after_s = _seconds(reply.headers.get("retry-after", ""))
    return Failed(
        "status", f"it answers {reply.status}: {said}", status=reply.status, body=body[:_MOST_ERROR_BYTES],
        retry_after_s=after_s,
    )  # fmt: skip


def _seconds(word: str) -> float | None:
    try:
        seconds = float(word)
    except ValueError:
        return None
    return seconds if 0 <= seconds < 86400 else None
