"""Fault injection: pause the server for a while in the middle of a run, to see how its clients record it."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator

import psutil

from twinlens.errors import BadInput
from twinlens.executors.registry import launches
from twinlens.record.sections import Running
from twinlens.spec.protocol import Stall
from twinlens.spec.study import RunSpec


def refuse_stall_elsewhere(spec: RunSpec) -> None:
    """Raises BadInput for a stall of a server that is not ours to stop."""
    if spec.protocol.stall is not None and not launches(spec.executor.kind):
        raise BadInput(
            f"protocol.stall stops a server that Twinlens launches, and {spec.executor.kind} launches none; "
            "leave it out or take transformers-serve",
            code="TL202",
        )


def injected_fault(running: Running | None, stall: Stall | None) -> contextlib.AbstractContextManager[None]:
    """The stall that was asked for, of the server that is up; nothing where none was."""
    if running is None or stall is None:
        return contextlib.nullcontext()
    return paused(running.pid, stall)


@contextlib.contextmanager
def paused(pid: int, stall: Stall) -> Iterator[None]:
    """Stop a process and all its children `at_s` after entering, and let them go on `for_s` later.

    They go on in any case when the block ends. A process that is gone by then is left in peace.
    """
    over = threading.Event()
    injected_fault = threading.Thread(target=_inject, args=(pid, stall, over), name="stall", daemon=True)
    injected_fault.start()
    try:
        yield
    finally:
        over.set()
        injected_fault.join()


def _inject(pid: int, stall: Stall, over: threading.Event) -> None:
    if over.wait(stall.at_s):
        return
    stopped = [process for process in _tree(pid) if _done(process.suspend)]
    try:
        over.wait(stall.for_s)
    finally:
        for process in stopped:
            _done(process.resume)


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
