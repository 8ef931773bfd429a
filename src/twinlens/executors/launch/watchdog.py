"""A process between Twinlens and a server it started: nothing of the server outlives either of them.

Run by path with a bare interpreter (standard library only): `watchdog.py LOG GRACE_S CPUS COMMAND…`. It starts the
command on those processors ("0,2"; empty: on any) in a process group of its own, says {"pid": …} on its output, ends
it when its input closes (Twinlens is gone, however it went, or asks) or a signal comes: SIGTERM to the group, SIGKILL
after the grace. On Linux it adopts what the server leaves behind, so that children that made groups of their own end
too, and the server dies if the guard does.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import signal
import subprocess
import sys
import time

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_POLL_S, _KILL_S = 0.05, 15.0


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def _die_with_guard() -> None:
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _processes() -> list[tuple[int, int, bool]]:
    """(pid, parent, whether it is a zombie) of every process; empty where there is no /proc."""
    processes = []
    for name in os.listdir("/proc") if os.path.isdir("/proc") else ():
        if name.isdigit():
            with contextlib.suppress(OSError, ValueError, IndexError), open(f"/proc/{name}/stat", "rb") as file:
                state, parent, *_ = file.read().rpartition(b")")[2].split()
                processes.append((int(name), int(parent), state == b"Z"))
    return processes


def _descendants() -> list[int]:
    """Everything alive below this process, orphans that came to it included."""
    children: dict[int, list[int]] = {}
    for pid, parent, is_zombie in _processes():
        if not is_zombie:
            children.setdefault(parent, []).append(pid)
    descendants, heap = list[int](), [os.getpid()]
    while heap:
        below = children.get(heap.pop(), [])
        descendants += below
        heap += below
    return descendants


def _reap() -> None:
    """Take note of adopted children that have ended. Only once the server's own end is known."""
    for pid, parent, is_zombie in _processes():
        if is_zombie and parent == os.getpid():
            with contextlib.suppress(OSError):
                os.waitpid(pid, os.WNOHANG)


def _group_lives(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except OSError:
        return False
    return True


def _signal(pids: list[int], group: int, number: int) -> None:
    with contextlib.suppress(OSError):
        os.killpg(group, number)
    for pid in pids:
        with contextlib.suppress(OSError):
            os.kill(pid, number)


def _stop(server: subprocess.Popen[bytes], grace_s: float) -> None:
    polite_until = time.monotonic() + grace_s
    _signal([], server.pid, signal.SIGTERM)
    while time.monotonic() < polite_until and server.poll() is None:
        time.sleep(_POLL_S)
    killing_until = time.monotonic() + _KILL_S
    while server.poll() is None or _descendants() or _group_lives(server.pid):
        _signal(_descendants(), server.pid, signal.SIGKILL)
        time.sleep(_POLL_S / 5)
        if server.poll() is not None:
            _reap()
        if time.monotonic() > killing_until:
            return  # stuck inside the kernel: it ends when that lets go of it


def _watch(server: subprocess.Popen[bytes]) -> None:
    """Until the server has ended or the input has."""
    files, period_s = [0], 0.2
    if hasattr(os, "pidfd_open"):
        with contextlib.suppress(OSError):
            files.append(os.pidfd_open(server.pid))
            period_s = 3600.0  # nothing to poll: both ends wake us
    while server.poll() is None:
        readable, _, _ = select.select(files, [], [], period_s)
        if 0 in readable and not os.read(0, 64):
            return


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def main(log: str, grace_s: float, cpus: str, command: list[str]) -> int:
    """Start, watch, end. Returns 0: how the server ended is said as a line of its own."""
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, _interrupt)
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    with open(log, "ab") as file, open(os.devnull, "rb") as nothing:
        try:
            if cpus:
                os.sched_setaffinity(0, map(int, cpus.split(",")))  # what the server starts inherits it too
            server = subprocess.Popen(
                command, stdin=nothing, stdout=file, stderr=file, start_new_session=True, preexec_fn=_die_with_guard
            )
        except (OSError, subprocess.SubprocessError) as wrong:
            os.write(1, json.dumps({"failed": str(wrong)}).encode() + b"\n")
            return 0
    try:
        os.write(1, json.dumps({"pid": server.pid}).encode() + b"\n")
        _watch(server)
    except (KeyboardInterrupt, OSError):
        pass
    finally:
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)
        _stop(server, grace_s)
    with contextlib.suppress(OSError):
        os.write(1, json.dumps({"exit": server.returncode}).encode() + b"\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], float(sys.argv[2]), sys.argv[3], sys.argv[4:]))
