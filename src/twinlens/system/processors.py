"""The number of processors this process may use: those of its affinity, not those of the machine."""

from __future__ import annotations

import os

import psutil


def usable_processors() -> int:
    """Logical processors, one at least."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def usable_cores(of: int = 0) -> int:
    """Physical cores as far as they may be used, one at least. `of`: so many processors instead of the usable ones."""
    usable = of or usable_processors()
    return min(usable, psutil.cpu_count(logical=False) or usable)
