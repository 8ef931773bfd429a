"""The frame of an HTTP/1.1 answer, read as it comes: status, headers, and a body that is chunked, counted, or ends when
the connection does. Off the hot path: most of a stream never comes through here (see bulk.py)."""

from __future__ import annotations

import zlib
from typing import Literal

_MOST_HEAD_BYTES = 64 * 1024
_MOST_UNZIPPED_BYTES = 64 * 2**20
_MOST_SIZE_LINE_BYTES = 256
_HEX = frozenset(b"0123456789abcdefABCDEF")

Frame = Literal["chunked", "length", "close", "none"]


class Malformed(ValueError):
    """What came is not HTTP, not a stream of events, or not JSON; the sentence says which."""


class Reply:
    """One answer. Feed it bytes; it gives back those of the body, and knows when the answer is over.

    `status` is 0 until the head is there. `spare`: bytes after the end, which belong to nobody.
    """

    def __init__(self) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.frame: Frame = "none"
        self.is_over = False
        self._state: Literal["head", "size", "data", "data-end", "trailer", "body"] = "head"
        self._pending = b""
        self._left = 0
        self._unzip: zlib._Decompress | None = None

    def feed(self, data: bytes) -> bytes:
        """The body bytes in `data`. Raises Malformed."""
        if self._pending:
            data, self._pending = self._pending + data, b""
        if self._state == "head":
            rest = self._head(data)
            if rest is None:
                return b""
            data = rest
        if self.frame == "chunked":
            body = self._chunked(data)
        elif self.frame == "length":
            body = data[: self._left]
            self._left -= len(body)
            self.is_over = self._left == 0
        else:
            body = data if self.frame == "close" else b""
        return self._plain(body) if self._unzip else body

    def end(self) -> bool:
        """The connection has been closed; whether the answer was whole."""
        if self._state != "head" and self.frame == "close":
            self.is_over = True
        return self.is_over

    @property
    def between_chunks(self) -> bool:
        """At the start of a chunk (or anywhere in a body without chunks) with nothing pending, and not compressed."""
        return self._unzip is None and not self._pending and self._state in ("size", "body") and not self.is_over

    @property
    def left_bytes(self) -> int | None:
        """Bytes still to come, where the head has counted them."""
        return self._left if self.frame == "length" else None

    @property
    def keeps_alive(self) -> bool:
        """Whether the connection may carry another request."""
        return self.is_over and self.frame != "close" and "close" not in self.headers.get("connection", "").lower()

    def skip(self, count: int) -> None:
        """Body bytes that bulk.py has taken care of."""
        if self.frame == "length":
            self._left -= count
            self.is_over = self._left == 0

    def _head(self, data: bytes) -> bytes | None:
        while True:
            end = data.find(b"\r\n\r\n")
            if end < 0:
                if len(data) > _MOST_HEAD_BYTES:
                    raise Malformed("the head of the answer does not end")
                if not b"HTTP/1.".startswith(data[:7]) and data[:7] != b"HTTP/1.":
                    raise Malformed(f"not HTTP/1.x: it begins {data[:20]!r}")
                self._pending = data
                return None
            self._read_head(data[:end])
            data = data[end + 4 :]
            if not 100 <= self.status < 200:  # 100 Continue and its like come before the answer
                break
        self._choose_frame()
        return data

    def _read_head(self, head: bytes) -> None:
        first, *lines = head.decode("latin-1").split("\r\n")
        version, _, rest = first.partition(" ")
        if version not in ("HTTP/1.1", "HTTP/1.0") or not rest[:3].isdigit():
            raise Malformed(f"not HTTP/1.x: it begins {first[:40]!r}")
        self.status = int(rest[:3])
        self.headers = {"connection": "close"} if version == "HTTP/1.0" else {}
        for line in lines:
            name, colon, value = line.partition(":")
            if not colon:
                raise Malformed(f"a header without a colon: {line[:40]!r}")
            self.headers[name.strip().lower()] = value.strip()

    def _choose_frame(self) -> None:
        headers = self.headers
        if self.status in (204, 304):
            self.frame, self.is_over = "none", True
        elif "chunked" in headers.get("transfer-encoding", "").lower():
            self.frame = "chunked"
        elif "content-length" in headers:
            if not headers["content-length"].isdigit():
                raise Malformed(f"content-length {headers['content-length'][:20]!r}")
            self.frame, self._left = "length", int(headers["content-length"])
            self.is_over = self._left == 0
        else:
            self.frame = "close"
        self._state = "size" if self.frame == "chunked" else "body"
        coding = headers.get("content-encoding", "identity").lower()
        if coding in ("gzip", "deflate", "x-gzip"):
            self._unzip = zlib.decompressobj(wbits=zlib.MAX_WBITS | 32)
        elif coding not in ("", "identity"):
            raise Malformed(f"content-encoding {coding[:20]!r}, which was not asked for")

    def _chunked(self, data: bytes) -> bytes:
        at, size, body = 0, len(data), []
        while at < size and not self.is_over:
            if self._state == "data":
                taken = data[at : at + self._left]
                body.append(taken)
                at += len(taken)
                self._left -= len(taken)
                if not self._left:
                    self._state = "data-end"
                continue
            end = data.find(b"\r\n", at)
            if end < 0:
                if (size - at > _MOST_SIZE_LINE_BYTES and self._state != "trailer") or size - at > _MOST_HEAD_BYTES:
                    raise Malformed("the line before a chunk does not end")
                self._pending = data[at:]
                break
            self._line(data[at:end])
            at = end + 2
        return body[0] if len(body) == 1 else b"".join(body)

    def _line(self, line: bytes) -> None:
        if self._state == "data-end":
            if line:
                raise Malformed("a chunk is longer than it said")
            self._state = "size"
        elif self._state == "size":
            digits = line.split(b";", 1)[0].strip()
            if not digits or len(digits) > 15 or not _HEX.issuperset(digits):
                raise Malformed(f"a chunk of size {line[:20]!r}")
            self._left = int(digits, 16)
            self._state = "data" if self._left else "trailer"
        elif not line:
            self.is_over = True

    def _plain(self, body: bytes) -> bytes:
        assert self._unzip is not None
        try:
            plain = self._unzip.decompress(body, _MOST_UNZIPPED_BYTES)
        except zlib.error as wrong:
            raise Malformed(f"the compressed body is broken ({wrong})") from None
        if self._unzip.unconsumed_tail:
            raise Malformed("the compressed body is far larger than it looks")
        return plain
