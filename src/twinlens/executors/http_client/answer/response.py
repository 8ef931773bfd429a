"""The frame of an HTTP/1.1 answer, read as it comes: status, headers, and a body that is chunked, counted, or ends when
the connection does. Off the hot path: most of a stream never comes through here (see fast_path.py).

However the bytes are cut, the outcome is the same: every limit is one on a place in the answer, not on a read.
"""

from __future__ import annotations

import re
from typing import Literal

from twinlens.executors.http_client.answer.decompress import Unzip
from twinlens.executors.http_client.answer.head import (
    BEGIN,
    SHOWN,
    Frame,
    Malformed,
    frame_of,
    is_packed,
    no_http,
    read_head,
)

_MOST_HEAD_BYTES = 64 * 1024  # of all heads and trailers of one answer
_MOST_SIZE_LINE_BYTES = 256
_SIZE = re.compile(rb"[ \t]*([0-9a-fA-F]{1,15})[ \t]*(?:;.*)?", re.DOTALL)


class Reply:
    """One answer. Feed it bytes; it gives back those of the body, and knows when the answer is over.

    `status` is 0 until the head is there. `fault`: what is wrong with what follows the bytes given back so far.
    `spare`: something came after the end.
    """

    def __init__(self) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.frame: Frame = "none"
        self.spare = False
        self._state: Literal["head", "size", "data", "data-end", "trailer", "body", "over"] = "head"
        self._pending = b""
        self._head_bytes = self._left = 0
        self._wrong: str | None = None
        self._unzip: Unzip | None = None

    def feed(self, data: bytes) -> bytes:
        """Body bytes out of `data`. Where `has_more`, get the rest of them with `more` first."""
        known = len(self._pending)
        if known:
            data, self._pending = self._pending + data, b""
        try:
            if self._state == "head":
                rest = self._head(data, max(0, known - 3))
                if rest is None:
                    return b""
                data = rest
            body = self._framed(data)
        except Malformed as wrong:
            self._wrong = str(wrong)
            return b""
        if self._unzip is None:
            return body
        self._unzip.add(body)
        return self._unzip.take()

    def more(self) -> bytes:
        """Bytes that were packed in what came before."""
        return self._unzip.take() if self._unzip else b""

    def end(self) -> bool:
        """The connection has been closed; whether the answer was whole."""
        if self._state == "head" and self._pending and not self._pending.startswith(BEGIN):
            self._wrong = no_http(self._pending)
        if self._state == "body" and self.frame == "close":
            self._state = "over"
        return self.is_over

    @property
    def has_more(self) -> bool:
        return self._unzip is not None and self._unzip.is_waiting

    @property
    def is_over(self) -> bool:
        return self._state == "over" and not self.has_more and self.fault is None

    @property
    def fault(self) -> str | None:
        if self._unzip is not None and (self._unzip.fault or self._unzip.is_waiting):
            return self._unzip.fault
        return self._wrong

    @property
    def has_head(self) -> bool:
        """Whether the head of the answer itself is there."""
        return self._state != "head"

    @property
    def between_chunks(self) -> bool:
        """At the start of a chunk (or anywhere in a body without chunks) with nothing pending, and not compressed."""
        return self._unzip is None and not self._pending and self._state in ("size", "body") and self._wrong is None

    @property
    def rest_of_chunk(self) -> int:
        """Bytes until the chunk ends in which we are, its line end included; 0 where we are in none."""
        if self._state == "data":
            return self._left + 2
        return 2 - len(self._pending) if self._state == "data-end" else 0

    @property
    def left_bytes(self) -> int | None:
        """Bytes still to come, where the head has counted them."""
        return self._left if self.frame == "length" else None

    @property
    def keeps_alive(self) -> bool:
        """Whether the connection may carry another request."""
        return self.is_over and not self.spare and not self.closes

    @property
    def closes(self) -> bool:
        """Whether its end is, or comes with, that of the connection."""
        return self.frame == "close" or "close" in self.headers.get("connection", "").lower()

    def skip(self, count: int) -> None:
        """Body bytes that fast_path.py has taken care of."""
        if self.frame == "length":
            self._left -= count
            if not self._left:
                self._state = "over"

    def _head(self, data: bytes, unknown: int) -> bytes | None:
        """What comes after the head, once that is whole; its end does not lie before `unknown`."""
        begin = 0
        while True:
            if not data.startswith(BEGIN, begin) and (len(data) - begin >= SHOWN or b"\n" in data[begin:]):
                raise Malformed(no_http(data[begin:]))
            end = data.find(b"\r\n\r\n", max(begin, unknown))
            if self._head_bytes + (end + 4 if end >= 0 else len(data)) > _MOST_HEAD_BYTES:
                raise Malformed("the head of the answer does not end")
            if end < 0:
                self._head_bytes += begin
                self._pending = data[begin:]
                return None
            self.status, self.headers = read_head(data[begin:end])
            begin = end + 4
            if not 100 <= self.status < 200:  # 100 Continue and its like come before the answer
                break
        self._head_bytes += begin
        self._choose_frame()
        return data[begin:]

    def _choose_frame(self) -> None:
        self.frame, self._left = frame_of(self.status, self.headers)
        if is_packed(self.headers):
            self._unzip = Unzip()
        if self.frame == "chunked":
            self._state = "size"
        else:
            self._state = "body" if self.frame == "close" or self._left else "over"

    def _framed(self, data: bytes) -> bytes:
        if self.frame == "chunked" and self._state != "over":
            return self._chunked(data)
        if self.frame == "close":
            return data
        body = data[: self._left]
        self._left -= len(body)
        self.spare = self.spare or len(data) > len(body)
        if not self._left:
            self._state = "over"
        return body

    def _chunked(self, data: bytes) -> bytes:
        at, size, body = 0, len(data), []
        while at < size and self._wrong is None and self._state != "over":
            if self._state == "data":
                taken = data[at : at + self._left]
                body.append(taken)
                at += len(taken)
                self._left -= len(taken)
                if not self._left:
                    self._state = "data-end"
            else:
                length = self._line(data, at)
                if length is None:
                    break
                at += length
        self.spare = at < size and self._state == "over"
        return body[0] if len(body) == 1 else b"".join(body)

    def _line(self, data: bytes, at: int) -> int | None:
        """The length of the line that begins here, its end included, once it is read; None where it has no end yet."""
        if self._state == "data-end":
            end = at if data.startswith(b"\r\n", at) else -1
            if not b"\r\n".startswith(data[at : at + 2]):
                self._wrong = "a chunk is longer than it said"
                return None
            most = 0
        else:
            end = data.find(b"\r\n", at)
            most = _MOST_SIZE_LINE_BYTES if self._state == "size" else _MOST_HEAD_BYTES - self._head_bytes
        length = (end if end >= 0 else len(data) - data.endswith(b"\r", at)) - at
        if length > most:
            self._wrong = "the line before a chunk does not end"
        elif end < 0:
            self._pending = data[at:]
        else:
            self._read_line(data[at:end])
            return length + 2
        return None

    def _read_line(self, line: bytes) -> None:
        if self._state == "data-end":
            self._state = "size"
        elif self._state == "trailer":
            self._head_bytes += len(line) + 2
            self._state = "trailer" if line else "over"
        elif found := _SIZE.fullmatch(line):
            self._left = int(found[1], 16)
            self._state = "data" if self._left else "trailer"
        else:
            self._wrong = f"a chunk of size {line[:20]!r}"
