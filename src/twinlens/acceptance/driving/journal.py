"""Files of a burn-in that grow line by line: appended and brought to the disk, a last line that was cut short dropped.

`journal.jsonl`: when the test was begun and resumed, how long nothing was tested, rests and how far devices cooled.
In the folder of each turn: `turn.json`, `counters.jsonl` (counters while it ran) and `products.jsonl`.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from twinlens.acceptance.driving.counters import Reading
from twinlens.record.codec import decode, encode
from twinlens.system import json_lines
from twinlens.system.document import json_of

JOURNAL_FILE, COUNTERS_FILE, PRODUCTS_FILE = "journal.jsonl", "counters.jsonl", "products.jsonl"
LEAST_FREE_BYTES = 32 << 20


def add_line(path: Path, entry: Any) -> None:
    """Append one line of what is encoded by its fields. Raises OSError."""
    json_lines.append(path, encode(entry))


def read_lines(path: Path) -> list[dict[str, Any]]:
    """All whole lines; what was cut short is left out."""
    if not path.exists():
        return []
    found = []
    for line in path.read_bytes().split(b"\n"):
        with contextlib.suppress(ValueError):
            entry = json_of(line.decode())
            found += [entry] if isinstance(entry, dict) else []
    return found


def refuse_full_disk(folder: Path) -> None:
    """Raises OSError (ENOSPC) before a disk is full to the last byte: what follows would be blamed on the machine."""
    if shutil.disk_usage(folder).free < LEAST_FREE_BYTES:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(folder))


@dataclass(frozen=True, slots=True)
class Read:
    """Counters of all devices `since_s` the turn began, and `measuring_s` its rows (None before)."""

    since_s: float
    measuring_s: float | None
    devices: tuple[Reading, ...]


class CounterLog:
    """Reads counters every `period_s` while it is open, from its own thread, into `counters.jsonl` of a turn's folder.

    `begin_rows` says when rows began. What cannot be written is kept in `error`, for the thread that waits.
    """

    def __init__(self, folder: Path, read: Callable[[], Sequence[Reading]], period_s: float) -> None:
        self._path, self._read, self._period_s = folder / COUNTERS_FILE, read, period_s
        self._begin_s = time.monotonic()
        self._rows_s: float | None = None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="counters", daemon=True)
        self.error: OSError | None = None

    def __enter__(self) -> Self:
        self._note()
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._ended.set()
        self._thread.join(timeout=10.0)
        if not self._thread.is_alive():
            self._note()

    def begin_rows(self) -> None:
        """The first rows are there."""
        if self._rows_s is None:
            self._rows_s = time.monotonic()

    def _loop(self) -> None:
        while not self._ended.wait(self._period_s) and self.error is None:
            self._note()

    def _note(self) -> None:
        now_s = time.monotonic()
        measuring_s = None if self._rows_s is None else now_s - self._rows_s
        try:
            add_line(self._path, Read(now_s - self._begin_s, measuring_s, tuple(self._read())))
        except OSError as error:
            self.error = error


def read_counters(folder: Path) -> tuple[Read, ...]:
    """What a turn's log says, oldest first."""
    return tuple(decode(Read, entry) for entry in read_lines(folder / COUNTERS_FILE))
