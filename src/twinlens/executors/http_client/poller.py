"""A poller of sockets: epoll on Linux, else kqueue or select behind the same four calls."""

from __future__ import annotations

import contextlib
import select
import selectors
from typing import Any

MOST_EVENTS = 256
"""To ask for in one poll."""
READABLE = 1
WRITABLE = 4
"""What `poll` says of a socket; other bits say that its other side has closed or broken it."""

READING = READABLE | 0x2000 | 1 << 31
BOTH = READING | WRITABLE
HELD = 1 << 31
"""What to wait for: what comes (and its end), told once as it comes, so that the kernel need not look again at a socket
that has been emptied. One that has not been is to be asked for again with `modify`. HELD: nothing, for now."""


class _Poller:
    """`selectors` with epoll's words."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()

    def register(self, fd: int, events: int) -> None:
        self._selector.register(fd, _to_selector(events))

    def modify(self, fd: int, events: int) -> None:
        self.unregister(fd)
        if _to_selector(events):
            self.register(fd, events)

    def unregister(self, fd: int) -> None:
        with contextlib.suppress(KeyError):  # nothing is waited for of one that is held
            self._selector.unregister(fd)

    def poll(self, timeout: float, most: int) -> list[tuple[int, int]]:
        ready = self._selector.select(None if timeout < 0 else timeout)
        return [(key.fd, _from_selector(events)) for key, events in ready]

    def close(self) -> None:
        self._selector.close()


def poller() -> Any:
    """The best one here: `register`, `modify`, `unregister`, `poll(timeout_s, most)` and `close`."""
    if hasattr(select, "epoll") and (select.EPOLLIN, select.EPOLLOUT) == (READABLE, WRITABLE):
        return select.epoll()
    return _Poller()


def _to_selector(events: int) -> int:
    return (selectors.EVENT_READ if events & READABLE else 0) | (selectors.EVENT_WRITE if events & WRITABLE else 0)


def _from_selector(events: int) -> int:
    return (READABLE if events & selectors.EVENT_READ else 0) | (WRITABLE if events & selectors.EVENT_WRITE else 0)
