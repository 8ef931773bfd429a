"""Pages over HTTP, each within a deadline and a number of bytes, however slowly or endlessly a server sends.

For what is asked beside a load: models, metrics, readiness. The load itself goes through event_loop.py.
"""

from __future__ import annotations

import http.client
import io
import socket
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_MOST_PAGE_BYTES = 4 * 2**20
CONNECT_S = 3.0
_HEAD_BYTES = 2**18


class NotConnected(TimeoutError):
    """Nobody took the connection in time."""


@dataclass(frozen=True, slots=True)
class Page:
    """What came: status, headers (their names in lower case) and body."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class PageClient:
    """One server, over one connection that is kept. `tls`: None for plain HTTP."""

    def __init__(self, host: str, port: int, tls: ssl.SSLContext | None = None) -> None:
        self._host, self._port, self._tls = host, port, tls
        self._connection: http.client.HTTPConnection | None = None
        self._bounded: _Bounded | None = None

    def ask(
        self,
        path: str,
        headers: Mapping[str, str],
        within_s: float,
        body: bytes | None = None,
        most_bytes: int = _MOST_PAGE_BYTES,
    ) -> Page:
        """The page at `path`, of a POST where there is a `body`, within so many seconds in all.

        Raises NotConnected, TimeoutError, OSError, or http.client.HTTPException for what is no HTTP, too long, or a
        path that cannot be sent. After any of these the connection is closed.
        """
        until_s = time.monotonic() + within_s
        try:
            connection, bounded = self._connected(until_s)
            bounded.until_s, bounded.left_bytes = until_s, most_bytes + _HEAD_BYTES
            connection.request("GET" if body is None else "POST", path, body, dict(headers))
            answer = connection.getresponse()
            content = answer.read(most_bytes)
            if answer.read(1):
                raise http.client.HTTPException(f"it is longer than {most_bytes} bytes")
            return Page(answer.status, {name.lower(): value for name, value in answer.headers.items()}, content)
        except BaseException as error:
            self.close()
            if isinstance(error, ValueError):  # of a path, a header or a size that http.client cannot read
                raise http.client.HTTPException(str(error)[:100]) from None
            raise

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
        if self._bounded is not None:
            self._bounded.end()
        self._connection = self._bounded = None

    def _connected(self, until_s: float) -> tuple[http.client.HTTPConnection, _Bounded]:
        if self._connection is not None and self._bounded is not None and self._connection.sock is not None:
            return self._connection, self._bounded
        self.close()
        try:
            sock = socket.create_connection((self._host, self._port), min(CONNECT_S, _left_s(until_s)))
        except TimeoutError:
            raise NotConnected from None
        except UnicodeError as wrong:  # a label of the name that is empty or too long
            raise socket.gaierror(str(wrong)) from None
        try:
            sock.settimeout(_left_s(until_s))
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._tls is not None:
                sock = self._tls.wrap_socket(sock, server_hostname=self._host)
        except BaseException:
            sock.close()
            raise
        self._connection = http.client.HTTPConnection(self._host, self._port)
        self._connection.default_port = 80 if self._tls is None else 443
        self._connection.sock = self._bounded = _Bounded(sock)
        return self._connection, self._bounded


class _Bounded:
    """A socket whose every wait ends at one moment, and which gives no more than so many bytes: http.client counts
    neither heads nor the time between two reads."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock, self.until_s, self.left_bytes = sock, 0.0, 0

    def makefile(self, *_: Any) -> io.BufferedReader:
        return io.BufferedReader(_Reads(self))

    def sendall(self, data: Any) -> None:
        self._sock.settimeout(_left_s(self.until_s))
        self._sock.sendall(data)

    def receive_into(self, buffer: Any) -> int:
        self._sock.settimeout(_left_s(self.until_s))
        count = self._sock.recv_into(buffer)
        self.left_bytes -= count
        if self.left_bytes < 0:
            raise http.client.HTTPException("it does not end")
        return count

    def close(self) -> None:
        """Nothing: http.client closes it as soon as it knows that an answer is the last, and then reads that answer."""

    def end(self) -> None:
        self._sock.close()


class _Reads(io.RawIOBase):
    """What http.client reads one answer from; its end is not that of the connection."""

    def __init__(self, bounded: _Bounded) -> None:
        self._bounded = bounded

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        return self._bounded.receive_into(buffer)


def _left_s(until_s: float) -> float:
    """Seconds that are left. Raises TimeoutError where none are."""
    if (left_s := until_s - time.monotonic()) <= 0:
        raise TimeoutError("timed out")
    return left_s
