"""Place of one rank, and the library through which it exchanges: read by the rank of itself. Needs torch."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from twinlens.record.executor.record import Fact, declared, observed, unknown
from twinlens.system.this_machine import this_machine


def rank_fields(device: torch.device, root: Path = Path("/")) -> dict[str, Fact]:
    """Node, device and NUMA nodes of this rank, and its backend with the version of NCCL where it is that."""
    place: dict[str, Any] = {"node": this_machine(), "device": str(device)}
    if (nearest := _numa_of(device, root)) is not None:
        place["device_numa"] = nearest
    if allowed := _numa_allowed(root):
        place["process_numa"] = allowed
    return {
        "training.ranks": observed([place], "the rank of itself"),
        "interconnect.collectives": observed(_library(), "torch.distributed.get_backend"),
        "interconnect.algorithms": _algorithms(),
    }


def _library() -> str:
    backend = str(dist.get_backend())
    return f"NCCL {'.'.join(map(str, torch.cuda.nccl.version()))}" if backend == "nccl" else backend


def _algorithms() -> Fact:
    """NCCL's, where its environment names them: it has few kernels, whose names are not those of what runs in them."""
    if str(dist.get_backend()) != "nccl":
        return unknown("the backend does not name its algorithm")
    asked = {name: os.environ[name] for name in ("NCCL_ALGO", "NCCL_PROTO") if os.environ.get(name)}
    return declared(asked, "the environment") if asked else unknown("NCCL chooses by size, and does not say")


def _numa_of(device: torch.device, root: Path) -> int | None:
    """The NUMA node that a GPU hangs on; None where the kernel does not say."""
    if device.type != "cuda":
        return None
    seen = torch.cuda.get_device_properties(device)
    parts = [getattr(seen, name, None) for name in ("pci_domain_id", "pci_bus_id", "pci_device_id")]
    if None in parts:
        return None
    domain, bus, slot = (int(part or 0) for part in parts)
    address = f"{domain:04x}:{bus:02x}:{slot:02x}.0"
    try:
        node = int((root / "sys/bus/pci/devices" / address / "numa_node").read_text())
    except (OSError, ValueError):
        return None
    return node if node >= 0 else None


def _numa_allowed(root: Path) -> list[int]:
    """NUMA nodes on whose processors this process may run: all of them where nobody pinned it."""
    if not hasattr(os, "sched_getaffinity"):
        return []
    mine = os.sched_getaffinity(0)
    folders = (root / "sys/devices/system/node").glob("node[0-9]*")
    return sorted(int(each.name[4:]) for each in folders if mine & _listed(each / "cpulist"))


def _listed(file: Path) -> set[int]:
    """The kernel's "0-3,8" as numbers."""
    try:
        spans = [part.partition("-") for part in file.read_text().strip().split(",") if part]
    except OSError:
        return set()
    return {number for low, _, high in spans for number in range(int(low), int(high or low) + 1)}
