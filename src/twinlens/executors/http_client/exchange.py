"""One request and what came back: raw bytes and stamps while it runs, understood when there is enough or it is over."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from dataclasses import dataclass
from itertools import accumulate, count
from time import monotonic_ns
from typing import Any

import numpy as np

from twinlens.executors.http_client.answer import Answer
from twinlens.executors.http_client.arrival_times import Arrivals
from twinlens.executors.http_client.fast_path import FastPath
from twinlens.executors.http_client.response import Malformed, Reply
from twinlens.executors.http_client.sse import Events
from twinlens.executors.http_client.timestamp import WallOffset

FOLD_READS = 64
"""Reads kept before they are understood, however long the answer is: a read takes some 400 bytes."""
_A_READ = 3
"""Things that a read adds to `got`."""
END = b"0\r\n\r\n"
"""Of an answer in chunks."""
_READY_READS, _SPREAD = 2, 4
_SLICE_BYTES, _SLICE_NS = 32 * 1024, 1_000_000
"""What one look takes on, and about how long it may take, so that no answer keeps the others waiting."""
_PIECE_BYTES = 2048
_MOST_BODY_BYTES = 64 * 1024
_MOST_JSON_BYTES = 2 * 2**20
_SIZE = re.compile(rb"([0-9a-fA-F]{1,6})\r\n")
_HEX = re.compile(rb"[0-9a-fA-F]{1,6}")
_END_PARTS = END.split(b"\r\n")
_MOST_SIZES = 4096
_turn = count()
_PART_OF_SIZE = re.compile(rb"[0-9a-fA-F]{0,6}\r?")


@dataclass(frozen=True, slots=True)
class Ended:
    """An exchange that is over. Times are ns of the monotonic clock; `sent_ns` is 0 where nothing was ever sent.

    `fault`: None, or what went wrong on the wire; `chunk_ns`: when each chunk with tokens was complete.
    `lags_ns`: for each read, how long its bytes had lain there. `merged`: reads that completed several chunks.
    """

    key: int
    sent_ns: int
    end_ns: int
    status: int
    headers: dict[str, str]
    fault: str | None
    answer: Answer
    body: bytes
    chunk_ns: np.ndarray
    lags_ns: np.ndarray
    merged: int


class Exchange:
    """The loop adds three things a read to `got`: its bytes, its stamp, and its time.

    One list, since with a thousand streams it is the touching of one more that costs. It asks `look` once there are
    `look_at` things in it, or the answer seems to end.
    """

    __slots__ = (
        "_answer",
        "_arrivals",
        "_body",
        "_body_bytes",
        "_events",
        "_fast_path",
        "_first",
        "_fold_at",
        "_is_dead",
        "_kind",
        "_lost",
        "_read",
        "_ready_at",
        "_reply",
        "_size",
        "fault",
        "got",
        "is_behind",
        "is_queued",
        "key",
        "look_at",
        "most_bytes",
        "over_ns",
        "sent_ns",
    )

    def __init__(self, offset: WallOffset, most_bytes: int, fold_reads: int = FOLD_READS, tokens: int = 0) -> None:
        """`tokens`: how many will come, where it matters that little is left to do when the last has."""
        self.key, self.most_bytes, self._fold_at = 0, most_bytes, _A_READ * fold_reads
        # Not at the same read for all of those that end together.
        self._ready_at = max(_READY_READS, tokens - _READY_READS - next(_turn) % _SPREAD) if tokens else 0
        self.got: list[Any] = []
        self.sent_ns = self.over_ns = 0
        self.look_at = 0
        self.fault: str | None = None
        self.is_queued = False  # for a look
        self.is_behind = False
        self._lost: str | None = None  # why nothing more comes; "": the other side has closed
        self._is_dead = False
        self._kind = ""
        self._reply, self._events, self._answer = Reply(), Events(), Answer()
        self._fast_path: FastPath | None = None
        self._body: list[bytes] = []  # of an answer that is no stream of events
        self._first = self._read = self._size = self._body_bytes = 0
        self._arrivals = Arrivals(offset)

    def look(self) -> bool:
        """Understand some of what has come; whether the answer is over, or beyond hope.

        `is_behind` then says whether there is more to understand at once.
        """
        if not self.look_at and self._lost is None and self._is_ordinary_head():
            self.look_at = self._next_look()
            return False
        self._fold()
        reply = self._reply
        # A counted body ends without a sign, so each of its reads is looked at; they are short, or few.
        self.look_at = self._next_look() if reply.has_head and reply.frame != "length" else 0
        if self._lost is not None and not self.is_behind and not reply.is_over and self.fault is None:
            self._end_early(self._lost)
        return reply.is_over or self.fault is not None

    def is_complete(self, last: bytes = b"") -> bool:
        """Whether what has come, and `last`, ends a good answer on a connection that stays: by its frame alone.

        Certain where true: the frame is what decides. What the answer says is for `look`, later.
        """
        reply = self._reply
        if reply.frame != "chunked" or reply.status != 200 or reply.closes or not reply.between_chunks:
            return False
        return _ends_in_chunks(b"".join([*self.got[::_A_READ], last]))

    def part(self, now_ns: int) -> None:
        """It is complete, and its connection goes to another: nothing more comes for this one."""
        self.over_ns = now_ns
        self.lose()

    @property
    def is_near(self) -> bool:
        """Whether about all of the tokens asked for have come."""
        return 0 < self._ready_at <= self._first + len(self.got) // _A_READ

    def _next_look(self) -> int:
        """At how many things in `got`: when there is enough, and once shortly before the end."""
        left = _A_READ * (self._ready_at - self._first)
        return min(self._fold_at, left) if left > 0 else self._fold_at

    def lose(self, why: str = "") -> None:
        """Nothing more will come: the other side has closed the connection, or `why`. What has come still counts."""
        if self._lost is None:
            self._lost = why

    def give_up(self, why: str) -> None:
        """End it here: with what is wrong already, or else for this reason."""
        self._lost = why
        if not self.look() and self.fault is None:
            self.fault = why

    def ended(self, now_ns: int) -> Ended:
        """The record of it all, once a look has said that it is over."""
        self._last_events()
        reads = self._answer.reads
        self._arrivals.settle(reads, self.sent_ns)
        chunk_ns = self._arrivals.chunk_ns(len(reads))
        last = self.fault is None and len(chunk_ns)
        return Ended(
            key=self.key,
            sent_ns=self.sent_ns,
            end_ns=int(chunk_ns[-1]) if last else now_ns,
            status=self._reply.status,
            headers=self._reply.headers,
            fault=self.fault,
            answer=self._answer,
            body=b"".join(self._body),
            chunk_ns=chunk_ns,
            lags_ns=self._arrivals.lags_ns(),
            merged=_merged(reads),
        )

    def _is_ordinary_head(self) -> bool:
        """Whether a chunked stream begins here, of which nothing need be known before there is more of it."""
        begin = self.got[0] if self.got else b""
        return (
            len(self.got) == _A_READ
            and len(begin) <= _PIECE_BYTES
            and begin.startswith(b"HTTP/1.1 200 ")
            and b"\r\ntransfer-encoding: chunked\r\n" in begin.lower()
            and (begin.endswith(b"\n\n\r\n") or begin.find(b"\r\n\r\n") == len(begin) - 4)
        )

    @property
    def has_begun(self) -> bool:
        """Whether any byte of an answer has come."""
        return self._first > 0 or bool(self.got)

    @property
    def keeps_alive(self) -> bool:
        """Whether the connection may carry another request."""
        return self.fault is None and self._lost is None and self._reply.keeps_alive

    def _end_early(self, why: str) -> None:
        if why:
            self.fault = why
        elif not self._reply.end():
            when = "in mid-answer" if self._reply.status else "before any answer"
            self.fault = self._reply.fault or f"the server closed the connection {when}"

    def _fold(self) -> None:
        """Read some of what has come, and keep the rest."""
        parts = self.got[::_A_READ]
        raw = parts[0] if len(parts) == 1 else b"".join(parts)
        ends = list(accumulate(map(len, parts)))
        at = len(raw)  # where an error ends the reading, nothing that follows counts
        size = min(_SLICE_BYTES, self.most_bytes - self._size)
        self.is_behind = at > size
        try:
            at = self._stream(raw[:size] if self.is_behind else raw, ends, at)
        except Malformed as wrong:
            self.fault, self._is_dead, self.is_behind = str(wrong), True, False
        if parts:
            self._keep(parts, at, ends)

    def _stream(self, raw: bytes, ends: list[int], whole: int) -> int:
        """Understand the bytes as far as they go; where it stopped. Raises Malformed: what came before it counts."""
        reply, at, size, until_ns = self._reply, 0, len(raw), monotonic_ns() + _SLICE_NS
        while not reply.is_over:
            if reply.has_more:
                self._take(reply.more())
            elif reply.fault:
                raise Malformed(reply.fault)
            elif at == size:
                if at < whole and self._size + at >= self.most_bytes:
                    raise Malformed(f"the answer does not end: over {self.most_bytes} bytes")
                return at
            elif (stop := self._by_fast_path(raw, at, ends, until_ns)) > at:
                at = stop
            elif at and (self.is_behind or self._lost is None) and self._waits(raw, at):
                return at
            else:
                read = bisect_right(ends, at)
                self._read = self._first + read
                stop = min(ends[read], size, at + _PIECE_BYTES, self._boundary(raw, at))
                self._take(reply.feed(raw[at:stop]))
                at = stop
            if monotonic_ns() > until_ns and (at < size or reply.has_more):
                self.is_behind = True
                return at
        self.is_behind = False
        reply.spare = reply.spare or at < whole
        return whole

    def _by_fast_path(self, raw: bytes, at: int, ends: list[int], until_ns: int) -> int:
        """Where the events that can be taken at once end."""
        reply = self._reply
        if not (reply.between_chunks and self._events.between_events and self._kind == "stream"):
            return at
        if self._fast_path is None:
            self._fast_path = FastPath(chunked=reply.frame == "chunked")
        if reply.left_bytes is not None:
            raw = raw[: at + reply.left_bytes]
        stop = self._fast_path.read(raw, at, ends, self._first, self._answer, until_ns)
        reply.skip(stop - at)
        return stop

    def _waits(self, raw: bytes, at: int) -> bool:
        """Whether here lies the beginning of one chunk and nothing else: better read with the rest of it."""
        if self._reply.frame != "chunked" or not self._reply.between_chunks:
            return False
        size = _SIZE.match(raw, at)
        if size is None:
            return _PART_OF_SIZE.fullmatch(raw, at) is not None
        return len(raw) < size.end() + int(size[1], 16) and int(size[1], 16) > 0

    def _boundary(self, raw: bytes, at: int) -> int:
        """Where the head, chunk or event ends that lies here, if one can see it: from there on it may go in bulk."""
        reply = self._reply
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
        if not self._kind and self._reply.has_head:
            self._kind = _kind(self._reply)
        if not body:
            return
        if self._kind == "stream":
            for event in self._events.feed(body):
                self._answer.take(event, self._read)
            return
        room = (_MOST_JSON_BYTES if self._kind == "json" else _MOST_BODY_BYTES) - self._body_bytes
        if room > 0:
            self._body.append(body[:room])
            self._body_bytes += len(self._body[-1])
        if len(body) > room and self._kind == "json":
            raise Malformed(f"one piece of JSON of over {_MOST_JSON_BYTES} bytes")

    def _keep(self, parts: list[bytes], at: int, ends: list[int]) -> None:
        """Put the times of the reads aside that lie wholly before `at`, and drop their bytes."""
        gone = bisect_right(ends, at)
        self._first += gone
        self._size += at
        got = self.got
        self._arrivals.add(got[1 : _A_READ * gone : _A_READ], got[2 : _A_READ * gone : _A_READ])
        del got[: _A_READ * gone]
        if got and (left := ends[gone] - at) < len(parts[gone]):
            got[0] = parts[gone][-left:]
        if self._arrivals.is_full:
            self._arrivals.settle(self._answer.reads, self.sent_ns)

    def _last_events(self) -> None:
        """What the end completes: an event without its empty line, or an answer that is no stream."""
        if self._is_dead:  # what follows a fault does not count
            return
        try:
            for event in self._events.end():
                self._answer.take(event, self._read)
            if self._kind == "json" and self.fault is None:
                self._answer.take_whole(b"".join(self._body), self._read)
        except Malformed as wrong:
            self.fault = self.fault or str(wrong)


class _Sizes(dict[bytes, int]):
    """What the size before a chunk says, 0 where it says none; most sizes come again and again."""

    def __missing__(self, size: bytes) -> int:
        found = int(size, 16) if _HEX.fullmatch(size) else 0
        if len(self) < _MOST_SIZES:
            self[size] = found
        return found


_SIZES = _Sizes()


def _ends_in_chunks(raw: bytes) -> bool:
    """Whether these are whole chunks and the end after them."""
    parts = raw.split(b"\r\n")
    if parts[-3:] != _END_PARTS:
        return False
    sizes = [_SIZES[size] for size in parts[:-3:2]]
    if 0 not in sizes and sizes == [len(part) for part in parts[1:-3:2]]:
        return True
    at, end = 0, len(raw) - len(END)
    while at < end:  # what separates chunks stands in one, maybe
        line = raw.find(b"\r\n", at, at + 8)
        size = _SIZES[raw[at:line]] if line > at else 0
        at = line + size + 4
        if not size or not raw.startswith(b"\r\n", at - 2):
            return False
    return at == end


def _kind(reply: Reply) -> str:
    """A stream of events, one piece of JSON, or something else."""
    kind = reply.headers.get("content-type", "").lower()
    if reply.status == 200 and (not kind or kind.startswith("text/event-stream")):
        return "stream"
    return "json" if reply.status == 200 and kind.startswith("application/json") else "other"


def _merged(reads: list[int]) -> int:
    """How many reads completed several chunks."""
    if len(set(reads)) == len(reads):
        return 0
    return sum(count > 1 for count in Counter(reads).values())
