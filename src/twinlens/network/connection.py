"""The state of one connection: a socket that never blocks, the request it sends, and the answer that comes back.

`Connection` is the socket; `Exchange` is one request and its answer, raw bytes and stamps while it runs, understood
when there is enough or it is over. They are two since an answer that is complete may still wait to be understood when
its socket carries the next request. pool.py changes both.
"""

from __future__ import annotations

import errno
import os
import socket
from bisect import bisect_right
from itertools import accumulate, count
from typing import TYPE_CHECKING, Any

from twinlens.network.answer.ended import Ended, merged_reads
from twinlens.network.answer.fast_path import ends_in_chunks, is_one_chunk
from twinlens.network.answer.frame import Malformed
from twinlens.network.answer.meaning import MOST_JSON_BYTES, Meaning
from twinlens.network.target import Address
from twinlens.network.timestamp import Arrivals, WallOffset, ask_for_stamps
from twinlens.record.request import Loss

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


FOLD_READS = 64
"""Reads kept before they are understood, however long the answer is: a read takes some 400 bytes."""
_A_READ = 3
"""Things that a read adds to `got`."""
_READY_READS, _SPREAD = 2, 4
_ORDINARY_HEAD_BYTES = 2048
_turn = count()


class Exchange:
    """The loop adds three things a read to `got`: its bytes, its stamp, and its time.

    One list, since with a thousand streams it is the touching of one more that costs. It asks `look` once there are
    `look_at` things in it, or the answer seems to end.
    """

    __slots__ = (
        "_arrivals",
        "_first",
        "_fold_at",
        "_is_dead",
        "_loss",
        "_lost",
        "_may_be_complete",
        "_meaning",
        "_ready_at",
        "fault",
        "got",
        "is_queued",
        "key",
        "look_at",
        "loss",
        "over_ns",
        "sent_ns",
    )

    def __init__(
        self,
        offset: WallOffset,
        most_bytes: int,
        fold_reads: int = FOLD_READS,
        tokens: int = 0,
        most_json_bytes: int = MOST_JSON_BYTES,
    ) -> None:
        """`tokens`: how many will come, where it matters that little is left to do when the last has."""
        self.key, self._fold_at = 0, _A_READ * fold_reads
        # Not at the same read for all of those that end together.
        self._ready_at = max(_READY_READS, tokens - _READY_READS - next(_turn) % _SPREAD) if tokens else 0
        self.got: list[Any] = []
        self.sent_ns = self.over_ns = 0
        self.look_at = 0
        self.fault: str | None = None
        self.loss: Loss | None = None
        self._loss: Loss | None = None
        self.is_queued = False  # for a look
        self._lost: str | None = None  # why nothing more comes; "": the other side has closed
        self._is_dead = self._may_be_complete = False
        self._first = 0
        self._meaning, self._arrivals = Meaning(most_bytes, most_json_bytes), Arrivals(offset)

    def look(self) -> bool:
        """Understand some of what has come; whether the answer is over, or beyond hope.

        `is_behind` then says whether there is more to do at once.
        """
        if not self.look_at and self._lost is None and self._is_ordinary_head():
            self.look_at = self._next_look()
            return False
        self._fold()
        reply = self._meaning.reply
        self._may_be_complete = (
            reply.frame == "chunked" and reply.status == 200 and not reply.closes and reply.between_chunks
        )
        # A counted body ends without a sign, so each of its reads is looked at; they are short, or few.
        self.look_at = self._next_look() if reply.has_head and reply.frame != "length" else 0
        if self._lost is not None and not self.is_behind and not reply.is_over and self.fault is None:
            self._end_early(self._lost)
        return reply.is_over or self.fault is not None

    def is_complete(self, last: bytes = b"") -> bool:
        """Whether what has come, and `last`, ends a good answer on a connection that stays: by its frame alone.

        Certain where true: the frame is what decides. What the answer says is for `look`, later.
        """
        if not self._may_be_complete:
            return False
        for piece in self.got[::_A_READ]:
            if not is_one_chunk(piece):  # as a rule each read is one
                return ends_in_chunks(b"".join([*self.got[::_A_READ], last]))
        return ends_in_chunks(last)

    def part(self, now_ns: int) -> None:
        """It is complete, and its connection goes to another: nothing more comes for this one."""
        self.over_ns = now_ns
        self.lose()

    @property
    def is_behind(self) -> bool:
        """Whether more of what has come can be understood at once."""
        return self._meaning.is_behind

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
            self._lost, self._loss = why, "broken" if why else "closed"

    def give_up(self, why: str, loss: Loss | None = None) -> None:
        """End it here: with what is wrong already, or else for this reason; `loss`: where the connection is it."""
        self._lost, self._loss = why, loss
        while not (is_over := self.look()) and self.is_behind:  # what has come is finite, and no slice is empty
            pass
        if not is_over and self.fault is None:
            self._fail(why)

    def ended(self, now_ns: int) -> Ended:
        """The record of it all, once a look has said that it is over."""
        meaning = self._meaning
        if not self._is_dead:  # what follows a fault does not count
            try:
                meaning.finish(is_good=self.fault is None)
            except Malformed as wrong:
                self.fault = self.fault or str(wrong)
        reads = meaning.answer.reads
        self._arrivals.settle(reads, self.sent_ns)
        chunk_ns = self._arrivals.chunk_ns(len(reads))
        # An answer in one piece that holds no token, such as an embedding, ended with the last read.
        last_ns = chunk_ns if len(chunk_ns) or meaning.answer.said is None else self._arrivals.chunk_ns(1)
        last = self.fault is None and len(last_ns)
        return Ended(
            key=self.key,
            sent_ns=self.sent_ns,
            end_ns=int(last_ns[-1]) if last else now_ns,
            status=meaning.reply.status,
            headers=meaning.reply.headers,
            fault=self.fault,
            answer=meaning.answer,
            body=meaning.body,
            chunk_ns=chunk_ns,
            lags_ns=self._arrivals.lags_ns(),
            merged=merged_reads(reads),
            loss=self.loss,
            over_ns=self._arrivals.last_ns or 0,
        )

    def _is_ordinary_head(self) -> bool:
        """Whether a chunked stream begins here, of which nothing need be known before there is more of it."""
        begin = self.got[0] if self.got else b""
        return (
            len(self.got) == _A_READ
            and len(begin) <= _ORDINARY_HEAD_BYTES
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
        return self.fault is None and self._lost is None and self._meaning.reply.keeps_alive

    def _end_early(self, why: str) -> None:
        reply = self._meaning.reply
        if why:
            self._fail(why)
        elif not reply.end():
            when = "in mid-answer" if reply.status else "before any answer"
            if reply.fault:
                self.fault = reply.fault
            else:
                self._fail(f"the server closed the connection {when}")

    def _fail(self, why: str) -> None:
        self.fault, self.loss = why, self._loss

    def _fold(self) -> None:
        """Read some of what has come, and keep the rest."""
        parts = self.got[::_A_READ]
        raw = parts[0] if len(parts) == 1 else b"".join(parts)
        ends = list(accumulate(map(len, parts)))
        try:
            at = self._meaning.read(raw, ends, self._first, is_last=self._lost is not None)
        except Malformed as wrong:
            at = len(raw)  # nothing that follows counts
            self.fault, self._is_dead = str(wrong), True
        if parts:
            self._keep(parts, at, ends)

    def _keep(self, parts: list[bytes], at: int, ends: list[int]) -> None:
        """Put the times of the reads aside that lie wholly before `at`, and drop their bytes."""
        gone = bisect_right(ends, at)
        self._first += gone
        self._meaning.size_bytes += at
        got = self.got
        self._arrivals.add(got[1 : _A_READ * gone : _A_READ], got[2 : _A_READ * gone : _A_READ])
        del got[: _A_READ * gone]
        if got and (left := ends[gone] - at) < len(parts[gone]):
            got[0] = parts[gone][-left:]
        if self._arrivals.is_full:
            self._arrivals.settle(self._meaning.answer.reads, self.sent_ns)
