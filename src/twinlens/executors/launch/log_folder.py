"""Folders for the log of a server that no run folder owns: one each, removed with its owner, or later where it was
killed."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from pathlib import Path

import psutil

from twinlens.system.processes import is_alive

_PREFIX, _OWNER = "twinlens-server-", "owner"


def log_folder() -> Path:
    """A new folder of this process; those whose owners are gone are removed first."""
    for left in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        if _is_abandoned(left):
            shutil.rmtree(left, ignore_errors=True)
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
    (folder / _OWNER).write_text(f"{os.getpid()} {psutil.Process().create_time()!r}")
    return folder


def _is_abandoned(folder: Path) -> bool:
    """Whether its owner is known and gone; one without an owner may be being made, and stays."""
    with contextlib.suppress(OSError, ValueError):
        pid, born_s = (folder / _OWNER).read_text().split()
        return not is_alive(int(pid), float(born_s))
    return False
