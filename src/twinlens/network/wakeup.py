"""A poller of sockets: epoll on Linux, else kqueue or select behind the same four calls."""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import selectors
import sys
import time
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


_ABSOLUTE = 1
_NONBLOCK = os.O_NONBLOCK | getattr(os, "O_CLOEXEC", 0)


class _Timespec(ctypes.Structure):
    _fields_ = (("s", ctypes.c_long), ("ns", ctypes.c_long))


class _Itimerspec(ctypes.Structure):
    _fields_ = (("interval", _Timespec), ("value", _Timespec))


def _c_library() -> Any:
    if not sys.platform.startswith("linux") or ctypes.sizeof(ctypes.c_long) != 8:
        return None
    library = ctypes.CDLL(None, use_errno=True)
    return library if hasattr(library, "timerfd_create") else None


class Timer:
    """One alarm. `fd`: becomes readable at the time set; None where there are no timerfds, and the loop polls with a
    timeout instead."""

    def __init__(self) -> None:
        self._library = _c_library()
        self._spec = _Itimerspec()
        self._set_ns: int | None = None
        self.fd: int | None = None
        if self._library is not None:
            fd = self._library.timerfd_create(time.CLOCK_MONOTONIC, _NONBLOCK)
            self.fd = fd if fd >= 0 else None

    def set(self, at_ns: int | None) -> None:
        """Wake at a time of the monotonic clock; None: never. Setting the same time again costs nothing."""
        if at_ns == self._set_ns or self.fd is None:
            return
        self._set_ns = at_ns
        # A time in the past fires at once, but zero disarms.
        s, ns = divmod(max(1, at_ns), 1_000_000_000) if at_ns is not None else (0, 0)
        self._spec.value.s, self._spec.value.ns = s, ns
        self._library.timerfd_settime(self.fd, _ABSOLUTE, ctypes.byref(self._spec), None)

    def heard(self) -> None:
        """It has fired: silence it."""
        self._set_ns = None
        if self.fd is not None:
            with contextlib.suppress(BlockingIOError):
                os.read(self.fd, 8)

    def close(self) -> None:
        if self.fd is not None:
            os.close(self.fd)
            self.fd = None
