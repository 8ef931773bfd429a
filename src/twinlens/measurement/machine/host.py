"""Facts of this machine: processor, memory and system, read while it runs; and with them all others of this room.

Linux files under /proc and /sys, `sysctl` on macOS, psutil for both; what cannot be read is unknown with a
reason.
"""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Sequence
from pathlib import Path

import psutil

from twinlens.measurement.machine.container import cgroup_limits, container_facts, virtualisation_fact
from twinlens.measurement.machine.contention import tenancy_facts
from twinlens.measurement.machine.kernel_file import cpuinfo, fact_of, sysctl, text_of
from twinlens.measurement.machine.nvidia_facts import gpu_facts
from twinlens.record.executor.record import Fact, observed, unknown
from twinlens.system.nvml import open_gpus

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
        "power.limit_w": unknown("the package power limit is readable only through powercap"),
    }
    return facts | dict.fromkeys(("accelerator.memory_bytes", "accelerator.memory_type", "accelerator.ecc"), own)
