"""The processor of this machine as its kernel describes it."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path("/")


def text_of(path: Path) -> str | None:
    """A small file of the kernel's without its ends; None where it is empty or cannot be read."""
    try:
        return path.read_text(errors="replace").strip() or None
    except OSError:
        return None


def cpuinfo(root: Path, *names: str) -> str | None:
    """The first value of the first of these keys in /proc/cpuinfo."""
    text = text_of(root / "proc/cpuinfo") or ""
    for name in names:
        match = re.search(rf"^{re.escape(name)}\s*:[ \t]*(.*)$", text, re.MULTILINE)
        if match and match.group(1).strip():
            return match.group(1).strip()
    return None


def x86_lacks(flag: str, root: Path = ROOT) -> bool:
    """Whether this is an x86 processor without an instruction set ("avx512f"); False where the kernel does not say."""
    flags = (cpuinfo(root, "flags") or "").split()
    return "sse2" in flags and flag not in flags
