"""Facts of where this system runs: in a control group, a virtual machine, a container."""

from __future__ import annotations

import os
import re
from pathlib import Path

from twinlens.measurement.machine.kernel_file import cpuinfo, fact_of, sysctl, text_of
from twinlens.record.executor.record import Fact, observed, unknown

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
