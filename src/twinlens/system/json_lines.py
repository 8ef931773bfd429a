"""Files of one JSON value a line that only grow: a line is on the disk before the next thing happens."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import Any, BinaryIO

_BLOCK = 65536


def append(path: Path, value: Any) -> None:
    """Append a value of plain data as one line, and wait until it is on the disk.

    A last line that was cut short is dropped first. Raises OSError naming the file, with nothing of this line left
    behind where the disk is full.
    """
    line = (json.dumps(value, ensure_ascii=False, allow_nan=False) + "\n").encode()
    try:
        with path.open("ab+", buffering=0) as file:
            size = _whole(file)
            try:
                file.truncate(size)
                file.write(line)
                os.fsync(file.fileno())
            except OSError:
                with contextlib.suppress(OSError):
                    os.truncate(path, size)
                raise
    except OSError as error:
        error.filename = str(path)
        raise


def _whole(file: BinaryIO) -> int:
    """The bytes of `file` up to the end of its last whole line."""
    size = file.seek(0, os.SEEK_END)
    while size:
        begin = max(0, size - _BLOCK)
        file.seek(begin)
        at = file.read(size - begin).rfind(b"\n")
        if at >= 0:
            return begin + at + 1
        size = begin
    return 0
