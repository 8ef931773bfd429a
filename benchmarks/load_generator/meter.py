"""Runs a command and says what its whole process tree cost: `python meter.py COMMAND…` prints one JSON line at its end.

Orphans come to this process (it is their subreaper), so the time of workers that outlive their parent counts too.
Memory is the largest sum of proportional set sizes, looked at twice a second: what is shared counts once.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

_SUBREAPER = 36
_LATE_S = 10.0


def main(words: list[str]) -> int:
    """Exit code of the command; its output goes to stderr."""
    ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)
    peak, is_over = [0], threading.Event()
    begin_s = time.monotonic()
    process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=sys.stderr)
    watcher = threading.Thread(target=_watch, args=(peak, is_over), daemon=True)
    watcher.start()
    code = process.wait()
    wall_s = time.monotonic() - begin_s
    _reap()
    is_over.set()
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(json.dumps({"cpu_s": used.ru_utime + used.ru_stime, "wall_s": wall_s, "peak_mb": peak[0] / 2**20}))
    return code


def _reap() -> None:
    """Wait for what is left, and end it if it stays."""
    until_s = time.monotonic() + _LATE_S
    while True:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if not pid:
            if time.monotonic() > until_s:
                for left in _children(os.getpid()):
                    os.kill(left, signal.SIGKILL)
            time.sleep(0.05)


def _watch(peak: list[int], is_over: threading.Event) -> None:
    while not is_over.wait(0.5):
        peak[0] = max(peak[0], sum(map(_pss_bytes, _descendants(os.getpid()))))


def _descendants(pid: int) -> list[int]:
    found = _children(pid)
    return found + [below for child in found for below in _descendants(child)]


def _children(pid: int) -> list[int]:
    try:
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
        return [int(child) for task in tasks for child in (task / "children").read_text().split()]
    except OSError:
        return []


def _pss_bytes(pid: int) -> int:
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
