"""Causes that may have held this process up: a hypervisor, a quota, swapping, faults, storage, garbage collection.

Each reading is a difference over the interval since the reading before; what a system does not tell is absent.
"""

from __future__ import annotations

import contextlib
import gc
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

_SCHEDSTAT_S = 1e-9
_QUOTA_FILES = (
    ("/sys/fs/cgroup/cpu.stat", "throttled_usec", 1e-6),
    ("/sys/fs/cgroup/cpu/cpu.stat", "throttled_time", 1e-9),
)


@dataclass(frozen=True, slots=True)
class _Counters:
    """Running totals; None where this system does not count."""

    clock_s: float
    processors_s: float
    steal_s: float | None
    waited_s: float | None
    quota_s: float | None
    garbage_s: float
    major_faults: int | None
    swapped_bytes: int | None
    read_bytes: int | None


class Pressure:
    """Reads the counters; `open` before the first reading and `close` after the last, for the garbage collector's."""

    def __init__(self, process: psutil.Process) -> None:
        self._process = process
        self._before: _Counters | None = None
        self._garbage_s, self._collecting_s = 0.0, 0.0

    def open(self) -> None:
        gc.callbacks.append(self._collected)

    def close(self) -> None:
        with contextlib.suppress(ValueError):
            gc.callbacks.remove(self._collected)

    def read(self, children: Sequence[psutil.Process]) -> dict[str, Any]:
        """The columns of a telemetry row; all absent at the first call, which has nothing to differ from.

        Shares count from 0: `steal_cpu` of all logical processors, `waited_cpu` in processors (two threads that both
        waited all the time are 2), `quota_cpu` and `gc_share` of the interval.
        """
        now = self._counters(children)
        before, self._before = self._before, now
        if before is None or now.clock_s <= before.clock_s:
            return {}
        span_s, processors_s = now.clock_s - before.clock_s, now.processors_s - before.processors_s
        return {
            "steal_cpu": _share(before.steal_s, now.steal_s, processors_s),
            "waited_cpu": _share(before.waited_s, now.waited_s, span_s),
            "quota_cpu": _share(before.quota_s, now.quota_s, span_s),
            "gc_share": _share(before.garbage_s, now.garbage_s, span_s),
            "major_faults": _grown(before.major_faults, now.major_faults),
            "swapped_bytes": _grown(before.swapped_bytes, now.swapped_bytes),
            "read_bytes": _grown(before.read_bytes, now.read_bytes),
        }

    def _counters(self, children: Sequence[psutil.Process]) -> _Counters:
        times = psutil.cpu_times()
        total_s = float(sum(value for name, value in times._asdict().items() if not name.startswith("guest")))
        pids = [self._process.pid, *(child.pid for child in children)]
        return _Counters(
            clock_s=time.monotonic(),
            processors_s=total_s,
            steal_s=getattr(times, "steal", None),
            waited_s=_waited_s(pids),
            quota_s=_quota_s(),
            garbage_s=self._garbage_s,
            major_faults=_major_faults(pids),
            swapped_bytes=_swapped_bytes(),
            read_bytes=_read_bytes(pids),
        )

    def _collected(self, phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            self._collecting_s = time.perf_counter()
        elif self._collecting_s:
            self._garbage_s += time.perf_counter() - self._collecting_s


def _share(before: float | None, now: float | None, of: float) -> float | None:
    if before is None or now is None or of <= 0:
        return None
    return max(0.0, now - before) / of


def _grown(before: int | None, now: int | None) -> int | None:
    return None if before is None or now is None else max(0, now - before)


def _waited_s(pids: Sequence[int]) -> float | None:
    """Seconds that threads of these processes were ready to run and had no processor (Linux schedstat, field 2)."""
    total, seen = 0, False
    for pid in pids:
        for path in Path(f"/proc/{pid}/task").glob("*/schedstat"):
            with contextlib.suppress(OSError, ValueError, IndexError):  # a thread that has just ended
                total += int(path.read_text().split()[1])
                seen = True
    return total * _SCHEDSTAT_S if seen else None


def _quota_s() -> float | None:
    """Seconds for which the control group of a container was held back by its processor quota."""
    for path, name, unit_s in _QUOTA_FILES:
        with contextlib.suppress(OSError, ValueError):
            counters = dict(line.split() for line in Path(path).read_text().splitlines())
            if name in counters:
                return int(counters[name]) * unit_s
    return None


def _major_faults(pids: Sequence[int]) -> int | None:
    """Page faults that had to wait for storage (proc(5), stat, field 12)."""
    total, seen = 0, False
    for pid in pids:
        with contextlib.suppress(OSError, ValueError, IndexError):
            total += int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[9])
            seen = True
    return total if seen else None


def _swapped_bytes() -> int | None:
    """Bytes that the whole machine moved to and from swap."""
    try:
        swap = psutil.swap_memory()
    except (OSError, RuntimeError):
        return None
    return int(swap.sin + swap.sout)


def _read_bytes(pids: Sequence[int]) -> int | None:
    """Bytes that these processes made storage read: what the page cache did not hold."""
    total, seen = 0, False
    for pid in pids:
        with contextlib.suppress(OSError, ValueError, IndexError):
            lines = Path(f"/proc/{pid}/io").read_text().splitlines()
            total += int(next(line.split()[1] for line in lines if line.startswith("read_bytes")))
            seen = True
    return total if seen else None
