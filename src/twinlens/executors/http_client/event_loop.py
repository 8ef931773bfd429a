"""The loop: one thread, one epoll, sockets that never block, and stamps before anything is understood.

For each read it keeps the bytes, the kernel's stamp and the time, and nothing else; what they mean is worked out later
(exchange.py), one answer at a time, between two polls, so that no request that is due waits for it. Costs and errors
are measured in benchmarks/load_generator.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from socket import MSG_PEEK
from time import monotonic_ns, sleep
from typing import Any

from twinlens.executors.http_client.coalesce import TICK_NS, Coalescing
from twinlens.executors.http_client.connection import OUT_OF, READ_BYTES, Address, Connection
from twinlens.executors.http_client.exchange import END, FOLD_READS, Ended, Exchange
from twinlens.executors.http_client.limits import make_room
from twinlens.executors.http_client.poller import BOTH, HELD, READABLE, READING, WRITABLE, poller
from twinlens.executors.http_client.timer import Timer
from twinlens.executors.http_client.timestamp import ANCILLARY_BYTES, NO_STAMP, WallOffset, stamp_keeper

_MOST_EVENTS = 256
_LONG_READ_BYTES = 2048
_LEAST_FOLD_READS, _MOST_KEPT_READS = 16, 16_384  # of one answer, of all: with many streams memory counts for more
_LINE_ENDS = 13  # the larger of the two characters that end a line
_AT_ONCE = 8
_QUIET_NS = 200_000_000
_MOST_LATE_NS = 10_000_000  # for what has come to be understood, where more comes all the time
_NEAR_LATE_NS = 50_000_000  # the same while answers are about to end, whose followers go first
_NEAR_SHARE = 0.25
_PEEK_BYTES = READ_BYTES[2]
_MOST_HELD_NS = 2_000_000  # how long reads wait while answers end, so that few chunks come to share a stamp

Follow = Callable[[int], tuple[int, bytes, Exchange] | None]
"""What comes after the request of a key: a key, its bytes and what takes the answer; None: nothing, or not yet."""
_Followed = tuple[Connection, Exchange, tuple[int, bytes, Exchange], int, OSError | None]


class OutOfResources(Exception):
    """This machine cannot open another connection; the words say what ran out."""


@dataclass(slots=True)
class Counts:
    """What the loop has done so far. `retries`: requests sent again because an idle connection had just been closed.

    `gather_ns`: the longest that it has waited on purpose, for reads to come together.
    """

    reads: int = 0
    gather_ns: int = 0
    connects: int = 0
    retries: int = 0
    unstamped_connections: int = 0


class EventLoop:
    """Requests go in by `start`; what has ended comes out of `wait`.

    `timeout_ns`: how long an exchange may take from when it was sent. `most_bytes`: how long an answer may be.
    """

    def __init__(
        self,
        address: Address,
        *,
        timeout_ns: int,
        most_bytes: int = 64 * 2**20,
        stamps: bool = True,
        now_ns: Callable[[], int] = monotonic_ns,
    ) -> None:
        self._address, self._timeout_ns, self._most_bytes, self._stamps = address, timeout_ns, most_bytes, stamps
        self._now_ns = now_ns
        make_room()
        self._poller: Any = poller()
        self._timer = Timer()
        self._timer_ns: int | None = None
        self._quiet_ns = 0
        self._coalescing = Coalescing()
        self._keeper = stamp_keeper() if stamps else None
        if self._timer.fd is not None:
            self._poller.register(self._timer.fd, READABLE)
        self._connections: dict[int, Connection] = {}
        self._idle: list[Connection] = []
        self._running: dict[int, Connection] = {}
        self._timeouts: deque[tuple[int, int]] = deque()
        self._queue: deque[tuple[Connection, Exchange]] = deque()
        self._ended: list[Ended] = []
        self._parted = 0  # exchanges that are complete and not yet understood, whose connection has another
        self._waiting_ns = 0  # since when something has waited to be understood; 0: nothing does
        self._near: dict[int, Connection] = {}  # whose answers are about to end, by descriptor
        self._followed: deque[_Followed] = deque()  # sent, and not entered yet
        self.follow: Follow | None = None
        self.offset = WallOffset()
        self.counts = Counts()

    @property
    def in_flight(self) -> int:
        """Requests that have been started and whose end has not been handed out."""
        return len(self._running) + self._parted + len(self._ended)

    def start(self, key: int, payload: bytes, tokens: int = 0) -> int:
        """Send a request under a key never used before; returns when, in ns. `tokens`: as in Exchange.

        Its end comes out of `wait` under this key, whatever happens. Sent is the first thing done on the wire for it:
        `connect` for a new connection. Raises OutOfResources.
        """
        exchange = self.prepare(tokens)
        exchange.key = key
        connection = self._idle.pop() if self._idle else None
        exchange.sent_ns = now = self._now_ns()
        self._timeouts.append((now + self._timeout_ns, key))
        self._carry(connection, exchange, payload)
        return now

    def prepare(self, tokens: int = 0) -> Exchange:
        """What will take the answer to a request that is written ahead."""
        fair = _MOST_KEPT_READS // (len(self._running) + 1)
        return Exchange(self.offset, self._most_bytes, min(FOLD_READS, max(_LEAST_FOLD_READS, fair)), tokens)

    def wait(self, until_ns: int | None) -> list[Ended]:
        """Receive until something has ended or it is `until_ns`."""
        if not self._ended:
            self._set_alarm(until_ns)
            self._receive(until_ns)
        ended, self._ended = self._ended, []
        return ended

    def turn(self) -> list[Ended]:
        """Do what can be done without waiting; what has ended."""
        if not self._ended:
            self._receive(0)
        ended, self._ended = self._ended, []
        return ended

    def abandon(self, why: str) -> list[Ended]:
        """End everything that is still running, as it stands."""
        self._enter_followers()
        for connection, exchange in [pair for pair in self._queue if pair[1].over_ns]:
            while exchange.over_ns:  # the end of the one before is when the next was intended
                self._look(connection, exchange)
        for connection in list(self._running.values()):
            self._fail(connection, why)
        ended, self._ended = self._ended, []
        return ended

    def close(self) -> None:
        """Close every connection; what still runs is lost (see `abandon`)."""
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()
        self._idle.clear()
        self._running.clear()
        self._timer.close()
        self._poller.close()
        if self._keeper is not None:
            self._keeper.close()

    def _receive(self, until_ns: int | None) -> None:
        """The hot path. Each line of it is paid for once per token."""
        poll, connections, queue, now_ns = self._poller.poll, self._connections, self._queue, self._now_ns
        ended, ancillary_bytes, has_timer, coalescing = self._ended, ANCILLARY_BYTES, self._timer.fd, self._coalescing
        follow, near = self.follow, self._near
        now = now_ns()
        while not ended:
            asked_ns = now
            reads = 0
            if not queue:
                self._waiting_ns = 0
            at_once = queue or until_ns == 0 or now >= coalescing.next_ns
            timeout = 0 if at_once else -1 if has_timer is not None else self._timeout_s(until_ns)
            ready = poll(timeout, _MOST_EVENTS)
            if near and follow is not None:
                ready = self._send_followers(ready, follow)
            for fd, events in ready:
                connection = connections.get(fd)
                if connection is None:
                    if fd == has_timer:
                        self._timer.heard()
                        self._timer_ns = None
                    continue
                if events & WRITABLE:
                    self._writable(connection)
                    if events == WRITABLE or connections.get(fd) is not connection:
                        continue
                read_bytes = connection.read_bytes
                receive = connection.recvmsg  # a call of a slot's value is slower than a call of a name
                try:
                    data, ancillary, _, _ = receive(read_bytes, ancillary_bytes)
                except BlockingIOError:
                    continue
                except OSError as error:
                    self._lost(connection, error)
                    continue
                exchange = connection.exchange
                if not data or exchange is None:
                    self._closed(connection)
                    continue
                now = now_ns()
                size = len(data)
                if size == read_bytes or events != READABLE:
                    self._read_on(connection, exchange, is_full=size == read_bytes)
                if connection.tls is not None:
                    data = self._decrypt(connection, data)
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
                    if not exchange.is_queued:
                        exchange.is_queued = True
                        if exchange.is_near:  # so that its end is seen
                            queue.appendleft((connection, exchange))
                        else:
                            queue.append((connection, exchange))
                    if follow is not None and data.endswith(END) and exchange.is_complete():
                        self._succeed(connection, exchange, follow)
                        self._enter_followers()
            now = now_ns()
            self.counts.reads += reads
            if now >= coalescing.next_ns and (
                not reads or now >= coalescing.next_ns + TICK_NS
            ):  # what comes goes first
                self._tick(now)
            if not queue:
                pass
            elif not reads:  # what has come may end an answer, after which another request is due: that goes first
                self._look(*queue.popleft())
            elif follow is None or 0 < self._waiting_ns < now - (_NEAR_LATE_NS if near else _MOST_LATE_NS):
                for _ in range(1 + min(len(queue) // _AT_ONCE, _AT_ONCE)):  # a client that is late must not gather more
                    self._look(*queue.popleft())
            elif not self._waiting_ns:
                self._waiting_ns = now
            if self._timeouts and asked_ns >= self._timeouts[0][0]:  # what had come by then has been read
                self._time_out(asked_ns)
            if until_ns is not None and now >= until_ns:
                break
            if self._timer_ns is None:
                self._set_alarm(until_ns)
            gather_ns = coalescing.wait_ns
            if gather_ns and not queue and (until_ns is None or until_ns - now > 2 * gather_ns):
                sleep(gather_ns / 1e9)

    def _tick(self, now: int) -> None:
        """Every 10 ms: look after the clocks, and choose how long to let reads come together."""
        if now >= self.offset.next_ns:
            self.offset.watch(now)
        if now >= self._quiet_ns:
            self._quiet_ns = now + _QUIET_NS
            for connection in self._running.values():
                exchange = connection.exchange
                if exchange is not None and exchange.got and exchange.got[-1] < now - _QUIET_NS:
                    self._queue_look(connection, exchange)
        counts, coalescing = self.counts, self._coalescing
        stamped = self._stamps and not counts.unstamped_connections
        ends = len(self._near) > _NEAR_SHARE * len(self._running)  # many at once: their followers are to leave at once
        coalescing.choose(now, counts.reads, len(self._running), is_stamped=stamped and not ends)
        counts.gather_ns = coalescing.most_ns

    def _queue_look(self, connection: Connection, exchange: Exchange) -> None:
        if not exchange.is_queued:
            exchange.is_queued = True
            self._queue.append((connection, exchange))

    def _look(self, connection: Connection, exchange: Exchange) -> None:
        exchange.is_queued = False
        if exchange.over_ns:
            if exchange.look():
                self._parted -= 1
                self._ended.append(exchange.ended(exchange.over_ns))
                exchange.over_ns = 0
            else:
                self._queue_look(connection, exchange)
            return
        if connection.exchange is not exchange:
            return
        connection.payload = b""  # an answer has begun: it is not asked for again
        if exchange.look():
            self._finish(connection)
            return
        if exchange.is_near and connection.tls is None and self.follow is not None:
            self._near[connection.fd] = connection
        if exchange.is_behind:
            self._queue_look(connection, exchange)
        else:
            self._release(connection)

    def _release(self, connection: Connection) -> None:
        if connection.is_held:
            connection.is_held = False
            self._poller.modify(connection.fd, BOTH if connection.out else READING)

    def _send_followers(self, ready: list[tuple[int, int]], follow: Follow) -> list[tuple[int, int]]:
        """Send what comes after the answers that end here, before anything is read; what is ready else.

        Their last bytes are looked at and left where they are: a read would acknowledge them, for as much as a send
        costs, and what is sent carries the acknowledgement.
        """
        near, until_ns, others = self._near, self._now_ns() + _MOST_HELD_NS, []
        while ready:
            for event in ready:
                connection = near.get(event[0])
                if connection is None or event[1] != READABLE or not self._sees_end(connection, follow):
                    others.append(event)
            if not self._followed:
                break
            now = self._enter_followers()
            ready = self._poller.poll(0, _MOST_EVENTS) if now < until_ns else []
        return others

    def _sees_end(self, connection: Connection, follow: Follow) -> bool:
        """Whether the answer on this connection is seen to end; what comes after it has then been sent."""
        exchange = connection.exchange
        try:
            data, ancillary, _, _ = connection.recvmsg(_PEEK_BYTES, ANCILLARY_BYTES, MSG_PEEK)
        except OSError:
            return False
        if not data.endswith(END) or exchange is None or not exchange.is_complete(data):
            return False
        if not self._succeed(connection, exchange, follow):
            return False
        exchange.got += (data, ancillary[0][2] if ancillary else NO_STAMP, self._followed[-1][3])
        connection.unread = len(data)
        return True

    def _succeed(self, connection: Connection, exchange: Exchange, follow: Follow) -> bool:
        """This answer is complete: send what comes after it; whether there was something to send."""
        if connection.out or connection.tls is not None or (following := follow(exchange.key)) is None:
            return False
        sent_ns = self._now_ns()
        error = None
        try:
            connection.push_first(following[1])
        except OSError as wrong:
            error = wrong
        self._followed.append((connection, exchange, following, sent_ns, error))
        return True

    def _enter_followers(self) -> int:
        """Put what was sent in the place of what it follows; the time."""
        followed, now = self._followed, self._now_ns()
        while followed:
            connection, exchange, (key, payload, after), sent_ns, error = followed.popleft()
            try:
                connection.drain()
            except OSError as wrong:
                error = error or wrong
            connection.carry(payload)
            self._near.pop(connection.fd, None)
            self._queue_look(connection, exchange)
            exchange.part(sent_ns)
            self._running.pop(exchange.key, None)
            self._parted += 1
            after.key, after.sent_ns = key, sent_ns
            connection.exchange, connection.is_used = after, True
            self._running[key] = connection
            self._timeouts.append((sent_ns + self._timeout_ns, key))
            if error is not None:
                self._lost(connection, error)
            elif connection.out:
                self._poller.modify(connection.fd, BOTH)
        return now

    def _finish(self, connection: Connection) -> None:
        """The exchange of this connection is over; it goes back to the idle ones if it can be used again."""
        exchange, connection.exchange = connection.exchange, None
        self._near.pop(connection.fd, None)
        assert exchange is not None
        self._running.pop(exchange.key, None)
        self._ended.append(exchange.ended(self._now_ns()))
        if exchange.keeps_alive and not connection.out:
            connection.is_used = True
            self._release(connection)
            self._idle.append(connection)
        else:
            self._drop(connection)

    def _fail(self, connection: Connection, why: str) -> None:
        assert connection.exchange is not None
        connection.exchange.give_up(why)
        self._finish(connection)

    def _drop(self, connection: Connection) -> None:
        if self._connections.get(connection.fd) is connection:
            del self._connections[connection.fd]
            self._poller.unregister(connection.fd)
        if connection in self._idle:
            self._idle.remove(connection)
        connection.close()

    def _carry(self, connection: Connection | None, exchange: Exchange, payload: bytes) -> None:
        why = None
        if connection is None:
            connection, why = self._connect()
        self._running[exchange.key] = connection
        connection.exchange = exchange
        try:
            if why is None:
                connection.queue(payload)
                whole = connection.push()
                self._register(connection, READING if whole else BOTH)
            else:
                self._fail(connection, why)
        except OSError as error:
            self._lost(connection, error)

    def _connect(self) -> tuple[Connection, str | None]:
        """A new connection, and why there can be none."""
        try:
            connection = Connection(self._address, stamps=self._stamps)
            why = connection.connect(self._address)
        except OSError as error:
            if error.errno in OUT_OF:
                raise OutOfResources(error.strerror) from error
            raise
        self.counts.connects += 1
        self.counts.unstamped_connections += not connection.has_stamps
        return connection, why

    def _register(self, connection: Connection, events: int) -> None:
        if connection.fd not in self._connections:
            self._connections[connection.fd] = connection
            self._poller.register(connection.fd, events)
        elif events != READING:
            self._poller.modify(connection.fd, events)

    def _read_on(self, connection: Connection, exchange: Exchange, *, is_full: bool) -> None:
        """There may be more, or the end: a poll says only once that something has come, so have it said again.

        Not of a server that sends faster than its answer is understood, or that would fill the memory.
        """
        if is_full:
            if connection.read_bytes == READ_BYTES[-1] and exchange.is_queued:
                connection.is_held = True
                self._poller.modify(connection.fd, HELD)
                return
            connection.read_more()
        self._poller.modify(connection.fd, BOTH if connection.out else READING)

    def _writable(self, connection: Connection) -> None:
        if connection.is_connecting and (why := connection.connected()):
            self._fail(connection, why)
            return
        try:
            if connection.push():
                self._poller.modify(connection.fd, READING)
        except OSError as error:
            self._lost(connection, error)

    def _decrypt(self, connection: Connection, cipher: bytes) -> bytes:
        assert connection.tls is not None
        try:
            plain, out = connection.tls.read(cipher)
            connection.out += out
            if not connection.push():
                self._poller.modify(connection.fd, BOTH)
        except OSError as error:  # of which ssl.SSLError is one
            self._lost(connection, error)
            return b""
        return plain

    def _closed(self, connection: Connection) -> None:
        exchange = connection.exchange
        if exchange is None:
            self._drop(connection)
        elif not self._again(connection, exchange):
            exchange.lose()
            self._queue_look(connection, exchange)

    def _lost(self, connection: Connection, error: OSError) -> None:
        exchange = connection.exchange
        if exchange is None:
            self._drop(connection)
        elif connection.is_connecting:
            self._fail(connection, f"cannot connect: {error.strerror or error}")
        elif not self._again(connection, exchange):
            exchange.lose(f"the connection broke: {error.strerror or error}")
            self._queue_look(connection, exchange)

    def _again(self, connection: Connection, exchange: Exchange) -> bool:
        """An idle connection may be closed by the server just as we use it: nobody's fault, so ask once more."""
        if not connection.is_used or exchange.has_begun:
            return False
        connection.exchange = None
        self._drop(connection)
        self.counts.retries += 1
        self._carry(None, exchange, connection.payload)
        return True

    def _time_out(self, now: int) -> None:
        timeouts = self._timeouts
        while timeouts and (now >= timeouts[0][0] or timeouts[0][1] not in self._running):
            _, key = timeouts.popleft()
            if (connection := self._running.get(key)) is not None:
                self._fail(connection, f"no end after {self._timeout_ns / 1e9:g} s")

    def _set_alarm(self, until_ns: int | None) -> None:
        """An alarm that comes too early is only a wake-up; so it is moved forward at once, and back when it rings."""
        timeouts = self._timeouts
        while timeouts and timeouts[0][1] not in self._running:
            timeouts.popleft()
        times = [at for at in (until_ns, timeouts[0][0] if timeouts else None) if at is not None]
        if self._running:
            times.append(max(self._quiet_ns, self._coalescing.next_ns))
        if times and (self._timer_ns is None or min(times) < self._timer_ns):
            self._timer_ns = min(times)
            self._timer.set(self._timer_ns)

    def _timeout_s(self, until_ns: int | None) -> float:
        self._set_alarm(until_ns)
        at_ns, self._timer_ns = self._timer_ns, None
        return -1.0 if at_ns is None else max(0.0, (at_ns - self._now_ns()) / 1e9)
