"""Processes of this machine, known by their id and when they began: an id alone may have been given to another."""

from __future__ import annotations

import psutil


def is_alive(pid: int, born_s: float) -> bool:
    """Whether the process that began at `born_s`, in epoch seconds, still runs."""
    try:
        process = psutil.Process(pid)
        return bool(abs(process.create_time() - born_s) < 1.0 and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False


def tree(pid: int) -> list[int]:
    """A process and all below it; empty when it is gone."""
    try:
        first = psutil.Process(pid)
        return [pid, *(child.pid for child in first.children(recursive=True))]
    except psutil.Error:
        return []
