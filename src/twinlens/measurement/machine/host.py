"""Facts of this machine: processor, memory and system, read while it runs; and with them all others of this room.

Linux files under /proc and /sys, `sysctl` on macOS, psutil for both; what cannot be read is unknown with a
reason.
"""

from __future__ import annotations

import os
import platform
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

import psutil

from twinlens.measurement.machine.contention import tenancy_facts
from twinlens.measurement.machine.nvidia import gpu_facts
from twinlens.record.executor.record import Fact, observed, unknown
from twinlens.system.nvml import open_gpus
from twinlens.system.power_limit import package_limit_w
from twinlens.system.processor import cpuinfo, text_of

# What low-precision arithmetic runs on: x86 names, then Arm names.
ISA = (
    *("avx2", "avx512f", "avx512_bf16", "avx512_fp16", "avx512_vnni", "avx_vnni", "amx_tile", "amx_bf16"),
    *("amx_int8", "amx_fp16", "asimddp", "i8mm", "bf16", "sve", "sve2", "sme", "fphp", "asimdhp"),
)


def capture_host(
    device: str | None = None, uuids: Sequence[str] | None = None, ours: Sequence[int] = (), *, in_use: bool = False
) -> dict[str, Fact]:
    """Host, tenancy and accelerator facts. Takes about 0.2 s (processor use by others needs a window).

    `device` "cpu" makes the processor the accelerator; "cuda" the GPUs that NVML sees (only `uuids`, if
    given); None decides by whether there are any. `ours`: processes of a launched server. `in_use`: this run computes
    on those GPUs already. Software facts are separate: libraries load while a model
    does.
    """
    gpus, reason = ((), None) if device == "cpu" else open_gpus(uuids)
    facts = host_facts(Path("/"))
    if device == "cpu" or (device is None and not gpus):
        facts |= _processor_as_accelerator(facts)
    else:
        facts |= gpu_facts(gpus, reason)
    return facts | tenancy_facts(gpus, ours=ours, in_use=in_use)


def host_facts(root: Path) -> dict[str, Fact]:
    """Processor, memory, system and container; `root` is "/", or the folder of a recorded machine."""
    return {
        **_processor(root),
        **_frequency(root),
        **_memory(root),
        **cgroup_limits(root),
        **_system(root),
        **container_facts(root),
    }


def _processor(root: Path) -> dict[str, Fact]:
    source, silent = "/proc/cpuinfo", "the kernel does not say"
    topology = sorted((root / "sys/devices/system/cpu").glob("cpu[0-9]*/topology/physical_package_id"))
    sockets = len({text_of(path) for path in topology}) or None
    cores, threads = psutil.cpu_count(logical=False), psutil.cpu_count()
    flags = (cpuinfo(root, "flags", "Features") or "").split()
    smt = None if not cores or not threads else threads > cores
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else threads
    model = cpuinfo(root, "model name", "Model", "CPU part") or sysctl("machdep.cpu.brand_string")
    return {
        "host.cpu.model": fact_of(model, source, silent),
        "host.cpu.vendor": fact_of(cpuinfo(root, "vendor_id", "CPU implementer"), source, silent),
        "host.cpu.sockets": fact_of(sockets, "/sys/devices/system/cpu", silent),
        "host.cpu.cores": fact_of(cores, "psutil.cpu_count", silent),
        "host.cpu.threads": fact_of(threads, "psutil.cpu_count", silent),
        "host.cpu.usable_threads": fact_of(usable, "sched_getaffinity", silent),
        "host.cpu.smt": fact_of(smt, "psutil.cpu_count", silent),
        "host.cpu.isa": fact_of([name for name in ISA if name in flags] or None, source, "no flags listed"),
        "host.cpu.l3_bytes": fact_of(_l3_bytes(root), "/sys/devices/system/cpu/cpu0/cache", silent),
        "host.numa_nodes": fact_of(
            len(list((root / "sys/devices/system/node").glob("node[0-9]*"))) or None,
            "/sys/devices/system/node",
            silent,
        ),
    }


def _l3_bytes(root: Path) -> int | None:
    for index in sorted((root / "sys/devices/system/cpu/cpu0/cache").glob("index*")):
        size = re.fullmatch(r"(\d+)([KM])", text_of(index / "size") or "")
        if text_of(index / "level") == "3" and size:
            return int(size.group(1)) * {"K": 2**10, "M": 2**20}[size.group(2)]
    size_text = sysctl("hw.l3cachesize")
    return int(size_text) if size_text and size_text.isdigit() else None


def _frequency(root: Path) -> dict[str, Fact]:
    folder = root / "sys/devices/system/cpu/cpu0/cpufreq"
    hidden = "no frequency control is visible (usual in a virtual machine)"
    highest = text_of(folder / "cpuinfo_max_freq")
    try:
        now = psutil.cpu_freq()
    except (OSError, RuntimeError, AttributeError, NotImplementedError):
        now = None
    return {
        "host.cpu.governor": fact_of(text_of(folder / "scaling_governor"), str(folder), hidden),
        "host.cpu.max_mhz": fact_of(int(highest) / 1e3 if highest else None, str(folder), hidden),
        "host.cpu.mhz_now": fact_of(now.current if now and now.current else None, "psutil.cpu_freq", hidden),
    }


def _memory(root: Path) -> dict[str, Fact]:
    memory = psutil.virtual_memory()
    return {
        "host.memory_bytes": observed(int(memory.total), "psutil.virtual_memory"),
        "host.memory_available_bytes": observed(int(memory.available), "psutil.virtual_memory"),
        "host.memory_speed": unknown("memory modules are described only to the superuser"),
        "host.storage": fact_of(_storage(), "psutil.disk_partitions", "the working folder is on no listed device"),
    }


def _storage() -> str | None:
    """File system and device under the working folder, without the folder's name."""
    here = str(Path.cwd())
    mounts = [part for part in psutil.disk_partitions() if Path(here).is_relative_to(part.mountpoint)]
    best = max(mounts, key=lambda part: len(part.mountpoint), default=None)
    return None if best is None else f"{best.fstype} on {Path(best.device).name}"


def _system(root: Path) -> dict[str, Fact]:
    release = dict(line.split("=", 1) for line in (text_of(root / "etc/os-release") or "").splitlines() if "=" in line)
    name = release.get("PRETTY_NAME", "").strip('"') or f"{platform.system()} {platform.mac_ver()[0]}".strip()
    return {
        "host.os": observed(name, "/etc/os-release" if release else "platform"),
        "host.kernel": observed(platform.release(), "platform.release"),
        "host.machine": observed(platform.machine(), "platform.machine"),
        "host.virtualisation": virtualisation_fact(root),
    }


def _processor_as_accelerator(host: dict[str, Fact]) -> dict[str, Fact]:
    isa = host["host.cpu.isa"]
    own = unknown("the processor computes in host memory")
    facts = {
        "accelerator.product": host["host.cpu.model"],
        "accelerator.vendor": host["host.cpu.vendor"],
        "accelerator.form_factor": observed("processor", "no accelerator in use"),
        "accelerator.count": host["host.cpu.sockets"],
        "accelerator.architecture": isa
        if isa.value is None
        else observed([platform.machine(), *isa.value], isa.source),
        "power.limit_w": fact_of(
            package_limit_w(), "powercap, long-term limit of a package", "powercap shows no limit of a package here"
        ),
    }
    return facts | dict.fromkeys(("accelerator.memory_bytes", "accelerator.memory_type", "accelerator.ecc"), own)


def sysctl(name: str) -> str | None:
    """One macOS kernel value, or None elsewhere."""
    if platform.system() != "Darwin":
        return None
    finished = subprocess.run(["/usr/sbin/sysctl", "-n", name], capture_output=True, text=True, check=False)
    return finished.stdout.strip() or None


def fact_of(value: object, source: str, reason: str) -> Fact:
    return unknown(reason) if value is None or value == "" else observed(value, source)


_NO_LIMIT_BYTES = 2**60  # cgroup v1 writes "no limit" as a number near 2**63


def cgroup_limits(root: Path) -> dict[str, Fact]:
    """Limits of this process's control group, version 2 before version 1; "none" is an observation."""
    lines = [line.split(":", 2) for line in (text_of(root / "proc/self/cgroup") or "").splitlines()]
    inside = {names: path.lstrip("/") for _, names, path in (line for line in lines if len(line) == 3)}
    group = root / "sys/fs/cgroup"
    reason = "no control group is visible"
    quota = _first(group, inside, ("", "cpu.max"), ("cpu", "cpu.cfs_quota_us"), ("cpu,cpuacct", "cpu.cfs_quota_us"))
    period = _first(group, inside, ("cpu", "cpu.cfs_period_us"), ("cpu,cpuacct", "cpu.cfs_period_us"))
    memory = _first(group, inside, ("", "memory.max"), ("memory", "memory.limit_in_bytes"))
    return {
        "host.cgroup.cpu_limit": fact_of(_cpu_limit(quota, period), "/sys/fs/cgroup", reason),
        "host.cgroup.memory_limit_bytes": fact_of(_memory_limit(memory), "/sys/fs/cgroup", reason),
    }


def _first(group: Path, inside: dict[str, str], *places: tuple[str, str]) -> str | None:
    """The first readable limit: inside a container the group's own path is often mounted as the root."""
    for controller, name in places:
        for folder in (group / controller / inside.get(controller, ""), group / controller):
            limit = text_of(folder / name)
            if limit:
                return limit
    return None


def _cpu_limit(quota: str | None, period: str | None) -> float | str | None:
    if quota is None:
        return None
    parts = [*quota.split(), period or "100000"]
    return "none" if parts[0] in ("max", "-1") else int(parts[0]) / int(parts[1])


def _memory_limit(limit: str | None) -> int | str | None:
    if limit is None:
        return None
    return "none" if limit == "max" or int(limit) >= _NO_LIMIT_BYTES else int(limit)


def virtualisation_fact(root: Path) -> Fact:
    vendor = text_of(root / "sys/class/dmi/id/sys_vendor")
    flags = cpuinfo(root, "flags")
    if flags and "hypervisor" in flags.split():
        kind = text_of(root / "sys/hypervisor/type")
        return observed(f"virtual machine ({kind or vendor or 'kind not said'})", "/proc/cpuinfo, hypervisor flag")
    if sysctl("kern.hv_vmm_present") == "1":
        return observed("virtual machine (kind not said)", "sysctl kern.hv_vmm_present")
    if flags or sysctl("kern.hv_vmm_present") == "0":
        return observed("none seen", "/proc/cpuinfo" if flags else "sysctl kern.hv_vmm_present")
    return unknown("this processor lists no hypervisor flag")


def container_facts(root: Path) -> dict[str, Fact]:
    podman = text_of(root / "run/.containerenv")
    image = re.search(r'^imageid="?([0-9a-f]{64})', podman or "", re.MULTILINE)
    groups = text_of(root / "proc/1/cgroup") or ""
    kind = (
        "kubernetes" if "KUBERNETES_SERVICE_HOST" in os.environ or "kubepods" in groups
        else "podman" if podman is not None
        else "docker" if (root / ".dockerenv").exists() or "docker" in groups
        else "none seen"
    )  # fmt: skip
    reason = "no container" if kind == "none seen" else f"{kind} does not tell a container its image"
    return {
        "host.container": observed(kind, "container marks in the file system and control groups"),
        "host.container_digest": fact_of(f"sha256:{image.group(1)}" if image else None, "/run/.containerenv", reason),
    }
