"""Processes of this machine, known by their id and when they began: an id alone may have been given to another."""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_BOOT = Path("/proc/sys/kernel/random/boot_id")
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


# The process that measures a run, so that a reader can tell a running run from one whose process is gone.


def this_process() -> dict[str, Any]:
    """Process number, its start in clock ticks since boot, and digests of the boot and of the host. None: unknown.

    A number is used again, a number with its start is not; after a boot all are gone. The host is the machine's name
    and the namespace in which the number holds: of another one nothing can be said.
    """
    return process_of(os.getpid())


def process_of(pid: int) -> dict[str, Any]:
    """The same of another process of this host, which lives now."""
    return {"pid": pid, "start_ticks": _start_ticks(pid), "boot": _boot(), "host": _host()}


def is_gone(process: Any) -> bool:
    """Whether a process that `this_process` described is surely gone; False where that cannot be told from here."""
    return is_of_this_host(process) and not _lives(process)


def is_here(process: Any) -> bool:
    """Whether a process that `this_process` described surely lives, here."""
    return is_of_this_host(process) and _lives(process)


def is_of_this_host(process: Any) -> bool:
    """Whether a process that `this_process` described was one of this machine, under its name of today."""
    return isinstance(process, dict) and process.get("host") == _host() and isinstance(process.get("pid"), int)


def _lives(process: dict[str, Any]) -> bool:
    if process.get("boot") != _boot():
        return False
    if process.get("start_ticks") is None:
        return _is_there(process["pid"])
    return bool(_start_ticks(process["pid"]) == process["start_ticks"])


def _start_ticks(pid: int | str) -> int | None:
    """When a process began (proc(5), field 22); None for one that is gone or a zombie, and where there is no /proc."""
    try:
        # The name in brackets may hold anything, spaces and brackets too.
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b") ")[2].split()
        return None if fields[0] in (b"Z", b"X") else int(fields[19])
    except (OSError, IndexError, ValueError):
        return None


def _is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True


def _boot() -> str | None:
    try:
        return _digest(_BOOT.read_text())
    except OSError:
        return None


def _host() -> str:
    try:
        space = os.readlink("/proc/self/ns/pid")
    except OSError:
        space = ""
    return _digest(f"{platform.node()}/{space}")


def _digest(text: str) -> str:
    return hashlib.sha256(text.strip().encode()).hexdigest()[:12]
