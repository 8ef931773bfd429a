"""TLS without a socket of its own, for a line that keeps its own socket's stamps."""

from __future__ import annotations

import ssl


class Tls:
    """TLS in memory: ciphertext comes and goes by us, so that it is the ciphertext whose arrival is stamped."""

    def __init__(self, context: ssl.SSLContext, host: str) -> None:
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._ssl = context.wrap_bio(self._in, self._out, server_hostname=host)
        self._is_open = False
        self._waiting = b""

    def write(self, plain: bytes) -> bytes:
        """Ciphertext to send: that of `plain`, or of the handshake that comes before it."""
        self._waiting += plain
        return self._advance()

    def read(self, cipher: bytes) -> tuple[bytes, bytes]:
        """The plain bytes in it, and ciphertext to send. Raises ssl.SSLError."""
        self._in.write(cipher)
        out, plain = self._advance(), []
        if self._is_open:
            try:
                while part := self._ssl.read(65536):
                    plain.append(part)
            except (ssl.SSLWantReadError, ssl.SSLZeroReturnError):
                pass
        return b"".join(plain), out + self._out.read()

    def _advance(self) -> bytes:
        if not self._is_open:
            try:
                self._ssl.do_handshake()
                self._is_open = True
            except ssl.SSLWantReadError:
                return self._out.read()
        if self._waiting:
            self._ssl.write(self._waiting)
            self._waiting = b""
        return self._out.read()
