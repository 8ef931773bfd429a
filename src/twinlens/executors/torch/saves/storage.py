"""The storage of saves: the file system of a folder, its free space, and the pages of its files in memory."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import psutil


def free_bytes(folder: Path) -> int:
    """What the file system of a folder has left for us."""
    return shutil.disk_usage(folder).free


def filesystem_of(folder: Path) -> str:
    """The type of the file system that a folder is on, such as "ext4"; "unknown" where the system does not say."""
    path = folder.resolve()
    mounts = {Path(each.mountpoint): each.fstype for each in psutil.disk_partitions(all=True)}
    return next((mounts[each] for each in (path, *path.parents) if each in mounts), "unknown") or "unknown"


def size_bytes(folder: Path) -> int:
    """The bytes of all files below a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def drop_from_cache(folder: Path) -> bool:
    """Ask the system to forget the pages of all files below a folder, which are on storage; False where it cannot be
    asked."""
    if not hasattr(os, "posix_fadvise"):
        return False
    for path in folder.rglob("*"):
        if path.is_file():
            with path.open("rb") as file:
                os.fsync(file.fileno())
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    return True
