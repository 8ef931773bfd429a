"""Exchanges under way: which connection carries each, what of them is still to be understood, and how each ends."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from twinlens.network.connection import Connection
from twinlens.network.connections import Connections
from twinlens.network.counts import Counts
from twinlens.network.ended import Ended
from twinlens.network.exchange import Exchange
from twinlens.record.request import Loss


class InFlight:
    """`running`: the connection of each exchange, by its key. `queue`: what has come and is to be understood.

    `near`: connections whose answers are about to end and may be followed at once, by descriptor. `ended`: not handed
    out yet.
    """

    def __init__(self, connections: Connections, counts: Counts, now_ns: Callable[[], int]) -> None:
        self._connections, self._counts, self._now_ns = connections, counts, now_ns
        self.running: dict[int, Connection] = {}
        self.queue: deque[tuple[Connection, Exchange]] = deque()
        self.near: dict[int, Connection] = {}
        self.ended: list[Ended] = []
        self._parted = 0  # complete and not yet understood, on connections that have another exchange

    def __len__(self) -> int:
        return len(self.running) + self._parted + len(self.ended)

    def take_ended(self) -> list[Ended]:
        """What has ended and was not handed out yet."""
        ended, self.ended = self.ended, []
        return ended

    def carry(self, connection: Connection | None, exchange: Exchange, payload: bytes) -> None:
        """Send a request, on a new connection where none is given. Raises OutOfResources."""
        why = None
        if connection is None:
            connection, why = self._connections.open()
        self.running[exchange.key] = connection
        connection.exchange = exchange
        try:
            if why is None:
                connection.queue(payload)
                connection.push()
                self._connections.watch(connection)
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
                self._connections.release(connection)

    def _look_at_parted(self, connection: Connection, exchange: Exchange) -> None:
        if exchange.look():
            self._parted -= 1
            self.ended.append(exchange.ended(exchange.over_ns))
            exchange.over_ns = 0
        else:
            self.queue_look(connection, exchange)

    def abandon(self, why: str) -> None:
        """End everything as it stands."""
        for connection, exchange in [pair for pair in self.queue if pair[1].over_ns]:
            while exchange.over_ns:  # the end of the one before is when the next was intended
                self.look(connection, exchange, follows=False)
        for connection in list(self.running.values()):
            self.fail(connection, why)

    def fail(self, connection: Connection, why: str, loss: Loss | None = None) -> None:
        """Its exchange ends here: with what is wrong already, or else for this reason."""
        assert connection.exchange is not None
        connection.exchange.give_up(why, loss)
        self._finish(connection)

    def closed(self, connection: Connection) -> None:
        """The other side has closed the connection."""
        exchange = connection.exchange
        if exchange is None:
            self._connections.drop(connection)
        elif not self._again(connection, exchange):
            exchange.lose()
            self.queue_look(connection, exchange)

    def lost(self, connection: Connection, error: OSError) -> None:
        """The connection is broken, or never came to be."""
        exchange = connection.exchange
        if exchange is None:
            self._connections.drop(connection)
        elif connection.is_connecting:
            self.fail(connection, f"cannot connect: {error.strerror or error}", "never open")
        elif not self._again(connection, exchange):
            exchange.lose(f"the connection broke: {error.strerror or error}")
            self.queue_look(connection, exchange)

    def writable(self, connection: Connection) -> None:
        """It is connected, or there is room for more of the request."""
        if connection.is_connecting and (why := connection.connected()):
            self.fail(connection, why, "never open")
            return
        try:
            if connection.push():
                self._connections.watch_again(connection)
        except OSError as error:
            self.lost(connection, error)

    def decrypt(self, connection: Connection, cipher: bytes) -> bytes:
        """What it says in plain bytes; none where there is none yet, or the connection broke over it."""
        assert connection.tls is not None
        try:
            plain, out = connection.tls.read(cipher)
            connection.out += out
            if not connection.push():
                self._connections.watch_again(connection)
        except OSError as error:  # of which ssl.SSLError is one
            self.lost(connection, error)
            return b""
        return plain

    def _finish(self, connection: Connection) -> None:
        """The exchange of this connection is over; it goes back to the idle ones if it can be used again."""
        exchange, connection.exchange = connection.exchange, None
        self.near.pop(connection.fd, None)
        assert exchange is not None
        self.running.pop(exchange.key, None)
        self.ended.append(exchange.ended(self._now_ns()))
        if exchange.keeps_alive and not connection.out:
            self._connections.keep(connection)
        else:
            self._connections.drop(connection)

    def _again(self, connection: Connection, exchange: Exchange) -> bool:
        """An idle connection may be closed by the server just as we use it: nobody's fault, so ask once more."""
        if not connection.is_used or exchange.has_begun:
            return False
        connection.exchange = None
        self._connections.drop(connection)
        self._counts.retries += 1
        self.carry(None, exchange, connection.payload)
        return True
