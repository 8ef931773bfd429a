"""Requests written ahead, in the order in which a closed loop will need them."""

from __future__ import annotations

from collections import deque

from twinlens.executors.http_client.exchange import Exchange
from twinlens.schedule.request import ScheduledRequest

_MOST_BYTES = 16 * 2**20


class Stock:
    """Of each: its bytes, and what will take its answer."""

    def __init__(self) -> None:
        self._written: deque[tuple[int, bytes, Exchange]] = deque()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._written)

    @property
    def is_full(self) -> bool:
        """Whether more would take too much memory."""
        return self._bytes >= _MOST_BYTES

    def add(self, scheduled: ScheduledRequest, payload: bytes, exchange: Exchange) -> None:
        """Keep one more."""
        self._written.append((scheduled.number, payload, exchange))
        self._bytes += len(payload)

    def take(self, scheduled: ScheduledRequest) -> tuple[bytes, Exchange] | None:
        """The first, if it is this one."""
        if not self._written or self._written[0][0] != scheduled.number:
            return None
        _, payload, exchange = self._written.popleft()
        self._bytes -= len(payload)
        return payload, exchange

    def clear(self) -> None:
        """Throw all away."""
        self._written.clear()
        self._bytes = 0
