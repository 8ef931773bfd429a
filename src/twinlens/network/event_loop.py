"""The loop: one thread, one epoll, sockets that never block, and stamps before anything is understood.

For each read it keeps the bytes, the kernel's stamp and the time, and nothing else; what they mean is worked out later
(exchange.py), one answer at a time, between two polls, so that no request that is due waits for it. Costs and errors
are measured in benchmarks/load_generator.
"""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic_ns, sleep
from typing import Any

from twinlens.network.answer.fast_path import END
from twinlens.network.answer.meaning import MOST_JSON_BYTES
from twinlens.network.backlog import Backlog
from twinlens.network.coalesce import TICK_NS
from twinlens.network.connections import Connections
from twinlens.network.counts import Counts
from twinlens.network.deadlines import Deadlines
from twinlens.network.ended import Ended
from twinlens.network.exchange import FOLD_READS, Exchange
from twinlens.network.followers import Follow, Followers
from twinlens.network.in_flight import InFlight
from twinlens.network.target import Address
from twinlens.network.timestamp import ANCILLARY_BYTES, NO_STAMP
from twinlens.network.upkeep import Upkeep
from twinlens.network.wakeup import MOST_EVENTS, READABLE, WRITABLE, poller

_LONG_READ_BYTES = 2048
_LEAST_FOLD_READS, _MOST_KEPT_READS = 16, 16_384  # of one answer, of all: with many streams memory counts for more
_LINE_ENDS = 13  # the larger of the two characters that end a line


class EventLoop:
    """Requests go in by `start`; what has ended comes out of `wait`.

    `timeout_ns`: how long an exchange may take from when it was sent. `most_bytes`: how long an answer may be,
    `most_json_bytes`: one in one piece of JSON, of which every request in flight may keep as much.
    """

    def __init__(
        self,
        address: Address,
        *,
        timeout_ns: int,
        most_bytes: int = 64 * 2**20,
        most_json_bytes: int = MOST_JSON_BYTES,
        stamps: bool = True,
        now_ns: Callable[[], int] = monotonic_ns,
    ) -> None:
        self._most_bytes, self._most_json_bytes, self._now_ns = most_bytes, most_json_bytes, now_ns
        self._poller: Any = poller()
        self.counts = Counts()
        self._connections = Connections(address, self._poller, self.counts, stamps=stamps)
        self._in_flight = InFlight(self._connections, self.counts, now_ns)
        self._upkeep = Upkeep(self._in_flight, self.counts, stamps=stamps)
        self.offset = self._upkeep.offset
        self._deadlines = Deadlines(self._in_flight, self._upkeep, timeout_ns, now_ns)
        if self._deadlines.fd is not None:
            self._poller.register(self._deadlines.fd, READABLE)
        self._followers = Followers(self._connections, self._in_flight, self._deadlines, self._poller, now_ns)
        self._backlog = Backlog(self._in_flight)

    @property
    def in_flight(self) -> int:
        """Requests that have been started and whose end has not been handed out."""
        return len(self._in_flight)

    @property
    def follow(self) -> Follow | None:
        """Asked as an answer is seen to end what is to be sent after it, at once."""
        return self._followers.follow

    @follow.setter
    def follow(self, follow: Follow | None) -> None:
        self._followers.follow = follow

    def start(self, key: int, payload: bytes, tokens: int = 0) -> int:
        """Send a request under a key never used before; returns when, in ns. `tokens`: as in Exchange.

        Its end comes out of `wait` under this key, whatever happens. Sent is the first thing done on the wire for it:
        `connect` for a new connection. Raises OutOfResources.
        """
        exchange = self.prepare(tokens)
        exchange.key = key
        connection = self._connections.idle()
        exchange.sent_ns = now = self._now_ns()
        self._deadlines.add(key, now)
        self._in_flight.carry(connection, exchange, payload)
        return now

    def prepare(self, tokens: int = 0) -> Exchange:
        """What will take the answer to a request that is written ahead."""
        fair = _MOST_KEPT_READS // (len(self._in_flight.running) + 1)
        fold_reads = min(FOLD_READS, max(_LEAST_FOLD_READS, fair))
        return Exchange(self.offset, self._most_bytes, fold_reads, tokens, self._most_json_bytes)

    def wait(self, until_ns: int | None) -> list[Ended]:
        """Receive until something has ended or it is `until_ns`."""
        if not self._in_flight.ended:
            self._deadlines.set(until_ns)
            self._receive(until_ns)
        return self._in_flight.take_ended()

    def turn(self) -> list[Ended]:
        """Do what can be done without waiting; what has ended."""
        if not self._in_flight.ended:
            self._receive(0)
        return self._in_flight.take_ended()

    def abandon(self, why: str) -> list[Ended]:
        """End everything that is still running, as it stands."""
        self._followers.enter()
        self._in_flight.abandon(why)
        return self._in_flight.take_ended()

    def close(self) -> None:
        """Close every connection; what still runs is lost (see `abandon`)."""
        self._connections.close()
        self._in_flight.running.clear()
        self._deadlines.close()
        self._poller.close()

    def _receive(self, until_ns: int | None) -> None:
        """The hot path. Each line of it is paid for once per token."""
        poll, now_ns, ancillary_bytes = self._poller.poll, self._now_ns, ANCILLARY_BYTES
        coalescing = self._upkeep.coalescing
        in_flight, by_fd, timer_fd = self._in_flight, self._connections.by_fd, self._deadlines.fd
        ended, queue, near, follows = in_flight.ended, in_flight.queue, in_flight.near, self.follow is not None
        held = self._followers.held
        now = now_ns()
        while not ended:
            asked_ns = now
            reads = 0
            at_once = queue or held or until_ns == 0 or now >= coalescing.next_ns
            timeout = 0 if at_once else -1 if timer_fd is not None else self._deadlines.wait_s(until_ns)
            ready = poll(timeout, MOST_EVENTS)
            if (near and follows) or held:
                ready = self._followers.send_first(ready)
            for fd, events in ready:
                connection = by_fd.get(fd)
                if connection is None:
                    if fd == timer_fd:
                        self._deadlines.heard()
                    continue
                if events & WRITABLE:
                    in_flight.writable(connection)
                    if events == WRITABLE or by_fd.get(fd) is not connection:
                        continue
                read_bytes = connection.read_bytes
                receive = connection.recvmsg  # a call of a slot's value is slower than a call of a name
                try:
                    data, ancillary, _, _ = receive(read_bytes, ancillary_bytes)
                except BlockingIOError:
                    continue
                except OSError as error:
                    in_flight.lost(connection, error)
                    continue
                exchange = connection.exchange
                if not data or exchange is None:
                    in_flight.closed(connection)
                    continue
                now = now_ns()
                size = len(data)
                if size == read_bytes or events != READABLE:
                    self._connections.read_on(connection, exchange, is_full=size == read_bytes)
                if connection.tls is not None:
                    data = in_flight.decrypt(connection, data)
                    if not data:
                        continue
                    size = len(data)
                reads += 1
                got = exchange.got
                got += (data, ancillary[0][2] if ancillary else NO_STAMP, now)
                # The last four bytes of an answer in chunks are two line ends; those of a chunk are an event's and one.
                # They may be cut anywhere. Where more comes after them, it shows once the stream is quiet.
                if (
                    len(got) >= exchange.look_at
                    or not 4 <= size <= _LONG_READ_BYTES
                    or data[-4] == _LINE_ENDS
                    or data[0] <= _LINE_ENDS
                ):
                    in_flight.queue_look(connection, exchange)
                    if follows and data.endswith(END):
                        self._followers.send_after(connection, exchange)
            now = now_ns()
            self.counts.reads += reads
            self._between_polls(asked_ns, now, until_ns, reads)
            if until_ns is not None and now >= until_ns:
                break
            gathers = not queue and not held
            if gathers and (wait_ns := coalescing.wait_ns) and (until_ns is None or until_ns - now > 2 * wait_ns):
                sleep(wait_ns / 1e9)

    def _between_polls(self, asked_ns: int, now: int, until_ns: int | None, reads: int) -> None:
        if now >= self._upkeep.coalescing.next_ns + (TICK_NS if reads else 0):  # what comes goes first
            self._upkeep.tick(now)
        if self._in_flight.queue:
            self._backlog.work(now, reads, follows=self.follow is not None)
        if self._deadlines.has_passed(asked_ns):  # what had come by then has been read
            self._deadlines.fail_late(asked_ns)
        self._deadlines.set_where_none(until_ns)
