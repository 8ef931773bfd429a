"""Values that the kernel tells: files under /proc and /sys, and sysctl on macOS. None where there is no such value."""

from __future__ import annotations

import platform
import re
import subprocess
from pathlib import Path

from twinlens.record.executor.record import Fact, observed, unknown


def text_of(path: Path) -> str | None:
    try:
        return path.read_text(errors="replace").strip() or None
    except OSError:
        return None


def sysctl(name: str) -> str | None:
    """One macOS kernel value, or None elsewhere."""
    if platform.system() != "Darwin":
        return None
    finished = subprocess.run(["/usr/sbin/sysctl", "-n", name], capture_output=True, text=True, check=False)
    return finished.stdout.strip() or None


def fact_of(value: object, source: str, reason: str) -> Fact:
    return unknown(reason) if value is None or value == "" else observed(value, source)


def cpuinfo(root: Path, *names: str) -> str | None:
    """The first value of the first of these keys in /proc/cpuinfo."""
    text = text_of(root / "proc/cpuinfo") or ""
    for name in names:
        match = re.search(rf"^{re.escape(name)}\s*:[ \t]*(.*)$", text, re.MULTILINE)
        if match and match.group(1).strip():
            return match.group(1).strip()
    return None
