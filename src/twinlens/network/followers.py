"""Requests that leave as the answers before them are seen to end, before anything else is read or understood."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from socket import MSG_PEEK
from typing import Any

from twinlens.network.answer.fast_path import END
from twinlens.network.connection import READ_BYTES, Connection, Exchange
from twinlens.network.pool import Pool
from twinlens.network.timestamp import ANCILLARY_BYTES, NO_STAMP
from twinlens.network.wakeup import MOST_EVENTS, READABLE

_PEEK_BYTES = READ_BYTES[2]  # more than a last token, the reason to end, the counts and the end
_MOST_HELD_NS = 2_000_000  # how long reads wait while answers end, so that few chunks come to share a stamp
_AT_ONCE = 32  # reads between two looks for answers that end
_Event = tuple[int, int]

Follow = Callable[[int], tuple[int, bytes, Exchange] | None]
"""What comes after the request of a key: a key, its bytes and what takes the answer; None: nothing, or not yet."""


class Followers:
    """`follow`: who says what comes after an answer; None: nobody, the loop only hands out what has ended.

    `held`: events that wait while answers end, each with its connection. `will_end`: is told of each that is entered.
    """

    def __init__(
        self,
        pool: Pool,
        poller: Any,
        now_ns: Callable[[], int],
        will_end: Callable[[Exchange], None],
    ) -> None:
        self._pool, self._poller, self._now_ns, self._will_end = pool, poller, now_ns, will_end
        # Sent, or just being sent, and not entered: its connection, the exchange before it, its own, and its bytes.
        self._sent: deque[tuple[Connection, Exchange, Exchange, bytes]] = deque()
        self._errors: dict[int, OSError] = {}  # of sending, by key
        self.held: deque[tuple[_Event, Connection | None]] = deque()
        self._since_ns = 0  # when the first of those held came to be
        self.follow: Follow | None = None

    def send_first(self, ready: list[_Event]) -> list[_Event]:
        """Send what comes after the answers about to end that do end here; some of the other events.

        Their last bytes are looked at and left where they are: a read would acknowledge them, for as much as a send
        costs, and what is sent carries the acknowledgement. What was sent is entered while no other answer ends.
        """
        near, sent, others = self._pool.near, self._sent, list[_Event]()
        poll, now_ns, sends_after = self._poller.poll, self._now_ns, self._sends_after
        until_ns = now_ns() + _MOST_HELD_NS
        while True:
            before = len(sent)
            for event in ready:
                connection = near.get(event[0])
                if connection is None or event[1] != READABLE or not sends_after(connection):
                    others.append(event)
            if not sent or now_ns() >= until_ns:
                break
            if len(sent) == before:
                self._enter_first()
            ready = poll(0, MOST_EVENTS)
        self.enter()
        return others if len(others) <= _AT_ONCE and not self.held else self._some(others)

    def _some(self, others: list[_Event]) -> list[_Event]:
        """The next few of those held and these; the rest is held."""
        by_fd, held = self._pool.by_fd, self.held
        held.extend([(event, by_fd.get(event[0])) for event in others])
        now = self._now_ns()
        if len(held) == len(others):
            self._since_ns = now
        # With very many streams all that waits is read in time, or a chunk would share the stamp of the next.
        at_once = _AT_ONCE if now - self._since_ns < _MOST_HELD_NS else len(held)
        some = [held.popleft() for _ in range(min(len(held), at_once))]
        return [event for event, connection in some if by_fd.get(event[0]) is connection]

    def send_after(self, connection: Connection, exchange: Exchange) -> None:
        """Send what comes after an answer whose last bytes have just been read, if it is complete."""
        if exchange.is_complete() and self._send(connection, exchange):
            self.enter()

    def enter(self) -> None:
        """Note each request that was sent as the one its connection carries now."""
        while self._sent:
            self._enter_first()

    def _enter_first(self) -> None:
        connection, before, after, payload = self._sent.popleft()
        error = self._errors.pop(after.key, None)
        try:
            connection.drain()
        except OSError as wrong:
            error = error or wrong
        connection.carry(payload)
        self._pool.replace(connection, before, after)
        self._will_end(after)
        if error is not None:
            self._pool.lost(connection, error)
        elif connection.out:
            self._pool.watch_again(connection)

    def _sends_after(self, connection: Connection) -> bool:
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
        exchange.got += (data, ancillary[0][2] if ancillary else NO_STAMP, self._sent[-1][2].sent_ns)
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
        self._sent.append((connection, exchange, after, payload))
        try:
            connection.push_first(payload)
        except OSError as wrong:
            self._errors[key] = wrong
        return True
