"""The frame of an HTTP/1.1 answer, read as it comes: status, headers, and a body that is chunked, counted, or ends when
the connection does. Off the hot path: most of a stream never comes through here (see fast_path.py).

However the bytes are cut, the outcome is the same: every limit is one on a place in the answer, not on a read.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping
from typing import Literal

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


# A compressed body, unpacked a little at a time: what it becomes is bounded, and so is what one call costs.

_MOST_BYTES = 16 * 2**20
_AT_ONCE = 16 * 1024


class Unzip:
    """`add` what came, `take` what it becomes until nothing `is_waiting`.

    `fault`: why nothing more can be taken. Several parts, one after another, are one body (RFC 1952, 2.2). What comes
    out does not depend on how the bytes were cut.
    """

    def __init__(self) -> None:
        self.fault: str | None = None
        self._packed = b""
        self._is_full = False  # the last call gave as much as it may: there may be more without another byte
        self._left = _MOST_BYTES
        self._part = _part()

    def add(self, packed: bytes) -> None:
        self._packed += packed

    @property
    def is_waiting(self) -> bool:
        """Whether `take` may have more to give."""
        return (self._is_full or bool(self._packed)) and self.fault is None

    def take(self) -> bytes:
        """The next bytes, 16 KiB at most."""
        if not self.is_waiting:
            return b""
        if self._part.eof:
            self._part = _part()
        before = self._part.copy()
        most = min(_AT_ONCE, self._left + 1)
        try:
            plain = self._part.decompress(self._packed, most)
        except zlib.error:
            return self._last(before)
        self._packed = self._part.unused_data if self._part.eof else self._part.unconsumed_tail
        self._is_full = len(plain) == most and not self._part.eof
        return self._counted(plain)

    def _last(self, part: zlib._Decompress) -> bytes:
        """What comes before the byte that is wrong."""
        plain: list[bytes] = []
        for at in range(len(self._packed)):
            try:
                plain.append(part.decompress(self._packed[at : at + 1]))
            except zlib.error as wrong:
                self.fault = f"the compressed body is broken ({wrong})"
                break
        return self._counted(b"".join(plain))

    def _counted(self, plain: bytes) -> bytes:
        if len(plain) > self._left:
            plain, self.fault = plain[: self._left], f"the compressed body holds over {_MOST_BYTES} bytes"
        self._left -= len(plain)
        return plain


def _part() -> zlib._Decompress:
    return zlib.decompressobj(wbits=zlib.MAX_WBITS | 32)


# The head of an HTTP/1.1 answer: its status, its headers, and what they say of where the body ends.

BEGIN = b"HTTP/1."
SHOWN = 20
_STATUS_LINE = re.compile(r"HTTP/1\.([01]) ([1-9][0-9]{2})(?: .*)?", re.DOTALL)
_COUNT = re.compile(r"[0-9]{1,15}")

Frame = Literal["chunked", "length", "close", "none"]


class Malformed(ValueError):
    """What came is not HTTP, not a stream of events, or not JSON; the sentence says which."""


def read_head(head: bytes) -> tuple[int, dict[str, str]]:
    """Status and headers, their names in lower case. Raises Malformed."""
    first, *lines = head.decode("latin-1").split("\r\n")
    found = _STATUS_LINE.fullmatch(first)
    if found is None:
        raise Malformed(f"not HTTP/1.x: it begins {first[:40]!r}")
    headers = {"connection": "close"} if found[1] == "0" else {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon:
            raise Malformed(f"a header without a colon: {line[:40]!r}")
        name, value = name.strip(" \t").lower(), value.strip(" \t")
        if name == "content-length" and headers.get(name, value) != value:
            raise Malformed(f"two lengths: content-length {headers[name][:20]!r} and {value[:20]!r}")
        headers[name] = value
    return int(found[2]), headers


def frame_of(status: int, headers: Mapping[str, str]) -> tuple[Frame, int]:
    """How the body ends, and how many bytes it has where the head counts them. Raises Malformed."""
    transfer = headers.get("transfer-encoding", "identity").lower()
    length = headers.get("content-length")
    if transfer not in ("identity", "chunked"):
        raise Malformed(f"transfer-encoding {transfer[:20]!r}")
    if length is not None and not _COUNT.fullmatch(length):
        raise Malformed(f"content-length {length[:20]!r}")
    if status in (204, 304):
        return "none", 0
    if transfer == "chunked":
        return "chunked", 0
    return ("close", 0) if length is None else ("length", int(length))


def is_packed(headers: Mapping[str, str]) -> bool:
    """Whether the body is compressed, in a way that can be undone. Raises Malformed."""
    coding = headers.get("content-encoding", "identity").lower()
    if coding in ("gzip", "deflate", "x-gzip"):
        return True
    if coding not in ("", "identity"):
        raise Malformed(f"content-encoding {coding[:20]!r}, which was not asked for")
    return False


def no_http(data: bytes) -> str:
    """Why this is no answer."""
    first = data.split(b"\n", 1)[0]
    return f"not HTTP/1.x: it begins {first[:SHOWN]!r}"
