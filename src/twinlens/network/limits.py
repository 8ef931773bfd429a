"""The number of connections this machine can hold: checked before a run, not discovered as a slow server."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from twinlens.errors import BadInput

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

_OTHER_FILES = 64
_ROOM_FILES = 16_384
_PORTS = Path("/proc/sys/net/ipv4/ip_local_port_range")


def most_connections() -> int | None:
    """Connections that this process can have open to one server; None where nothing says.

    Raises the soft limit of open files to the hard one. Each connection takes a file descriptor and a local port.
    """
    found = [limit for limit in (_files(), _ports()) if limit is not None]
    return min(found) if found else None


def make_room() -> None:
    """Have the kernel make its table of this process's open files large now, where it can (Linux).

    It doubles the table at 64, 128, 256 ... files, and in a process with several threads waits 10 to 40 ms each time
    (synchronize_rcu in expand_fdtable, fs/file.c), in which no request leaves. It never shrinks it again.
    """
    if fcntl is None:
        return
    most = _files()
    room = _ROOM_FILES if most is None else min(_ROOM_FILES, most)
    with contextlib.suppress(OSError), open(os.devnull, "rb") as some:
        os.close(fcntl.fcntl(some.fileno(), fcntl.F_DUPFD_CLOEXEC, room - 1))


def refuse_too_many(concurrent: int) -> None:
    """Raises BadInput (TL214) where so many requests cannot be in flight at once from here."""
    most = most_connections()
    if most is not None and concurrent > most:
        raise BadInput(
            f"{concurrent} requests at once need as many connections, and this machine allows {most} "
            f"(open files and local ports); raise `ulimit -n` or use several client processes",
            code="TL214",
        )


def too_many(in_flight: int, why: str) -> BadInput:
    """What to raise when it happens in mid-run."""
    return BadInput(
        f"the client could open no more connections with {in_flight} requests in flight ({why}); raise `ulimit -n`, or "
        "use several client processes: a run whose load was capped by its client measures the client",
        code="TL214",
    )


def _files() -> int | None:
    try:
        import resource
    except ImportError:
        return None
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            soft = hard
    return None if soft == resource.RLIM_INFINITY else max(0, soft - _OTHER_FILES)


def _ports() -> int | None:
    try:
        first, last = map(int, _PORTS.read_text().split())
    except (OSError, ValueError):
        return None
    return last - first + 1
