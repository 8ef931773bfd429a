"""Processes of this machine, known by their id and when they began: an id alone may have been given to another."""

from __future__ import annotations

import contextlib
import os
import platform
from collections.abc import Iterator
from pathlib import Path

_CLOCK_S = 2.5
"""Two processes may read the beginning of a third a whole second apart: Linux adds it to a time of boot in whole
seconds, which changes when the clock is set."""


def is_alive(pid: int, born_s: float) -> bool:
    """Whether the process that began at `born_s`, in epoch seconds, still runs."""
    import psutil

    try:
        process = psutil.Process(pid)
        return bool(abs(process.create_time() - born_s) < _CLOCK_S and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False


def tree(pid: int) -> list[int]:
    """A process and all below it; empty when it is gone."""
    import psutil

    try:
        first = psutil.Process(pid)
        return [pid, *(child.pid for child in first.children(recursive=True))]
    except psutil.Error:
        return []


# This machine, as all processes that share its clock name it.


def this_machine() -> str:
    """The same for all processes that share a monotonic clock, and for no others: this start of the kernel."""
    with contextlib.suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    import uuid

    return f"{platform.node()} {uuid.getnode()}"


# The number of processors this process may use: those of its affinity, not those of the machine.


def usable_processors() -> int:
    """Logical processors, one at least."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def usable_cores(of: int = 0) -> int:
    """Physical cores as far as they may be used, one at least. `of`: so many processors instead of the usable ones."""
    import psutil

    usable = of or usable_processors()
    return min(usable, psutil.cpu_count(logical=False) or usable)


# numpy with one BLAS thread: idle BLAS threads cost 0.1 s at start, and spin beside what is being measured.

_THREADS = "OPENBLAS_NUM_THREADS"


@contextlib.contextmanager
def one_blas_thread() -> Iterator[None]:
    """A numpy first loaded meanwhile, here or in a process started meanwhile, has one thread, unless the user's own
    environment says otherwise. Afterwards the environment is as before: what is measured must not inherit it."""
    if _THREADS in os.environ:
        yield
        return
    os.environ[_THREADS] = "1"
    try:
        yield
    finally:
        os.environ.pop(_THREADS, None)


def load_numpy() -> None:
    """Load it so, before anything else does."""
    with one_blas_thread():
        import numpy  # noqa: F401
