"""Contention on this machine: processor use and accelerator processes that are not ours."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import psutil

from twinlens.record.executor.record import Fact, observed, unknown
from twinlens.system.nvml import Gpu

FOREIGN_LIMIT = 0.05
"""Processor use by others above which co-tenants count as seen; below it are kernel and idle daemons."""


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
    if foreign_cpu is not None and foreign_cpu > FOREIGN_LIMIT:
        seen.append(f"{foreign_cpu:.0%} of the processors used by others")
    if foreign_gpu:
        seen.append(f"{foreign_gpu} other processes on the GPU")
    on_gpu = ", and GPU processes" if foreign_gpu is not None else "; GPU processes are unknown" if has_gpu else ""
    looked = f"processor use by others, limit {FOREIGN_LIMIT:.0%}{on_gpu}"
    if foreign_cpu is None:
        looked = "GPU processes; processor use by others is unknown"
    return observed("seen" if seen else "none seen", "; ".join(seen) or looked)
