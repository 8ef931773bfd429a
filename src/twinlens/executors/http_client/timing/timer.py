"""A wake-up at an absolute time, to the microsecond: poll's own timeout counts in milliseconds.

On Linux a timerfd that the loop polls with its sockets (through the C library before Python 3.13).
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
import time
from typing import Any

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
