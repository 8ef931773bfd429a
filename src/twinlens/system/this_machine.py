"""This machine, as all processes that share its clock name it."""

from __future__ import annotations

import contextlib
import platform
import uuid
from pathlib import Path


def this_machine() -> str:
    """The same for all processes that share a monotonic clock, and for no others: this start of the kernel."""
    with contextlib.suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return f"{platform.node()} {uuid.getnode()}"
