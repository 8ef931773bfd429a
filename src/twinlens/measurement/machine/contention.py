"""Contention on this machine: processes that are not ours, and causes that may have held this process up."""

from __future__ import annotations

import contextlib
import gc
import os
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from twinlens.record.executor.record import Fact, observed, unknown
from twinlens.record.samples import FOREIGN_SHARE
from twinlens.system.nvml import Gpu


@dataclass(frozen=True, slots=True)
class CpuReading:
    """Processor seconds so far, over all logical processors: `busy_s` everybody's, `own_s` ours."""

    busy_s: float
    total_s: float
    own_s: float


def read_cpu(process: psutil.Process | None = None, children: Sequence[psutil.Process] | None = None) -> CpuReading:
    """One reading; two give shares. Ours are this process, `children` (None: all alive) and ended ones."""
    times = psutil.cpu_times()
    total_s = float(sum(value for name, value in times._asdict().items() if not name.startswith("guest")))
    # What a hypervisor took is nobody's on this machine; telemetry has it in a column of its own.
    idle_s = float(times.idle + getattr(times, "iowait", 0.0) + getattr(times, "steal", 0.0))
    own = process or psutil.Process()
    listed = own.children(recursive=True) if children is None else children
    return CpuReading(total_s - idle_s, total_s, _own_s(own, listed))


def _own_s(process: psutil.Process, children: Sequence[psutil.Process]) -> float:
    spent = process.cpu_times()
    total_s = float(spent.user + spent.system + spent.children_user + spent.children_system)
    for child in children:
        try:
            used = child.cpu_times()
        except psutil.Error:
            continue  # it ended between the listing and the question
        total_s += float(used.user + used.system)
    return total_s


def shares(before: CpuReading, after: CpuReading) -> tuple[float, float, float] | None:
    """(ours, everybody's, others') as ratios of all logical processors; None where no time passed."""
    total_s = after.total_s - before.total_s
    if total_s <= 0:
        return None
    own, host = (max(0.0, d) / total_s for d in (after.own_s - before.own_s, after.busy_s - before.busy_s))
    return min(own, 1.0), min(host, 1.0), min(max(0.0, host - own), 1.0)


def foreign_processes(gpus: Sequence[Gpu], ours: Sequence[int] = (), *, in_use: bool = False) -> int | None:
    """Compute processes on these GPUs that are neither ours nor our children's; None if NVML does not tell.

    `ours`: processes of a launched server, which others started. `in_use`: these are the boards that this run computes
    on, so that one of ours must be listed on each: where none is, as in a container, the ids are those of another
    namespace, and nobody's processes can be told from ours.
    """
    own = {os.getpid(), *ours, *(child.pid for child in psutil.Process().children(recursive=True))}
    lists = [gpu.process_ids() for gpu in gpus]
    if any(ids is None or (in_use and own.isdisjoint(ids)) for ids in lists):
        return None
    return len({pid for ids in lists for pid in ids or () if pid not in own})


def tenancy_facts(
    gpus: Sequence[Gpu] = (), window_s: float = 0.15, ours: Sequence[int] = (), *, in_use: bool = False
) -> dict[str, Fact]:
    """Load, processor use by others over `window_s`, foreign GPU processes, and the verdict over them.

    `ours`, `in_use`: as in `foreign_processes`; the processes of a launched server are also none of the others'.
    """
    children = _alive(ours)
    before = read_cpu(children=children)
    psutil.cpu_percent(interval=window_s)  # a pause of that length
    busy = shares(before, read_cpu(children=children))
    foreign_gpu = foreign_processes(gpus, ours, in_use=in_use)
    facts: dict[str, Fact] = {
        "tenancy.load_average": observed([round(load, 2) for load in psutil.getloadavg()], "psutil.getloadavg"),
        "tenancy.foreign_cpu_ratio": unknown("the processor clock did not advance")
        if busy is None
        else observed(round(busy[2], 3), f"psutil.cpu_times over {window_s} s"),
        "tenancy.gpu_processes": unknown("no GPU")
        if not gpus
        else unknown("NVML does not list processes here, or by ids of another namespace")
        if foreign_gpu is None
        else observed(foreign_gpu, "nvmlDeviceGetComputeRunningProcesses"),
    }
    return facts | {
        "tenancy.co_tenants": co_tenants(busy[2] if busy else None, foreign_gpu if gpus else None, bool(gpus))
    }


def _alive(ours: Sequence[int]) -> list[psutil.Process]:
    """Our children, and the processes of a launched server."""
    alive = {child.pid: child for child in psutil.Process().children(recursive=True)}
    for pid in ours:
        with contextlib.suppress(psutil.Error):
            alive[pid] = psutil.Process(pid)
    return list(alive.values())


def co_tenants(foreign_cpu: float | None, foreign_gpu: int | None, has_gpu: bool = False) -> Fact:
    """The verdict "seen" or "none seen", from others' processor use (ratio) and GPU processes (count).

    `has_gpu`: the run has one, so that an unknown count of processes there is said.
    """
    if foreign_cpu is None and foreign_gpu is None:
        return unknown("neither processor use nor GPU processes could be read")
    seen: list[Any] = []
    if foreign_cpu is not None and foreign_cpu > FOREIGN_SHARE:
        seen.append(f"{foreign_cpu:.0%} of the processors used by others")
    if foreign_gpu:
        seen.append(f"{foreign_gpu} other processes on the GPU")
    on_gpu = ", and GPU processes" if foreign_gpu is not None else "; GPU processes are unknown" if has_gpu else ""
    looked = f"processor use by others, limit {FOREIGN_SHARE:.0%}{on_gpu}"
    if foreign_cpu is None:
        looked = "GPU processes; processor use by others is unknown"
    return observed("seen" if seen else "none seen", "; ".join(seen) or looked)


# Causes that may have held this process up: a hypervisor, a quota, swapping, faults, storage, garbage collection.
#
# Each reading is a difference over the interval since the reading before; what a system does not tell is absent.

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


def _summed(paths: Iterable[Path], value: Callable[[str], str]) -> int | None:
    """The sum of one number of each of these files; None where none can be read. A thread may just have ended."""
    found: list[int] = []
    for path in paths:
        with contextlib.suppress(OSError, ValueError, IndexError, StopIteration):
            found.append(int(value(path.read_text())))
    return sum(found) if found else None


def _waited_s(pids: Sequence[int]) -> float | None:
    """Seconds that threads of these processes were ready to run and had no processor (Linux schedstat, field 2)."""
    threads = (path for pid in pids for path in Path(f"/proc/{pid}/task").glob("*/schedstat"))
    waited = _summed(threads, lambda text: text.split()[1])
    return None if waited is None else waited * _SCHEDSTAT_S


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
    return _summed((Path(f"/proc/{pid}/stat") for pid in pids), lambda text: text.rpartition(")")[2].split()[9])


def _swapped_bytes() -> int | None:
    """Bytes that the whole machine moved to and from swap."""
    try:
        swap = psutil.swap_memory()
    except (OSError, RuntimeError):
        return None
    return int(swap.sin + swap.sout)


def _read_bytes(pids: Sequence[int]) -> int | None:
    """Bytes that these processes made storage read: what the page cache did not hold."""
    files = (Path(f"/proc/{pid}/io") for pid in pids)
    return _summed(
        files, lambda text: next(line.split()[1] for line in text.splitlines() if line.startswith("read_bytes"))
    )
