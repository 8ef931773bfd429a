"""The loop: one thread, one epoll, sockets that never block, and stamps before anything is understood.

For each read it keeps the bytes, the kernel's stamp and the time, and nothing else; what they mean is worked out later
(pool.py), one answer at a time, between two polls, so that no request that is due waits for it. Costs and errors are
measured in benchmarks/load_generator.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from time import monotonic_ns, sleep
from typing import Any

from twinlens.network.answer.ended import Ended
from twinlens.network.answer.fast_path import END
from twinlens.network.answer.meaning import MOST_JSON_BYTES
from twinlens.network.connection import FOLD_READS, Exchange
from twinlens.network.followers import Follow, Followers
from twinlens.network.pool import Counts, Pool
from twinlens.network.target import Address
from twinlens.network.timestamp import ANCILLARY_BYTES, NO_STAMP, WallOffset
from twinlens.network.wakeup import MOST_EVENTS, READABLE, WRITABLE, Timer, poller

_LONG_READ_BYTES = 2048
_LEAST_FOLD_READS, _MOST_KEPT_READS = 16, 16_384  # of one answer, of all: with many streams memory counts for more
_LINE_ENDS = 13  # the larger of the two characters that end a line
_TICK_NS = 10_000_000
_QUIET_NS = 200_000_000  # after which an answer is looked at though nothing more comes
_NEAR_SHARE = 0.15
_LOOKS_AT_ONCE = 8
_MOST_LATE_NS = 10_000_000  # that reads wait to be understood, where more comes all the time
_NEAR_LATE_NS = 50_000_000  # the same while answers are about to end, whose followers go first
_MOST_GATHER_NS = 500_000
_LEAST_READS_PER_NS = 4e-6
_GAP_SHARE = 0.1


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
        self._timeout_ns, self._stamps = timeout_ns, stamps
        self._poller: Any = poller()
        self._pool = Pool(address, self._poller, now_ns, stamps=stamps)
        self._followers = Followers(self._pool, self._poller, now_ns, self._will_end)
        self.offset, self._coalescing = WallOffset(), _Coalescing()
        self._quiet_ns = self._waits_since_ns = 0  # when quiet answers are looked at next; 0: nothing waits for a look
        self._ends: deque[tuple[int, int]] = deque()  # of exchanges: when at the latest, and the key
        self._timer = Timer()
        self._wake_ns: int | None = None
        if self._timer.fd is not None:
            self._poller.register(self._timer.fd, READABLE)

    @property
    def counts(self) -> Counts:
        return self._pool.counts

    @property
    def in_flight(self) -> int:
        """Requests that have been started and whose end has not been handed out."""
        return len(self._pool)

    @property
    def follow(self) -> Follow | None:
        """What says, as an answer is seen to end, which request is sent behind it at once."""
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
        connection = self._pool.idle()
        exchange.sent_ns = now = self._now_ns()
        self._will_end(exchange)
        self._pool.carry(connection, exchange, payload)
        return now

    def prepare(self, tokens: int = 0) -> Exchange:
        """What will take the answer to a request that is written ahead."""
        fair = _MOST_KEPT_READS // (len(self._pool.running) + 1)
        fold_reads = min(FOLD_READS, max(_LEAST_FOLD_READS, fair))
        return Exchange(self.offset, self._most_bytes, fold_reads, tokens, self._most_json_bytes)

    def wait(self, until_ns: int | None) -> list[Ended]:
        """Receive until something has ended or it is `until_ns`."""
        if not self._pool.ended:
            self._set_timer(until_ns)
            self._receive(until_ns)
        return self._pool.take_ended()

    def turn(self) -> list[Ended]:
        """Do what can be done without waiting; what has ended."""
        if not self._pool.ended:
            self._receive(0)
        return self._pool.take_ended()

    def abandon(self, why: str) -> list[Ended]:
        """End everything that is still running, as it stands."""
        self._followers.enter()
        self._pool.abandon(why)
        return self._pool.take_ended()

    def close(self) -> None:
        """Close every connection; what still runs is lost (see `abandon`)."""
        self._pool.close()
        self._timer.close()
        self._poller.close()

    def _receive(self, until_ns: int | None) -> None:
        """The hot path. Each line of it is paid for once per token."""
        poll, now_ns, ancillary_bytes = self._poller.poll, self._now_ns, ANCILLARY_BYTES
        pool, followers, coalescing, timer_fd = self._pool, self._followers, self._coalescing, self._timer.fd
        by_fd, ended, queue, near = pool.by_fd, pool.ended, pool.queue, pool.near
        held, follows = followers.held, followers.follow is not None
        now = now_ns()
        while not ended:
            asked_ns = now
            reads = 0
            at_once = queue or held or until_ns == 0 or now >= coalescing.next_ns
            timeout = 0 if at_once else -1 if timer_fd is not None else self._wait_s(until_ns)
            ready = poll(timeout, MOST_EVENTS)
            if (near and follows) or held:
                ready = followers.send_first(ready)
            for fd, events in ready:
                connection = by_fd.get(fd)
                if connection is None:
                    if fd == timer_fd:
                        self._timer.heard()
                        self._wake_ns = None
                    continue
                if events & WRITABLE:
                    pool.writable(connection)
                    if events == WRITABLE or by_fd.get(fd) is not connection:
                        continue
                read_bytes = connection.read_bytes
                receive = connection.recvmsg  # a call of a slot's value is slower than a call of a name
                try:
                    data, ancillary, _, _ = receive(read_bytes, ancillary_bytes)
                except BlockingIOError:
                    continue
                except OSError as error:
                    pool.lost(connection, error)
                    continue
                exchange = connection.exchange
                if not data or exchange is None:
                    pool.closed(connection)
                    continue
                now = now_ns()
                size = len(data)
                if size == read_bytes or events != READABLE:
                    pool.read_on(connection, exchange, is_full=size == read_bytes)
                if connection.tls is not None:
                    data = pool.decrypt(connection, data)
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
                    pool.queue_look(connection, exchange)
                    if follows and data.endswith(END):
                        followers.send_after(connection, exchange)
            now = now_ns()
            pool.counts.reads += reads
            self._between_polls(asked_ns, now, until_ns, reads)
            if until_ns is not None and now >= until_ns:
                break
            gathers = not queue and not held
            if gathers and (wait_ns := coalescing.wait_ns) and (until_ns is None or until_ns - now > 2 * wait_ns):
                sleep(wait_ns / 1e9)

    def _between_polls(self, asked_ns: int, now: int, until_ns: int | None, reads: int) -> None:
        if now >= self._coalescing.next_ns + (_TICK_NS if reads else 0):  # what comes goes first
            self._tick(now)
        if self._pool.queue:
            self._understand(now, reads)
        if self._ends and asked_ns >= self._ends[0][0]:  # what had come by then has been read
            self._fail_late(asked_ns)
        if self._wake_ns is None:
            self._set_timer(until_ns)

    def _understand(self, now: int, reads: int) -> None:
        """As little as can be while more comes, which may end an answer, after which another request is due."""
        queue, look, follows = self._pool.queue, self._pool.look, self.follow is not None
        if not reads:
            look(*queue.popleft(), follows=follows)
        elif not follows or self._is_late(now):
            for _ in range(1 + min(len(queue) // _LOOKS_AT_ONCE, _LOOKS_AT_ONCE)):  # one that is late gathers no more
                look(*queue.popleft(), follows=follows)
        if not queue:
            self._waits_since_ns = 0

    def _is_late(self, now: int) -> bool:
        self._waits_since_ns = self._waits_since_ns or now
        return now - self._waits_since_ns > (_NEAR_LATE_NS if self._pool.near else _MOST_LATE_NS)

    def _tick(self, now: int) -> None:
        """Every 10 ms: clocks, quiet answers, and the time to wait for more reads."""
        pool, counts = self._pool, self._pool.counts
        if now >= self.offset.next_ns:
            self.offset.watch(now)
        if now >= self._quiet_ns:
            self._quiet_ns = now + _QUIET_NS
            for connection in pool.running.values():
                exchange = connection.exchange
                if exchange is not None and exchange.got and exchange.got[-1] < now - _QUIET_NS:
                    pool.queue_look(connection, exchange)
        stamped = self._stamps and not counts.unstamped_connections
        ends = len(pool.near) > _NEAR_SHARE * len(pool.running)  # at once: their followers are to leave at once
        self._coalescing.choose(now, counts.reads, len(pool.running), is_stamped=stamped and not ends)
        counts.gather_ns = self._coalescing.most_ns

    def _will_end(self, exchange: Exchange) -> None:
        """An exchange has begun, and has so long to end."""
        self._ends.append((exchange.sent_ns + self._timeout_ns, exchange.key))

    def _fail_late(self, now: int) -> None:
        """End what has taken too long."""
        ends, running = self._ends, self._pool.running
        while ends and (now >= ends[0][0] or ends[0][1] not in running):
            _, key = ends.popleft()
            if (connection := running.get(key)) is not None:
                self._pool.fail(connection, f"no end after {self._timeout_ns / 1e9:g} s")

    def _set_timer(self, until_ns: int | None) -> None:
        """Wake then, or for a tick while anything is under way, or when an exchange has taken too long.

        A wake-up that comes too early costs little; so it is moved forward at once, and back when it comes.
        """
        ends, running = self._ends, self._pool.running
        while ends and ends[0][1] not in running:
            ends.popleft()
        tick_ns = max(self._quiet_ns, self._coalescing.next_ns) if running else None
        times = [at for at in (until_ns, ends[0][0] if ends else None, tick_ns) if at is not None]
        if times and (self._wake_ns is None or min(times) < self._wake_ns):
            self._wake_ns = min(times)
            self._timer.set(self._wake_ns)

    def _wait_s(self, until_ns: int | None) -> float:
        """How long a poll may take that has no timer, -1: for ever."""
        self._set_timer(until_ns)
        at_ns, self._wake_ns = self._wake_ns, None
        return -1.0 if at_ns is None else max(0.0, (at_ns - self._now_ns()) / 1e9)


class _Coalescing:
    """The time that the loop waits for more reads before it takes them: one wake-up costs more than one read.

    `wait_ns`: how long to wait now; `most_ns`: the longest there was; `next_ns`: when to choose again.

    Where the kernel stamps what comes, a read may wait without harm, as long as the next chunk of its stream does not
    join it: half a millisecond at most, and a tenth of the time between the reads of one stream. Below four reads a
    millisecond there is nothing to gather.
    """

    __slots__ = ("_reads", "most_ns", "next_ns", "wait_ns")

    def __init__(self) -> None:
        self.wait_ns = self.most_ns = self.next_ns = self._reads = 0

    def choose(self, now_ns: int, reads: int, streams: int, *, is_stamped: bool) -> None:
        """To be called every 10 ms. `reads`: so far; `streams`: under way; `is_stamped`: all of them, by the kernel."""
        per_ns = (reads - self._reads) / (now_ns - self.next_ns + _TICK_NS)
        self.next_ns, self._reads = now_ns + _TICK_NS, reads
        if per_ns < _LEAST_READS_PER_NS or not is_stamped:
            self.wait_ns = 0
        else:
            self.wait_ns = min(_MOST_GATHER_NS, int(_GAP_SHARE * streams / per_ns))
            self.most_ns = max(self.most_ns, self.wait_ns)
