"""All connections to one server: opened, watched, kept while idle, dropped."""

from __future__ import annotations

from typing import Any

from twinlens.network.connection import OUT_OF, READ_BYTES, Connection
from twinlens.network.counts import Counts
from twinlens.network.exchange import Exchange
from twinlens.network.limits import make_room
from twinlens.network.target import Address
from twinlens.network.timestamp import stamp_keeper
from twinlens.network.wakeup import BOTH, HELD, READING


class OutOfResources(Exception):
    """This machine cannot open another connection; the words say what ran out."""


class Connections:
    """`by_fd`: those that the poller watches, by descriptor."""

    def __init__(self, address: Address, poller: Any, counts: Counts, *, stamps: bool) -> None:
        make_room()
        self._keeper = stamp_keeper() if stamps else None
        self._address, self._poller, self._counts, self._stamps = address, poller, counts, stamps
        self._idle: list[Connection] = []
        self.by_fd: dict[int, Connection] = {}

    def idle(self) -> Connection | None:
        """One that has carried an answer and waits for a request, taken out; None: there is none."""
        return self._idle.pop() if self._idle else None

    def open(self) -> tuple[Connection, str | None]:
        """A new connection, and why there can be none. Raises OutOfResources."""
        try:
            connection = Connection(self._address, stamps=self._stamps)
            why = connection.connect(self._address)
        except OSError as error:
            if error.errno in OUT_OF:
                raise OutOfResources(error.strerror) from error
            raise
        self._counts.connects += 1
        self._counts.unstamped_connections += not connection.has_stamps
        return connection, why

    def watch(self, connection: Connection) -> None:
        """Have the poller tell of what comes, and of room for what is still to be sent."""
        events = BOTH if connection.out else READING
        if connection.fd not in self.by_fd:
            self.by_fd[connection.fd] = connection
            self._poller.register(connection.fd, events)
        elif events != READING:
            self._poller.modify(connection.fd, events)

    def watch_again(self, connection: Connection) -> None:
        """Have what is there already told of once more: the poller says only once that something has come."""
        self._poller.modify(connection.fd, BOTH if connection.out else READING)

    def read_on(self, connection: Connection, exchange: Exchange, *, is_full: bool) -> None:
        """There may be more, or the end.

        Not of a server that sends faster than its answer is understood, or that would fill the memory.
        """
        if is_full:
            if connection.read_bytes == READ_BYTES[-1] and exchange.is_queued:
                connection.is_held = True
                self._poller.modify(connection.fd, HELD)
                return
            connection.read_more()
        self.watch_again(connection)

    def release(self, connection: Connection) -> None:
        """What was held back may be read: what came before it is understood."""
        if connection.is_held:
            connection.is_held = False
            self.watch_again(connection)

    def keep(self, connection: Connection) -> None:
        """It has carried an answer and may carry another."""
        connection.is_used = True
        self.release(connection)
        self._idle.append(connection)

    def drop(self, connection: Connection) -> None:
        """Close it, wherever it stands."""
        if self.by_fd.get(connection.fd) is connection:
            del self.by_fd[connection.fd]
            self._poller.unregister(connection.fd)
        if connection in self._idle:
            self._idle.remove(connection)
        connection.close()

    def close(self) -> None:
        """Close all of them."""
        for connection in self.by_fd.values():
            connection.close()
        self.by_fd.clear()
        self._idle.clear()
        if self._keeper is not None:
            self._keeper.close()
