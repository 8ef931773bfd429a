"""One request and what came back: raw bytes and stamps while it runs, understood when there is enough or it is over."""

from __future__ import annotations

from array import array
from dataclasses import dataclass

import numpy as np

from twinlens.executors.answer import Answer
from twinlens.executors.bulk import Bulk
from twinlens.executors.http_reply import Malformed, Reply
from twinlens.executors.sse import Events
from twinlens.executors.stamp import WallOffset, arrival_ns

FOLD_BYTES = 16 * 1024
"""Raw bytes kept before they are understood: a thousand streams then hold 16 MB, however long their answers are."""
_END = b"\r\n\r\n"


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
    """`wire`, `ends`, `stamps`, `read_ns` are filled by the loop: bytes, where each read ended, its stamp, its time."""

    __slots__ = (
        "_answer",
        "_body",
        "_bulk",
        "_chunk_ns",
        "_events",
        "_first",
        "_lags",
        "_last_ns",
        "_offset",
        "_reply",
        "_size",
        "ends",
        "fault",
        "is_queued",
        "key",
        "look_at",
        "most_bytes",
        "read_ns",
        "sent_ns",
        "stamps",
        "wire",
    )

    def __init__(self, key: int, offset: WallOffset, most_bytes: int) -> None:
        self.key, self._offset, self.most_bytes = key, offset, most_bytes
        self.wire, self.ends, self.stamps, self.read_ns = bytearray(), array("q"), bytearray(), array("q")
        self.sent_ns = 0
        self.look_at = 0  # the loop asks `look` once the wire holds this many bytes, or seems to end
        self.fault: str | None = None
        self.is_queued = False  # for a look
        self._reply, self._events, self._answer = Reply(), Events(), Answer()
        self._bulk: Bulk | None = None
        self._body: list[bytes] = []  # of an answer that is no stream of events
        self._first = self._size = self._last_ns = 0
        self._chunk_ns: list[np.ndarray] = []
        self._lags: list[np.ndarray] = []

    def look(self, *, whole: bool = False) -> bool:
        """Understand what has come (`whole`: also what may go on); whether the answer is over, or beyond hope."""
        try:
            self._fold(whole=whole or len(self.wire) < FOLD_BYTES or self.wire[-4:] == _END)
        except Malformed as wrong:
            self.fault = str(wrong)
            return True
        reply = self._reply
        if reply.status and reply.frame == "length":
            self.look_at = min(FOLD_BYTES, len(self.wire) + (reply.left_bytes or 0))
        elif reply.status:
            self.look_at = FOLD_BYTES + len(self.wire)
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
        if self.fault is not None and self.wire:
            fault = self.fault  # what had come before it still counts
            self.look(whole=True)
            self.fault = fault
        self._last_events()
        chunk_ns = np.concatenate(self._chunk_ns) if self._chunk_ns else np.empty(0, np.int64)
        reads = np.array(self._answer.reads, np.int64)
        merged = int((np.unique(reads, return_counts=True)[1] > 1).sum()) if len(reads) else 0
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
            lags_ns=np.concatenate(self._lags) if self._lags else np.empty(0, np.int64),
            merged=merged,
        )

    @property
    def has_begun(self) -> bool:
        """Whether any byte of an answer has come."""
        return self._first > 0 or bool(self.ends)

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
        """Read the wire: all of it if `whole`, else what makes whole events, and keep the rest."""
        if not self.ends:
            return
        raw, ends = bytes(self.wire), np.array(self.ends)
        at = self._stream(raw, ends, whole)
        self._keep(at, ends)

    def _stream(self, raw: bytes, ends: np.ndarray, whole: bool) -> int:
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
            read = int(np.searchsorted(ends, at, "right"))
            self._feed(raw[at : ends[read]], self._first + read)
            at = int(ends[read])
        return size

    def _feed(self, data: bytes, read: int) -> None:
        body = self._reply.feed(data)
        if not self._is_stream:
            self._body.append(body)
            return
        for event in self._events.feed(body):
            self._answer.take(event, read)

    def _keep(self, at: int, ends: np.ndarray) -> None:
        """Turn stamps into times, and drop the reads that lie wholly before `at`."""
        times = arrival_ns(self.stamps, self.read_ns, self._offset, self._last_ns or self.sent_ns)
        known = sum(map(len, self._chunk_ns))
        fresh = np.array(self._answer.reads[known:], np.int64) - self._first
        self._chunk_ns.append(times[fresh])
        gone = int(np.searchsorted(ends, at, "right"))
        self._lags.append(np.array(self.read_ns[:gone], np.int64) - times[:gone])
        self._last_ns = int(times[gone - 1]) if gone else self._last_ns
        self._first += gone
        self._size += at
        del self.wire[:at], self.stamps[: 16 * gone], self.read_ns[:gone]
        self.ends = array("q", (ends[gone:] - at).tolist())

    def _last_events(self) -> None:
        """What the end completes: an event without its empty line, or an answer that is no stream."""
        before = len(self._answer.reads)
        try:
            for event in self._events.end():
                self._answer.take(event, self._first)
            if self._is_plain_json and self.fault is None:
                self._answer.take_whole(b"".join(self._body), self._first)
        except Malformed as wrong:
            self.fault = self.fault or str(wrong)
        self._chunk_ns.append(np.full(len(self._answer.reads) - before, self._last_ns, np.int64))
