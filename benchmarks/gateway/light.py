"""A client that costs less than what it measures: a protocol a connection, which counts and parses nothing."""

from __future__ import annotations

import asyncio
import time

_CONTENT, _STREAM_END, _HEAD_END = b'"content":" word"', b"0\r\n\r\n", b"\r\n\r\n"
_WORDS = b'{"model":"null","messages":[{"role":"user","content":"how does a gateway add so little?"}],'


def _request(more: bytes) -> bytes:
    body = _WORDS + more
    return b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)


class _Stream(asyncio.Protocol):
    """One stream. `tokens`: content events so far."""

    def __init__(self, tokens: int, over: asyncio.Future[None]) -> None:
        self.tokens = 0
        self._asks, self._over = tokens, over

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._out: asyncio.Transport = transport  # type: ignore[assignment]
        self._out.write(_request(b'"stream":true,"max_tokens":%d}' % self._asks))

    def data_received(self, data: bytes) -> None:
        self.tokens += data.count(_CONTENT)
        if data.endswith(_STREAM_END):
            self._out.close()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._over.done():
            self._over.set_result(None)


async def streams(port: int, count: int, tokens: int, apart_s: float) -> tuple[int, float]:
    """Content events of so many streams that begin one after another, and the seconds until the last was over."""
    loop, began_s = asyncio.get_running_loop(), time.monotonic()
    open_: list[tuple[_Stream, asyncio.Future[None]]] = []
    for _ in range(count):
        over = loop.create_future()
        _, made = await loop.create_connection(lambda over=over: _Stream(tokens, over), "127.0.0.1", port)  # type: ignore[misc]
        open_.append((made, over))
        await asyncio.sleep(apart_s)
    await asyncio.gather(*(over for _, over in open_))
    return sum(made.tokens for made, _ in open_), time.monotonic() - began_s


class _Plain(asyncio.Protocol):
    """One connection that asks again as soon as it has its answer, while `left` says so."""

    def __init__(self, left: list[int], over: asyncio.Future[None]) -> None:
        self._left, self._over, self._got = left, over, b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._out: asyncio.Transport = transport  # type: ignore[assignment]
        self._ask()

    def data_received(self, data: bytes) -> None:
        self._got += data
        head, found, body = self._got.partition(_HEAD_END)
        if not found:
            return
        at = head.lower().index(b"content-length:") + 15
        if len(body) >= int(head[at:].split(b"\r\n", 1)[0]):
            self._got = b""
            self._left[1 if head[9:12] == b"200" else 2] += 1
            self._ask()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._over.done():
            self._over.set_result(None)

    def _ask(self) -> None:
        if self._left[0] <= 0:
            self._out.close()
            return
        self._left[0] -= 1
        self._out.write(_request(b'"max_tokens":1}'))


async def plain(port: int, requests: int, connections: int, within_s: float) -> tuple[int, int]:
    """Requests in one piece, so many at once, for at most so long: how many were answered, how many refused."""
    loop, left = asyncio.get_running_loop(), [requests, 0, 0]
    overs = [loop.create_future() for _ in range(connections)]
    for over in overs:
        await loop.create_connection(lambda over=over: _Plain(left, over), "127.0.0.1", port)  # type: ignore[misc]
    _, late = await asyncio.wait(overs, timeout=within_s)
    left[0] = 0
    if late:
        await asyncio.wait(late, timeout=10)
    return left[1], left[2]
