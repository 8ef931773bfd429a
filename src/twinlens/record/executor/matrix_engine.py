"""Formats that the matrix engine of a device multiplies natively, from what the device says of itself."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_FLAGS = {
    "bf16": ("avx512_bf16", "amx_bf16"),
    "int8": ("avx512_vnni", "avx_vnni", "avx_vnni_int8", "amx_int8"),
    "fp16": ("avx512_fp16", "amx_fp16"),
    "fp8-e4m3": ("avx10_2",),
}
_CAPABILITY = {
    "fp16": (7, 0),
    "int8": (7, 2),
    "tf32": (8, 0),
    "bf16": (8, 0),
    "fp8-e4m3": (8, 9),
    "fp8-e5m2": (8, 9),
}
_GPU = re.compile(r"compute capability (\d+)\.(\d+)")


def processor_formats(flags: Mapping[str, Any]) -> dict[str, str]:
    """Format to "native" or "emulated", from instruction flags by name (torch.cpu.get_capabilities, /proc/cpuinfo).

    bf16 needs avx512_bf16 or AMX, int8 VNNI or AMX, fp16 avx512_fp16 or AMX-FP16.
    """
    support = {fmt: "native" if any(flags.get(flag) for flag in names) else "emulated" for fmt, names in _FLAGS.items()}
    return {"fp32": "native", **support, "fp8-e5m2": support["fp8-e4m3"]}


def gpu_formats(capability: tuple[int, int]) -> dict[str, str]:
    """The same of an NVIDIA GPU.

    fp16 from compute capability 7.0, tf32 and bf16 from 8.0, fp8 from 8.9, int8 from 7.2 (CUDA programming guide).
    """
    support = {fmt: "native" if capability >= needed else "emulated" for fmt, needed in _CAPABILITY.items()}
    return {"fp32": "native", **support}


def formats_of(architecture: Any) -> dict[str, str]:
    """The same from the executor field `accelerator.architecture`; empty where it says neither flags nor capability."""
    if isinstance(architecture, list) and "x86_64" in architecture:
        return processor_formats(dict.fromkeys(map(str, architecture), True))
    found = _GPU.match(architecture) if isinstance(architecture, str) else None
    return gpu_formats((int(found[1]), int(found[2]))) if found else {}
