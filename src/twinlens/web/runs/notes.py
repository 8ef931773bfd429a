"""Labels and notes that the user puts on runs: one small file of ours beside new runs, never in a run's own folder.

A run folder is evidence and stays as it was measured; it may also be read-only, or somebody else's.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aiohttp import web

from twinlens.errors import BadInput
from twinlens.reporting.display import clean
from twinlens.system.document import read_json

FILE = "twinlens-notes.json"
MOST_BYTES = 4 * 2**20
MOST_LABELS, MOST_LABEL, MOST_NOTE = 8, 40, 2000
CODE = "TL269"


@dataclass(frozen=True, slots=True)
class Said:
    """What the user said of one run."""

    labels: tuple[str, ...] = ()
    note: str = ""


class Notes:
    """The notes in `folder`, read again where the file changed. Safe in several threads."""

    def __init__(self, folder: Path) -> None:
        self._path, self._lock = folder / FILE, threading.Lock()
        self._stamp: tuple[int, int] | None = None
        self._kept: Mapping[str, Said] = {}

    def all(self) -> Mapping[str, Said]:
        """Of each run by its id; none where the file is not there or is no such file."""
        with self._lock:
            return self._read()

    def put(self, id: str, labels: str, note: str) -> Said:
        """Write what the user says of a run; nothing said takes it away. `labels`: with commas between.

        Raises BadInput (TL269) where the disk refuses it, and where the file is not one of ours.
        """
        named = dict.fromkeys(filter(None, (clean(each, MOST_LABEL) for each in labels.split(","))))
        said = Said(tuple(named)[:MOST_LABELS], note.strip()[:MOST_NOTE])
        with self._lock:
            if os.path.lexists(self._path) and _content(self._path) is None:
                raise BadInput(f"{self._path} is no file of notes; move it away", code=CODE)
            kept = {**self._read(), id: said}
            if said == Said():
                del kept[id]
            self._write(kept)
            return said

    def _read(self) -> Mapping[str, Said]:
        try:
            seen = os.lstat(self._path)
            stamp = seen.st_mtime_ns, seen.st_size
        except OSError:
            stamp = None
        if stamp is None or stamp != self._stamp:
            self._kept, self._stamp = _said(_content(self._path)), stamp
        return self._kept

    def _write(self, kept: Mapping[str, Said]) -> None:
        from twinlens.record.store import write_json

        data = {"schema": 1, "runs": {id: {"labels": each.labels, "note": each.note} for id, each in kept.items()}}
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            write_json(self._path, data)
        except (OSError, UnicodeEncodeError) as error:
            said = getattr(error, "strerror", None) or "it has half a character"
            raise BadInput(f"the note cannot be written to {self._path}: {said}", code=CODE) from None
        self._stamp = None


def _content(path: Path) -> dict[str, Any] | None:
    try:
        data = None if path.is_symlink() else read_json(path, MOST_BYTES)
    except (OSError, ValueError):
        return None
    return data if isinstance(data, dict) and isinstance(data.get("runs"), dict) else None


def _said(data: dict[str, Any] | None) -> dict[str, Said]:
    """Notes as they may have been edited: what is no text is left out."""
    kept = {}
    for id, each in (data or {"runs": {}})["runs"].items():
        if isinstance(each, dict):
            labels, note = each.get("labels"), each.get("note")
            named = [clean(label, MOST_LABEL) for label in labels if isinstance(label, str)] if isinstance(
                labels, list) else []  # fmt: skip
            kept[id] = Said(tuple(named[:MOST_LABELS]), note[:MOST_NOTE] if isinstance(note, str) else "")
    return kept


NOTES = web.AppKey("notes", Notes)


def notes_of(request: web.Request) -> Notes:
    return request.app[NOTES]
