"""The page cache: how much of a model's files is in it before a start, and dropping them from it."""

from __future__ import annotations

import ctypes
import mmap
import os
from pathlib import Path


def cached_share(folder: Path) -> float | None:
    """The share of the bytes below `folder` (or of one file) in the page cache, by mincore; None where that is not to
    be had."""
    sizes = [(path, path.stat().st_size) for path in _files(folder)]
    total = sum(size for _, size in sizes)
    if not total or not hasattr(os, "posix_fadvise"):
        return None
    try:
        return sum(_cached_bytes(path, size) for path, size in sizes if size) / total
    except OSError:
        return None


def drop(folder: Path) -> None:
    """Ask the kernel to drop these files from the page cache; what is not written yet, or mapped, stays."""
    if not hasattr(os, "posix_fadvise"):
        return
    for path in _files(folder):
        with path.open("rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _files(folder: Path) -> list[Path]:
    return [folder] if folder.is_file() else sorted(path for path in folder.rglob("*") if path.is_file())


def _cached_bytes(path: Path, size: int) -> int:
    pages = -(-size // mmap.PAGESIZE)
    seen = (ctypes.c_ubyte * pages)()
    libc = ctypes.CDLL(None, use_errno=True)
    with path.open("rb") as file, mmap.mmap(file.fileno(), size, flags=mmap.MAP_PRIVATE, prot=3) as mapped:
        whole = (ctypes.c_char * size).from_buffer(mapped)
        failed = libc.mincore(ctypes.c_void_p(ctypes.addressof(whole)), ctypes.c_size_t(size), seen)
        del whole
    if failed:
        raise OSError(ctypes.get_errno(), "mincore")
    return min(size, sum(one & 1 for one in seen) * mmap.PAGESIZE)
