"""The NVIDIA driver that is loaded, and what keeps its GPUs from this process; read from files alone."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

_ROOT = Path("/")
_WSL = ("dev/dxg", "usr/lib/wsl/lib/libcuda.so.1")


def driver_version() -> str | None:
    """The version of the NVIDIA driver that is loaded, None without one. WSL2 has that of Windows."""
    if all((_ROOT / name).exists() for name in _WSL):
        return "of Windows (WSL2)"
    try:
        line = (_ROOT / "proc/driver/nvidia/version").read_text().splitlines()[0]
    except (OSError, IndexError):
        return None
    return next((word for word in line.split() if word[0].isdigit() and "." in word), "of unknown version")


def why_withheld(environment: Mapping[str, str] = os.environ) -> str | None:
    """Why a process sees no GPU whatever its driver: its mask hides them, or it was given none. Else None."""
    mask = environment.get("CUDA_VISIBLE_DEVICES")
    if mask is not None and (not mask.strip() or mask.strip().startswith("-")):
        return f"CUDA_VISIBLE_DEVICES={mask!r} hides every GPU; unset it"
    if (_ROOT / "dev/dxg").exists() or any((_ROOT / "dev").glob("nvidia[0-9]*")):
        return None
    return "this process was given no GPU (no /dev/nvidia0); start its container with --gpus all, or its job with a GPU"
