"""Interrupts that come more than once: a terminal tells every process, then those who wait for one pass it on, and a
parent that dies tells its children again. The first ends what is going on; the next must not cut short the tidying up.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from typing import Any

_INTERRUPTS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_inside = False


@contextlib.contextmanager
def interrupt_once() -> Iterator[None]:
    """Meanwhile be interrupted once only; within another one it changes nothing."""
    global _inside
    if _inside:
        yield
        return

    def first(*_: object) -> None:
        for number in _INTERRUPTS:
            signal.signal(number, signal.SIG_IGN)
        raise KeyboardInterrupt

    with _hearing(first) as is_heard:
        _inside = _inside or is_heard
        try:
            yield
        finally:
            if is_heard:
                _inside = False


@contextlib.contextmanager
def raising_interrupts() -> Iterator[None]:
    """Meanwhile a request to stop, or the end of the terminal, is what Ctrl-C is."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with _hearing(interrupt):
        yield


@contextlib.contextmanager
def ignore_interrupts() -> Iterator[None]:
    """Meanwhile hear no interrupt: for what is short and must be done."""
    with _hearing(signal.SIG_IGN):
        yield


@contextlib.contextmanager
def _hearing(handler: Any) -> Iterator[bool]:
    """Yields whether signals are this thread's to hear. One that is ignored (nohup, a background job) stays so."""
    if threading.current_thread() is not threading.main_thread():  # signals are the main thread's
        yield False
        return
    heard = [number for number in _INTERRUPTS if signal.getsignal(number) not in (signal.SIG_IGN, None)]
    before = {number: signal.signal(number, handler) for number in heard}
    try:
        yield True
    finally:
        for number, known in before.items():
            signal.signal(number, known)
