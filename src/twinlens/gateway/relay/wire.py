"""Connections to one backend, each for one request at a time: what comes is understood as it is read, without a task.

A task that waits for each token costs more than all that is done with it (docs/results/gateway-speed.md).
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import time
from collections.abc import Callable
from urllib.parse import quote, urlsplit

from twinlens.gateway.address import is_numeric, may_ask
from twinlens.network.answer.fast_path import is_one_chunk
from twinlens.network.answer.frame import Reply
from twinlens.network.target import tls_context
from twinlens.version import __version__

_CONNECT_S = 5.0
_KEPT_S = 4.0
"""Servers on uvicorn close an idle connection after five seconds: one that is reused must not be met half closed."""
_MOST_UNREAD_BYTES = 2**19
Sink = Callable[[bytes], bool]
"""Takes a piece of a body; whether more may come now."""


class Broken(OSError):
    """A connection or an answer that ended too early, or was no HTTP. `has_begun`: something of the answer was here."""

    def __init__(self, said: str, *, has_begun: bool) -> None:
        super().__init__(said)
        self.has_begun = has_begun


class Wire(asyncio.Protocol):
    """One connection. `reply`: the head and the frame of the answer to what was sent last."""

    def __init__(self, pool: Pool) -> None:
        self.reply = Reply()
        self.idle_since_s = 0.0
        self._pool = pool
        self._transport: asyncio.Transport | None = None
        self._parts: list[bytes] = []
        self._unread = 0
        self._sink: Sink | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._wrong: Exception | None = None
        self._is_asked = self._has_begun = self._is_lost = self._is_paused = False

    def ask(self, request: bytes) -> None:
        """Send a request; its answer is to be read."""
        assert self._transport is not None
        self.reply, self._is_asked, self._has_begun = Reply(), True, False
        self._transport.write(request)

    async def head(self) -> Reply:
        """The answer, once its head is here. Raises Broken."""
        while not self.reply.has_head:
            self._refuse_broken()
            await self._more()
        return self.reply

    async def read(self) -> bytes:
        """What is here of the body, none where it is over. Raises Broken."""
        while not self._parts:
            if self.reply.is_over:
                return b""
            self._refuse_broken()
            await self._more()
        body = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
        self._parts, self._unread = [], 0
        self._go_on()
        return body

    async def flow(self, sink: Sink) -> None:
        """Give `sink` each piece of the body as it is read, until the answer is over or the sink wants no more now.

        Raises Broken, and what the sink raises.
        """
        parts, self._parts, self._unread = self._parts, [], 0
        if parts and not sink(b"".join(parts)):
            return
        self._sink = sink
        self._go_on()
        try:
            while self._sink is not None and not self.reply.is_over:
                self._refuse_broken()
                await self._more()
        finally:
            self._sink = None
        if self._wrong is not None:
            raise self._wrong

    def close(self) -> None:
        """Kept for another request where the answer was read to its end; else its end tells the backend to stop."""
        if not self._is_asked:
            return
        if self.reply.keeps_alive and not self._is_lost and self._wrong is None:
            self._is_asked, self._parts, self._unread = False, [], 0
            self._go_on()
            self._pool.keep(self)
        else:
            self.abort()

    def abort(self) -> None:
        """End the connection."""
        self._is_asked = False
        if self._transport is not None:
            self._transport.abort()

    @property
    def is_open(self) -> bool:
        return not self._is_lost and self._transport is not None and not self._transport.is_closing()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        if not self._is_asked:  # nobody waits for this: whatever it is, the next answer must not begin with it
            self.abort()
            return
        reply, sink, self._has_begun = self.reply, self._sink, True
        if is_one_chunk(data) and reply.between_chunks and reply.frame == "chunked":
            body, is_last = data[data.index(b"\n") + 1 : -2], False
        else:
            body = reply.feed(data)
            is_last = reply.is_over or reply.fault is not None
        if sink is None:
            if body:
                self._parts.append(body)
                self._hold(len(body))
            self._wake()
            return
        if body:
            try:
                if not sink(body):
                    self._pause()
                    is_last, self._sink = True, None
            except Exception as wrong:  # it belongs to the request, not to the loop
                is_last, self._wrong = True, wrong
        if is_last:
            self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_lost = True
        if self._is_asked:
            self.reply.end()
        self._pool.forget(self)
        self._wake()

    def _refuse_broken(self) -> None:
        if self._wrong is not None:
            raise self._wrong
        if self.reply.fault is not None:
            raise Broken(self.reply.fault, has_begun=self._has_begun)
        if self._is_lost:
            said = "closed the connection in mid-answer" if self._has_begun else "closed the connection unanswered"
            raise Broken(said, has_begun=self._has_begun)

    async def _more(self) -> None:
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _hold(self, size: int) -> None:
        self._unread += size
        if self._unread > _MOST_UNREAD_BYTES:
            self._pause()

    def _pause(self) -> None:
        if self._transport is not None and not self._is_paused and not self._transport.is_closing():
            self._transport.pause_reading()
            self._is_paused = True

    def _go_on(self) -> None:
        if self._is_paused and self._transport is not None:
            self._transport.resume_reading()
            self._is_paused = False


class Pool:
    """Connections to the backend at `url` (as far as /v1), used again. No proxy, no cookies, nothing compressed, no
    redirection, no address where clouds keep their keys. Raises BadInput (TL207) for a CA file that is none."""

    def __init__(self, url: str, key: str = "", ca_file: str = "") -> None:
        parts = urlsplit(url)
        self._host = parts.hostname or ""
        self._is_name = not is_numeric(self._host)
        self._tls = tls_context(ca_file) if parts.scheme == "https" else None
        self._port = parts.port or (443 if self._tls else 80)
        name = f"[{self._host}]" if ":" in self._host else self._host.encode("idna").decode()
        self._path = quote(parts.path, safe="/%:@!$&'()*+,;=~")
        self._headers = (
            f" HTTP/1.1\r\nHost: {name}{f':{parts.port}' if parts.port else ''}\r\n"
            f"User-Agent: twinlens/{__version__}\r\n"
            "Accept: text/event-stream\r\nAccept-Encoding: identity\r\nContent-Type: application/json\r\n"
            + (f"Authorization: Bearer {key}\r\n" if key else "") + "Content-Length: "
        )  # fmt: skip
        self._idle: list[Wire] = []
        self._all: set[Wire] = set()

    async def post(self, path: str, body: bytes) -> Wire:
        """Send a request to `path` below the address. Raises OSError where there is no connection."""
        wire = self._kept() or await self._connected()
        wire.ask(f"POST {self._path}{path}{self._headers}{len(body)}\r\n\r\n".encode() + body)
        return wire

    def keep(self, wire: Wire) -> None:
        """It may be used again."""
        wire.idle_since_s = time.monotonic()
        self._idle.append(wire)

    def forget(self, wire: Wire) -> None:
        """It is closed."""
        self._all.discard(wire)
        if wire in self._idle:
            self._idle.remove(wire)

    def close(self) -> None:
        """Close all, those that are in use too."""
        for wire in [*self._all]:
            wire.abort()

    def _kept(self) -> Wire | None:
        """The one that was used last, and none that has been idle for too long."""
        oldest_s = time.monotonic() - _KEPT_S
        while self._idle and self._idle[0].idle_since_s < oldest_s:
            self._idle.pop(0).abort()
        while self._idle:
            wire = self._idle.pop()
            if wire.is_open:
                return wire
        return None

    async def _connected(self) -> Wire:
        try:
            async with asyncio.timeout(_CONNECT_S):
                return await self._connect()
        except TimeoutError:
            raise OSError(f"no connection within {_CONNECT_S:g} s") from None

    async def _connect(self) -> Wire:
        """Names become addresses here, since what a name says can change from one moment to the next."""
        loop = asyncio.get_running_loop()
        wrong: OSError | None = None
        found = await loop.getaddrinfo(self._host, self._port, type=socket.SOCK_STREAM) if self._is_name else ()
        for address in [str(each[4][0]) for each in found] or [self._host]:
            if not may_ask(address):
                raise OSError(f"{self._host} is a link-local address, which is not asked")
            try:
                _, wire = await loop.create_connection(
                    lambda: Wire(self), address, self._port, ssl=self._tls,
                    server_hostname=self._host if self._tls else None,
                )  # fmt: skip
            except ssl.SSLError:
                raise
            except OSError as error:
                wrong = error
                continue
            self._all.add(wire)
            return wire
        raise wrong or OSError(f"{self._host} has no address")
