"""A drill: the server is stopped for a while in the middle of a run, to see what its clients make of it."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator

import psutil

from twinlens.spec.protocol import Stall


@contextlib.contextmanager
def stalled(pid: int, stall: Stall) -> Iterator[None]:
    """Stop a process and all its children `at_s` after entering, and let them go on `for_s` later.

    They go on in any case when the block ends. A process that is gone by then is left in peace.
    """
    over = threading.Event()
    drill = threading.Thread(target=_drill, args=(pid, stall, over), name="stall", daemon=True)
    drill.start()
    try:
        yield
    finally:
        over.set()
        drill.join()


def _drill(pid: int, stall: Stall, over: threading.Event) -> None:
    if over.wait(stall.at_s):
        return
    stopped = [one for one in _tree(pid) if _done(one.suspend)]
    try:
        over.wait(stall.for_s)
    finally:
        for one in stopped:
            _done(one.resume)


def _tree(pid: int) -> list[psutil.Process]:
    try:
        parent = psutil.Process(pid)
        return [parent, *parent.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def _done(act: Callable[[], None]) -> bool:
    try:
        act()
    except psutil.NoSuchProcess:
        return False
    return True
