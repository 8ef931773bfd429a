"""The meaning of an answer, found piece by piece: its frame, its events, and what those hold."""

from __future__ import annotations

import re
from bisect import bisect_right
from time import monotonic_ns

from twinlens.network.answer.events import Answer, Events
from twinlens.network.answer.fast_path import FastPath
from twinlens.network.answer.frame import Malformed, Reply

_SLICE_BYTES, _SLICE_NS = 32 * 1024, 1_000_000
"""What one look takes on, and about how long it may take, so that no answer keeps the others waiting."""
_PIECE_BYTES = 2048
_MOST_BODY_BYTES = 64 * 1024
MOST_JSON_BYTES = 16 * 2**20  # 64 embeddings of 8,192 numbers
_SIZE = re.compile(rb"([0-9a-fA-F]{1,6})\r\n")
_PART_OF_SIZE = re.compile(rb"[0-9a-fA-F]{0,6}\r?")


class Meaning:
    """`size_bytes`: how much has been understood before the bytes given to `read`; whoever drops them adds to it.

    `is_behind`: whether more of what was given can be understood at once. `most_bytes`: how long an answer may be,
    `most_json_bytes`: one piece of JSON, which is kept to its end.
    """

    __slots__ = (
        "_body_bytes",
        "_events",
        "_fast_path",
        "_kind",
        "_most_bytes",
        "_most_json_bytes",
        "_parts",
        "_read",
        "answer",
        "is_behind",
        "reply",
        "size_bytes",
    )

    def __init__(self, most_bytes: int, most_json_bytes: int = MOST_JSON_BYTES) -> None:
        self.reply, self._events, self.answer = Reply(), Events(), Answer()
        self._fast_path: FastPath | None = None
        self._kind = ""
        self._parts: list[bytes] = []  # of an answer that is no stream of events
        self._read = self._body_bytes = self.size_bytes = 0
        self._most_bytes, self._most_json_bytes, self.is_behind = most_bytes, most_json_bytes, False

    @property
    def body(self) -> bytes:
        """Of an answer that is no stream of events, as much as is kept."""
        return b"".join(self._parts)

    def read(self, raw: bytes, ends: list[int], first: int, *, is_last: bool) -> int:
        """Understand these bytes as far as they go; where it stopped. Raises Malformed: what came before it counts.

        `ends`: where each read ended in them, the first of which is read number `first`. `is_last`: nothing follows.
        """
        size = min(_SLICE_BYTES, self._most_bytes - self.size_bytes)
        self.is_behind = len(raw) > size
        try:
            return self._stream(raw[:size] if self.is_behind else raw, ends, first, len(raw), is_last=is_last)
        except Malformed:
            self.is_behind = False
            raise

    def finish(self, *, is_good: bool) -> None:
        """What the end completes: an event without its empty line, or an answer that is no stream. Raises Malformed."""
        for event in self._events.end():
            self.answer.take(event, self._read)
        if self._kind == "json" and is_good:
            self.answer.take_whole(self.body, self._read)

    def _stream(self, raw: bytes, ends: list[int], first: int, whole: int, *, is_last: bool) -> int:
        """Understand the bytes as far as they go; where it stopped. Raises Malformed: what came before it counts."""
        reply, at, size, until_ns = self.reply, 0, len(raw), monotonic_ns() + _SLICE_NS
        while not reply.is_over:
            if reply.has_more:
                self._take(reply.more())
            elif reply.fault:
                raise Malformed(reply.fault)
            elif at == size:
                if at < whole and self.size_bytes + at >= self._most_bytes:
                    raise Malformed(f"the answer does not end: over {self._most_bytes} bytes")
                return at
            elif (stop := self._by_fast_path(raw, at, ends, first, until_ns)) > at:
                at = stop
            elif at and (self.is_behind or not is_last) and self._waits(raw, at):
                return at
            else:
                read = bisect_right(ends, at)
                self._read = first + read
                stop = min(ends[read], size, at + _PIECE_BYTES, self._boundary(raw, at))
                self._take(reply.feed(raw[at:stop]))
                at = stop
            if monotonic_ns() > until_ns and (at < size or reply.has_more):
                self.is_behind = True
                return at
        self.is_behind = False
        reply.spare = reply.spare or at < whole
        return whole

    def _by_fast_path(self, raw: bytes, at: int, ends: list[int], first: int, until_ns: int) -> int:
        """Where the events that can be taken at once end."""
        reply = self.reply
        if not (reply.between_chunks and self._events.between_events and self._kind == "stream"):
            return at
        if self._fast_path is None:
            self._fast_path = FastPath(chunked=reply.frame == "chunked")
        if reply.left_bytes is not None:
            raw = raw[: at + reply.left_bytes]
        stop = self._fast_path.read(raw, at, ends, first, self.answer, until_ns)
        reply.skip(stop - at)
        return stop

    def _waits(self, raw: bytes, at: int) -> bool:
        """Whether here lies the beginning of one chunk and nothing else: better read with the rest of it."""
        if self.reply.frame != "chunked" or not self.reply.between_chunks:
            return False
        size = _SIZE.match(raw, at)
        if size is None:
            return _PART_OF_SIZE.fullmatch(raw, at) is not None
        return len(raw) < size.end() + int(size[1], 16) and int(size[1], 16) > 0

    def _boundary(self, raw: bytes, at: int) -> int:
        """Where the head, chunk or event ends that lies here, if one can see it: from there on it may go in bulk."""
        reply = self.reply
        if not reply.has_head:
            end = raw.find(b"\r\n\r\n", at) + 4
        elif reply.frame != "chunked":
            end = raw.find(b"\n\n", at) + 2
        elif rest := reply.rest_of_chunk:
            return at + rest
        else:
            size = _SIZE.match(raw, at)
            end = size.end() + int(size[1], 16) + 2 if size else 0
        return end if end > at else len(raw)

    def _take(self, body: bytes) -> None:
        if not self._kind and self.reply.has_head:
            self._kind = _kind(self.reply)
        if not body:
            return
        if self._kind == "stream":
            for event in self._events.feed(body):
                self.answer.take(event, self._read)
            return
        room = (self._most_json_bytes if self._kind == "json" else _MOST_BODY_BYTES) - self._body_bytes
        if room > 0:
            self._parts.append(body[:room])
            self._body_bytes += len(self._parts[-1])
        if len(body) > room and self._kind == "json":
            raise Malformed(f"one piece of JSON of over {self._most_json_bytes} bytes")


def _kind(reply: Reply) -> str:
    """A stream of events, one piece of JSON, or something else."""
    kind = reply.headers.get("content-type", "").lower()
    if reply.status == 200 and (not kind or kind.startswith("text/event-stream")):
        return "stream"
    return "json" if reply.status == 200 and kind.startswith("application/json") else "other"
