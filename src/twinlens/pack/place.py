"""Temporary folders of packs, marked with their process, so that those of a process that was killed can go."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import tempfile
from functools import cache
from pathlib import Path

from twinlens.record.store import write_json
from twinlens.system.document import read_json
from twinlens.system.processes import is_gone, this_process

PREFIX = "twinlens-pack-"
_MARK = "process.json"
_MOST_BYTES = 4096


def fresh_place() -> tempfile.TemporaryDirectory[str]:
    """A marked folder of this process; the first one takes away what processes left that are surely gone."""
    _tidied()
    place = tempfile.TemporaryDirectory(prefix=PREFIX)
    write_json(Path(place.name) / _MARK, this_process())
    return place


def in_pack(path: Path) -> Path:
    """A path below the folder that a pack was unpacked into, without that folder, which is another one every time; any
    other path as it is."""
    depth = next((n for n, part in enumerate(path.parts, start=1) if part.startswith(PREFIX)), 0)
    return Path(*path.parts[depth:]) if depth else path


@cache
def _tidied() -> None:
    """Once in a process."""
    with contextlib.suppress(OSError):
        for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
            if is_left_behind(folder):
                shutil.rmtree(folder, ignore_errors=True)


def is_left_behind(folder: Path) -> bool:
    """Whether this user's own program made it, said so, and is surely gone: nothing else is ever taken away."""
    try:
        seen = folder.lstat()
        if not stat.S_ISDIR(seen.st_mode) or seen.st_uid != os.getuid():
            return False
        return is_gone(read_json(folder / _MARK, _MOST_BYTES))
    except (OSError, ValueError, AttributeError):  # Windows has no users by number
        return False
