"""The process that measures a run, so that a reader can tell a running run from one whose process is gone."""

from __future__ import annotations

import hashlib
import os
import platform
from pathlib import Path
from typing import Any

_BOOT = Path("/proc/sys/kernel/random/boot_id")


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
