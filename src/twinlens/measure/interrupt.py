"""Interrupts that come more than once: a terminal tells every process, then those who wait for one pass it on, and a
parent that dies tells its children again. The first ends what is going on; the next must not cut short the tidying up.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from typing import Any

_INTERRUPTS = (signal.SIGINT, signal.SIGTERM)


@contextlib.contextmanager
def told_once() -> Iterator[None]:
    """Meanwhile be interrupted once only."""

    def first(*_: object) -> None:
        for number in _INTERRUPTS:
            signal.signal(number, signal.SIG_IGN)
        raise KeyboardInterrupt

    with _hearing(first):
        yield


@contextlib.contextmanager
def deaf() -> Iterator[None]:
    """Meanwhile hear no interrupt: for what is short and must be done."""
    with _hearing(signal.SIG_IGN):
        yield


@contextlib.contextmanager
def _hearing(handler: Any) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():  # signals are the main thread's
        yield
        return
    before = {number: signal.signal(number, handler) for number in _INTERRUPTS}
    try:
        yield
    finally:
        for number, known in before.items():
            signal.signal(number, known)
