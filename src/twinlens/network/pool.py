"""All connections to one server, and the life of each: opened, written, read, understood, kept or dropped.

The functions stand in this order. Each changes the state of one connection (connection.py) and says what the poller is
to tell of next; when each is called is event_loop.py's.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from twinlens.network.answer.ended import Ended
from twinlens.network.connection import OUT_OF, READ_BYTES, Connection, Exchange
from twinlens.network.limits import make_room
from twinlens.network.target import Address
from twinlens.network.timestamp import stamp_keeper
from twinlens.network.wakeup import BOTH, HELD, READING
from twinlens.record.request import Loss


class OutOfResources(Exception):
    """This machine cannot open another connection; the words say what ran out."""


@dataclass(slots=True)
class Counts:
    """`retries`: requests sent again because an idle connection had just been closed.

    `gather_ns`: the longest that the loop has waited on purpose, for reads to come together.
    """

    reads: int = 0
    gather_ns: int = 0
    connects: int = 0
    retries: int = 0
    unstamped_connections: int = 0


class Pool:
    """`by_fd`: connections that the poller watches, by descriptor. `running`: that of each exchange, by its key.

    `queue`: what has come and is to be understood. `near`: connections whose answers are about to end and may be
    followed at once, by descriptor. `ended`: exchanges that are over and not handed out yet.
    """

    def __init__(self, address: Address, poller: Any, now_ns: Callable[[], int], *, stamps: bool) -> None:
        make_room()
        self._keeper = stamp_keeper() if stamps else None
        self._address, self._poller, self._now_ns, self._stamps = address, poller, now_ns, stamps
        self.counts = Counts()
        self.by_fd: dict[int, Connection] = {}
        self.running: dict[int, Connection] = {}
        self.queue: deque[tuple[Connection, Exchange]] = deque()
        self.near: dict[int, Connection] = {}
        self.ended: list[Ended] = []
        self._idle: list[Connection] = []
        self._parted = 0  # complete and not yet understood, on connections that have another exchange

    def __len__(self) -> int:
        """Exchanges whose end has not been handed out."""
        return len(self.running) + self._parted + len(self.ended)

    def take_ended(self) -> list[Ended]:
        """What has ended and was not handed out yet."""
        ended, self.ended = self.ended, []
        return ended

    # 1. A request: on an idle connection, on a new one, or behind an answer that is complete.

    def idle(self) -> Connection | None:
        """One that has carried an answer and waits for a request, taken out; None: there is none."""
        return self._idle.pop() if self._idle else None

    def carry(self, connection: Connection | None, exchange: Exchange, payload: bytes) -> None:
        """Send a request, on a new connection where none is given. Raises OutOfResources."""
        why = None
        if connection is None:
            connection, why = self._open()
        self.running[exchange.key] = connection
        connection.exchange = exchange
        try:
            if why is None:
                connection.queue(payload)
                connection.push()
                self._watch(connection)
            else:
                self.fail(connection, why, "never open")
        except OSError as error:
            self.lost(connection, error)

    def replace(self, connection: Connection, before: Exchange, after: Exchange) -> None:
        """The answer of `before` is complete, and the request of `after` has been sent behind it."""
        self.near.pop(connection.fd, None)
        self.queue_look(connection, before)
        before.part(after.sent_ns)
        self.running.pop(before.key, None)
        self._parted += 1
        connection.exchange, connection.is_used = after, True
        self.running[after.key] = connection

    def _open(self) -> tuple[Connection, str | None]:
        """A new connection, and why there can be none. Raises OutOfResources."""
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

    def _watch(self, connection: Connection) -> None:
        """Have the poller tell of what comes, and of room for what is still to be sent."""
        events = BOTH if connection.out else READING
        if connection.fd not in self.by_fd:
            self.by_fd[connection.fd] = connection
            self._poller.register(connection.fd, events)
        elif events != READING:
            self._poller.modify(connection.fd, events)

    # 2. Written and read, as the poller tells.

    def writable(self, connection: Connection) -> None:
        """It is connected, or there is room for more of the request."""
        if connection.is_connecting and (why := connection.connected()):
            self.fail(connection, why, "never open")
            return
        try:
            if connection.push():
                self.watch_again(connection)
        except OSError as error:
            self.lost(connection, error)

    def read_on(self, connection: Connection, exchange: Exchange, *, is_full: bool) -> None:
        """There may be more to read, or the end.

        Not of a server that sends faster than its answer is understood, or that would fill the memory.
        """
        if is_full:
            if connection.read_bytes == READ_BYTES[-1] and exchange.is_queued:
                connection.is_held = True
                self._poller.modify(connection.fd, HELD)
                return
            connection.read_more()
        self.watch_again(connection)

    def watch_again(self, connection: Connection) -> None:
        """Have what is there already told of once more: the poller says only once that something has come."""
        self._poller.modify(connection.fd, BOTH if connection.out else READING)

    def decrypt(self, connection: Connection, cipher: bytes) -> bytes:
        """What it says in plain bytes; none where there is none yet, or the connection broke over it."""
        assert connection.tls is not None
        try:
            plain, out = connection.tls.read(cipher)
            connection.out += out
            if not connection.push():
                self.watch_again(connection)
        except OSError as error:  # of which ssl.SSLError is one
            self.lost(connection, error)
            return b""
        return plain

    def closed(self, connection: Connection) -> None:
        """The other side has closed the connection."""
        exchange = connection.exchange
        if exchange is None:
            self._drop(connection)
        elif not self._again(connection, exchange):
            exchange.lose()
            self.queue_look(connection, exchange)

    def lost(self, connection: Connection, error: OSError) -> None:
        """The connection is broken, or never came to be."""
        exchange = connection.exchange
        if exchange is None:
            self._drop(connection)
        elif connection.is_connecting:
            self.fail(connection, f"cannot connect: {error.strerror or error}", "never open")
        elif not self._again(connection, exchange):
            exchange.lose(f"the connection broke: {error.strerror or error}")
            self.queue_look(connection, exchange)

    def _again(self, connection: Connection, exchange: Exchange) -> bool:
        """An idle connection may be closed by the server just as we use it: nobody's fault, so ask once more."""
        if not connection.is_used or exchange.has_begun:
            return False
        connection.exchange = None
        self._drop(connection)
        self.counts.retries += 1
        self.carry(None, exchange, connection.payload)
        return True

    # 3. Understood.

    def queue_look(self, connection: Connection, exchange: Exchange) -> None:
        """Have `look` understand what has come; that of an answer about to end first, so that its end is seen."""
        if not exchange.is_queued:
            exchange.is_queued = True
            if exchange.is_near:
                self.queue.appendleft((connection, exchange))
            else:
                self.queue.append((connection, exchange))

    def look(self, connection: Connection, exchange: Exchange, *, follows: bool) -> None:
        """Understand some of what has come. `follows`: whether requests may leave as an answer is seen to end."""
        exchange.is_queued = False
        if exchange.over_ns:
            self._look_at_parted(connection, exchange)
        elif connection.exchange is exchange:
            connection.payload = b""  # an answer has begun: it is not asked for again
            if exchange.look():
                self._finish(connection)
                return
            if exchange.is_near and follows and connection.tls is None:
                self.near[connection.fd] = connection
            if exchange.is_behind:
                self.queue_look(connection, exchange)
            else:
                self._release(connection)

    def _look_at_parted(self, connection: Connection, exchange: Exchange) -> None:
        if exchange.look():
            self._parted -= 1
            self.ended.append(exchange.ended(exchange.over_ns))
            exchange.over_ns = 0
        else:
            self.queue_look(connection, exchange)

    def _release(self, connection: Connection) -> None:
        """What was held back may be read: what came before it is understood."""
        if connection.is_held:
            connection.is_held = False
            self.watch_again(connection)

    # 4. Over: kept for another request, or dropped.

    def fail(self, connection: Connection, why: str, loss: Loss | None = None) -> None:
        """Its exchange ends here: with what is wrong already, or else for this reason."""
        assert connection.exchange is not None
        connection.exchange.give_up(why, loss)
        self._finish(connection)

    def abandon(self, why: str) -> None:
        """End everything as it stands."""
        for connection, exchange in [pair for pair in self.queue if pair[1].over_ns]:
            while exchange.over_ns:  # the end of the one before is when the next was intended
                self.look(connection, exchange, follows=False)
        for connection in list(self.running.values()):
            self.fail(connection, why)

    def _finish(self, connection: Connection) -> None:
        """The exchange of this connection is over; it goes back to the idle ones if it can be used again."""
        exchange, connection.exchange = connection.exchange, None
        self.near.pop(connection.fd, None)
        assert exchange is not None
        self.running.pop(exchange.key, None)
        self.ended.append(exchange.ended(self._now_ns()))
        if exchange.keeps_alive and not connection.out:
            connection.is_used = True
            self._release(connection)
            self._idle.append(connection)
        else:
            self._drop(connection)

    def _drop(self, connection: Connection) -> None:
        """Close it, wherever it stands."""
        if self.by_fd.get(connection.fd) is connection:
            del self.by_fd[connection.fd]
            self._poller.unregister(connection.fd)
        if connection in self._idle:
            self._idle.remove(connection)
        connection.close()

    def close(self) -> None:
        """Close all of them; what still runs is lost (see `abandon`)."""
        for connection in self.by_fd.values():
            connection.close()
        self.by_fd.clear()
        self.running.clear()
        self._idle.clear()
        if self._keeper is not None:
            self._keeper.close()
