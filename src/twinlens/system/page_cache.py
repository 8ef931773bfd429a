"""The page cache: how much of some files is in it, and dropping them from it."""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
from collections.abc import Sequence
from pathlib import Path


def cached_share(folder: Path) -> float | None:
    """The share of the bytes below `folder` (or of one file) in the page cache, by mincore; None where that is not to
    be had."""
    sizes = [(path, path.stat().st_size) for path in files_below(folder)]
    total = sum(size for _, size in sizes)
    if not total or not hasattr(os, "posix_fadvise"):
        return None
    try:
        return sum(_cached_bytes(path, size) for path, size in sizes if size) / total
    except OSError:
        return None


def drop_pages(files: Sequence[Path]) -> bool:
    """Ask the kernel to drop these files from the page cache (what is mapped stays); whether it can be asked."""
    if not hasattr(os, "posix_fadvise"):
        return False
    for path in files:
        with path.open("rb") as file:
            with contextlib.suppress(OSError):
                os.fsync(file.fileno())  # a page that is not on storage yet cannot be dropped
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    return True


def files_below(folder: Path) -> list[Path]:
    """The files of a folder, or one file itself."""
    return [folder] if folder.is_file() else sorted(path for path in folder.rglob("*") if path.is_file())


def size_below(folder: Path) -> int:
    """The bytes of all files of a folder."""
    return sum(path.stat().st_size for path in files_below(folder))


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
