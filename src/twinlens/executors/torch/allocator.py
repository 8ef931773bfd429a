"""Keep freed memory in this process, so that a step need not ask the system for it again."""

from __future__ import annotations

import ctypes
import platform

from twinlens.errors import BadInput

_TRIM_THRESHOLD, _MMAP_MAX = -1, -4  # malloc.h of glibc
_NEVER = -1  # read as the greatest size


def keep_freed_memory() -> None:
    """Have glibc's malloc hold on to what is freed: no mapping of its own for a large block, nothing given back.

    By default it maps a block of over 32 MiB afresh each time, and the kernel clears every page of it again. How many
    blocks that concerns differs from process to process. Raises BadInput (TL207) where there is no glibc.
    """
    if platform.libc_ver()[0] != "glibc":
        raise BadInput('executor.options.freed_memory = "kept" needs glibc (Linux); leave it out', code="TL207")
    library = ctypes.CDLL(None)
    if not (library.mallopt(_MMAP_MAX, 0) and library.mallopt(_TRIM_THRESHOLD, _NEVER)):
        raise BadInput('glibc refused executor.options.freed_memory = "kept"; leave it out', code="TL207")
