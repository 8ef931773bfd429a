"""One connection: a non-blocking socket, with TLS or without, that carries one exchange at a time."""

from __future__ import annotations

import errno
import os
import socket
from typing import TYPE_CHECKING

from twinlens.network.exchange import Exchange
from twinlens.network.target import Address
from twinlens.network.timestamp import ask_for_stamps

if TYPE_CHECKING:  # 4 MB and a while, for those who ask over https
    from twinlens.network.tls import Tls

OUT_OF = {errno.EMFILE, errno.ENFILE, errno.EADDRNOTAVAIL, errno.ENOBUFS}
"""Errors that say that this machine, not the server, can open no more connections."""


READ_BYTES = (479, 991, 2015, 4063, 65503)
"""How much to ask of one read, from the first up while reads come back full.

The smallest makes an object of 512 bytes, the largest that Python allocates itself and shrinks by moving: of a larger
one, cut down to an event of 250 bytes, the rest stays behind as a hole, and a thousand streams took twice the memory.
"""


class Connection:
    """`out`: bytes that the socket has not taken yet. `is_used`: it has carried an answer before. `is_held`: nothing is
    read until what has come is understood. `unread`: bytes that have been looked at and still lie in the socket.

    `payload`: the request it carries, kept for the case that the server closed an idle connection just then.
    """

    __slots__ = (
        "exchange",
        "fd",
        "has_stamps",
        "is_connecting",
        "is_held",
        "is_used",
        "out",
        "payload",
        "read_bytes",
        "recvmsg",
        "send",
        "sock",
        "tls",
        "unread",
    )

    def __init__(self, address: Address, *, stamps: bool) -> None:
        self.sock = socket.socket(address.family, socket.SOCK_STREAM | getattr(socket, "SOCK_CLOEXEC", 0))
        self.sock.setblocking(False)
        self.fd = self.sock.fileno()
        if address.family in (socket.AF_INET, socket.AF_INET6):
            self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.has_stamps = stamps and ask_for_stamps(self.sock)
        self.recvmsg, self.send = self.sock.recvmsg, self.sock.send
        self.unread = 0
        self.tls = _tls(address)
        self.exchange: Exchange | None = None
        self.payload = self.out = b""
        self.read_bytes = READ_BYTES[0]
        self.is_used = self.is_held = False
        self.is_connecting = True

    def connect(self, address: Address) -> str | None:
        """Begin; why it cannot be, or None. Raises OSError where this machine has run out of something."""
        code = self.sock.connect_ex(address.sockaddr)
        if code in OUT_OF:
            self.close()
            raise OSError(code, os.strerror(code))
        return None if code in (0, errno.EINPROGRESS, errno.EAGAIN) else _why(code)

    def connected(self) -> str | None:
        """The socket has become writable: why it is not connected after all, or None."""
        self.is_connecting = False
        code = self.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        return _why(code) if code else None

    def queue(self, payload: bytes) -> None:
        """Have a request to send; `push` sends it."""
        self.carry(payload)
        self.out += self.tls.write(payload) if self.tls else payload

    def push_first(self, payload: bytes) -> None:
        """Send a request as the only thing in hand; `out` is what the socket did not take. Raises OSError."""
        try:
            sent = self.send(payload)
        except (BlockingIOError, InterruptedError):
            sent = 0
        if sent < len(payload):
            self.out = payload[sent:]

    def carry(self, payload: bytes) -> None:
        """This is the request that it carries now."""
        self.payload, self.read_bytes = payload, READ_BYTES[0]

    def drain(self) -> None:
        """Throw away what has been looked at already. Raises OSError."""
        while self.unread:
            self.unread -= len(self.sock.recv(self.unread)) or self.unread

    def push(self) -> bool:
        """Send what the socket takes; whether that was all. Raises OSError."""
        try:
            while self.out:
                sent = self.sock.send(self.out)
                self.is_connecting = False
                self.out = self.out[sent:]
        except (BlockingIOError, InterruptedError):
            return False
        except OSError as error:
            if error.errno != errno.ENOTCONN:  # still connecting
                raise
            return False
        return True

    def read_more(self) -> None:
        """A read has come back full: ask more of the next."""
        self.read_bytes = next((size for size in READ_BYTES if size > self.read_bytes), READ_BYTES[-1])

    def close(self) -> None:
        self.sock.close()


def _tls(address: Address) -> Tls | None:
    if address.tls is None:
        return None
    from twinlens.network.tls import Tls

    return Tls(address.tls, address.host)


def _why(code: int) -> str:
    return f"cannot connect: {os.strerror(code)}"
