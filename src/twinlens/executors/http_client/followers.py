"""Requests that leave as the answers before them are seen to end, before anything else is read or understood."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from socket import MSG_PEEK
from typing import Any

from twinlens.executors.http_client.answer.chunk_end import END
from twinlens.executors.http_client.connection import READ_BYTES, Connection
from twinlens.executors.http_client.connections import Connections
from twinlens.executors.http_client.deadlines import Deadlines
from twinlens.executors.http_client.exchange import Exchange
from twinlens.executors.http_client.in_flight import InFlight
from twinlens.executors.http_client.poller import MOST_EVENTS, READABLE
from twinlens.executors.http_client.timing.timestamp import ANCILLARY_BYTES, NO_STAMP

_PEEK_BYTES = READ_BYTES[2]  # more than a last token, the reason to end, the counts and the end
_MOST_HELD_NS = 2_000_000  # how long reads wait while answers end, so that few chunks come to share a stamp

Follow = Callable[[int], tuple[int, bytes, Exchange] | None]
"""What comes after the request of a key: a key, its bytes and what takes the answer; None: nothing, or not yet."""


@dataclass(slots=True)
class _Sent:
    """A request that was sent behind the answer to `before`; `error`: what came of it."""

    connection: Connection
    before: Exchange
    after: Exchange
    payload: bytes
    error: OSError | None = None


class Followers:
    """`follow`: who says what comes after an answer; None: nobody, the loop only hands out what has ended."""

    def __init__(
        self,
        connections: Connections,
        in_flight: InFlight,
        deadlines: Deadlines,
        poller: Any,
        now_ns: Callable[[], int],
    ) -> None:
        self._connections, self._in_flight, self._deadlines = connections, in_flight, deadlines
        self._poller, self._now_ns = poller, now_ns
        self._sent: deque[_Sent] = deque()
        self.follow: Follow | None = None

    def send_first(self, ready: list[tuple[int, int]]) -> list[tuple[int, int]]:
        """Send what comes after the answers about to end that do end here; all other events.

        Their last bytes are looked at and left where they are: a read would acknowledge them, for as much as a send
        costs, and what is sent carries the acknowledgement. While answers end, more of them are asked for.
        """
        near, until_ns, others = self._in_flight.near, self._now_ns() + _MOST_HELD_NS, []
        while ready:
            for event in ready:
                connection = near.get(event[0])
                if connection is None or event[1] != READABLE or not self._sees_end(connection):
                    others.append(event)
            if not self._sent:
                break
            self.enter()
            ready = self._poller.poll(0, MOST_EVENTS) if self._now_ns() < until_ns else []
        return others

    def send_after(self, connection: Connection, exchange: Exchange) -> None:
        """Send what comes after an answer whose last bytes have just been read, if it is complete."""
        if exchange.is_complete() and self._send(connection, exchange):
            self.enter()

    def enter(self) -> None:
        """Put what was sent in the place of what it follows."""
        while self._sent:
            sent = self._sent.popleft()
            connection, after, error = sent.connection, sent.after, sent.error
            try:
                connection.drain()
            except OSError as wrong:
                error = error or wrong
            connection.carry(sent.payload)
            self._in_flight.replace(connection, sent.before, after)
            self._deadlines.add(after.key, after.sent_ns)
            if error is not None:
                self._in_flight.lost(connection, error)
            elif connection.out:
                self._connections.watch_again(connection)

    def _sees_end(self, connection: Connection) -> bool:
        """Whether the answer on this connection is seen to end, and has been followed."""
        exchange = connection.exchange
        try:
            data, ancillary, _, _ = connection.recvmsg(_PEEK_BYTES, ANCILLARY_BYTES, MSG_PEEK)
        except OSError:
            return False
        if not data.endswith(END) or exchange is None or not exchange.is_complete(data):
            return False
        if not self._send(connection, exchange):
            return False
        exchange.got += (data, ancillary[0][2] if ancillary else NO_STAMP, self._sent[-1].after.sent_ns)
        connection.unread = len(data)
        return True

    def _send(self, connection: Connection, exchange: Exchange) -> bool:
        """Send what comes after this answer; whether there was something to send."""
        if self.follow is None or connection.out or connection.tls is not None:
            return False
        if (following := self.follow(exchange.key)) is None:
            return False
        key, payload, after = following
        after.key, after.sent_ns = key, self._now_ns()
        self._sent.append(sent := _Sent(connection, exchange, after, payload))
        try:
            connection.push_first(payload)
        except OSError as wrong:
            sent.error = wrong
        return True
