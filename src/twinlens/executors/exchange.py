"""One request and what came back: raw bytes and stamps while it runs, understood when there is enough or it is over."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np

from twinlens.executors.answer import Answer
from twinlens.executors.arrivals import Arrivals
from twinlens.executors.bulk import Bulk
from twinlens.executors.http_reply import Malformed, Reply
from twinlens.executors.sse import Events
from twinlens.executors.stamp import WallOffset

FOLD_READS = 64
"""Reads kept before they are understood, however long the answer is: a read takes some 400 bytes."""
_END = b"\r\n\r\n"
_A_READ = 3
"""Things that a read adds to `got`."""


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
        "_bulk",
        "_events",
        "_first",
        "_fold_at",
        "_reply",
        "_size",
        "fault",
        "got",
        "is_queued",
        "key",
        "look_at",
        "most_bytes",
        "sent_ns",
    )

    def __init__(self, key: int, offset: WallOffset, most_bytes: int, fold_reads: int = FOLD_READS) -> None:
        self.key, self.most_bytes, self._fold_at = key, most_bytes, _A_READ * fold_reads
        self.got: list[Any] = []
        self.sent_ns = 0
        self.look_at = 0
        self.fault: str | None = None
        self.is_queued = False  # for a look
        self._reply, self._events, self._answer = Reply(), Events(), Answer()
        self._bulk: Bulk | None = None
        self._body: list[bytes] = []  # of an answer that is no stream of events
        self._first = self._size = 0
        self._arrivals = Arrivals(offset)

    def look(self, *, whole: bool = False) -> bool:
        """Understand what has come (`whole`: also what may go on); whether the answer is over, or beyond hope."""
        if not self.look_at and not whole and self._is_ordinary_head():
            self.look_at = self._fold_at
            return False
        try:
            self._fold(whole=whole or len(self.got) < self._fold_at or self.got[-_A_READ][-4:] == _END)
        except Malformed as wrong:
            self.fault = str(wrong)
            return True
        reply = self._reply
        # A counted body ends without a sign, so each of its reads is looked at; they are short, or few.
        self.look_at = self._fold_at if reply.status and reply.frame != "length" else 0
        if self._size > self.most_bytes:
            self.fault = f"the answer does not end: over {self.most_bytes} bytes"
        return reply.is_over or self.fault is not None

    def closed(self) -> None:
        """The other side has closed the connection."""
        if not self.look(whole=True) and not self._reply.end():
            when = "in mid-answer" if self._reply.status else "before any answer"
            self.fault = f"the server closed the connection {when}"

    def ended(self, now_ns: int) -> Ended:
        """The record of it all. A fault that is set from outside (a reset, a timeout) stands."""
        if self.fault is not None and self.got:
            fault = self.fault  # what had come before it still counts
            self.look(whole=True)
            self.fault = fault
        reads = self._answer.reads
        self._arrivals.settle(reads, self.sent_ns)
        self._last_events()
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
        begin = self.got[0]
        return (
            len(self.got) == _A_READ
            and begin.startswith(b"HTTP/1.1 200 ")
            and b"\r\ntransfer-encoding: chunked\r\n" in begin.lower()
            and not begin.endswith(b"0\r\n\r\n")
        )

    @property
    def has_begun(self) -> bool:
        """Whether any byte of an answer has come."""
        return self._first > 0 or bool(self.got)

    @property
    def keeps_alive(self) -> bool:
        """Whether the connection may carry another request."""
        return self.fault is None and self._reply.keeps_alive

    @property
    def _is_stream(self) -> bool:
        kind = self._reply.headers.get("content-type", "text/event-stream").lower()
        return self._reply.status == 200 and kind.startswith("text/event-stream")

    @property
    def _is_plain_json(self) -> bool:
        kind = self._reply.headers.get("content-type", "").lower()
        return self._reply.status == 200 and kind.startswith("application/json")

    def _fold(self, *, whole: bool) -> None:
        """Read what has come: all of it if `whole`, else what makes whole events, and keep the rest."""
        if not self.got:
            return
        parts = self.got[::_A_READ]
        raw = parts[0] if len(parts) == 1 else b"".join(parts)
        ends = list(accumulate(map(len, parts)))
        at = len(raw)  # where an error ends the reading, what came before it still counts
        try:
            at = self._stream(raw, ends, whole)
        finally:
            self._keep(raw, at, ends)

    def _stream(self, raw: bytes, ends: list[int], whole: bool) -> int:
        reply, at, size = self._reply, 0, len(raw)
        while at < size and not reply.is_over:
            if reply.between_chunks and self._events.between_events and self._is_stream:
                if self._bulk is None:
                    self._bulk = Bulk(chunked=reply.frame == "chunked")
                stop = self._bulk.read(raw, at, ends, self._first, self._answer)
                reply.skip(stop - at)
                if stop > at:
                    at = stop
                    continue
                if at and not whole:
                    return at
            read = bisect_right(ends, at)
            self._feed(raw[at : ends[read]], self._first + read)
            at = ends[read]
        return size

    def _feed(self, data: bytes, read: int) -> None:
        body = self._reply.feed(data)
        if not self._is_stream:
            self._body.append(body)
            return
        for event in self._events.feed(body):
            self._answer.take(event, read)

    def _keep(self, raw: bytes, at: int, ends: list[int]) -> None:
        """Put the times of the reads aside that lie wholly before `at`, and drop their bytes."""
        gone = bisect_right(ends, at)
        self._first += gone
        self._size += at
        got = self.got
        self._arrivals.add(got[1 : _A_READ * gone : _A_READ], got[2 : _A_READ * gone : _A_READ])
        del got[: _A_READ * gone]
        if got:
            got[0] = raw[at : ends[gone]]
        if self._arrivals.is_full:
            self._arrivals.settle(self._answer.reads, self.sent_ns)

    def _last_events(self) -> None:
        """What the end completes: an event without its empty line, or an answer that is no stream."""
        try:
            for event in self._events.end():
                self._answer.take(event, self._first)
            if self._is_plain_json and self.fault is None:
                self._answer.take_whole(b"".join(self._body), self._first)
        except Malformed as wrong:
            self.fault = self.fault or str(wrong)


def _merged(reads: list[int]) -> int:
    """How many reads completed several chunks."""
    if len(set(reads)) == len(reads):
        return 0
    return sum(count > 1 for count in Counter(reads).values())
