"""Run and study folders as a pack takes them: files that belong to a run, and checksums of all that lie there."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from twinlens.errors import BadInput
from twinlens.pack.archive import safe_part
from twinlens.pack.private import Cover
from twinlens.pack.sums import UNREADABLE, sha256_of, sha256_of_pieces
from twinlens.record.checksum import MARKS, marks_text
from twinlens.system.document import json_of

OF_RUN = (
    "run.json", "steps.arrows", "requests.arrows", "exchanges.arrows", "telemetry.arrows",
    "server.arrows", "schedule.arrow", "instrument.json", "falsifier.json",
)  # fmt: skip
OF_STUDY = ("study.json", "spec.toml", "paired.json", "search.json")
"""Files that a pack takes; logs, weights and whatever else lies there only have their checksum in it."""


@dataclass(frozen=True, slots=True)
class Taken:
    """One file of a run or study folder: its checksum as it lies there, and whether the pack has it.

    `covered`: how many private words the copy in the pack has under asterisks.
    """

    name: str
    bytes: int
    sha256: str
    is_packed: bool
    covered: int = 0

    def __json__(self) -> dict[str, Any]:
        return {"file": self.name, "bytes": self.bytes, "sha256": self.sha256, "packed": self.is_packed} | (
            {"covered": self.covered} if self.covered else {}
        )


def folder_hash(files: tuple[Taken, ...]) -> str:
    """One SHA-256 over the names and checksums of all files of a folder, as they lie there."""
    return sha256_of_pieces(
        f"{each.sha256}  {each.name}\n".encode() for each in sorted(files, key=lambda one: one.name)
    )


def take(folder: Path, wanted: tuple[str, ...], cover: Cover) -> tuple[dict[str, bytes], tuple[Taken, ...]]:
    """Copies of the wanted files of a folder by name, private words covered; and every file that lies there.

    Links are not followed: what they lead to is no part of a run. Where words are covered in rows, their
    checksums are those of the copy. Raises OSError and BadInput.
    """
    copies: dict[str, bytes] = {}
    files: list[Taken] = []
    for path in sorted(_files(folder)):
        name, size = path.relative_to(folder).as_posix(), path.stat().st_size
        covered = 0
        if name in wanted:
            copies[name], covered = _copy(path, cover)
        is_packed = name in wanted or name.removesuffix(MARKS) in wanted
        files.append(Taken(name if is_packed else _told(name, cover), size, sha256_of(path), is_packed, covered))
    marks = [each.name for each in files if each.is_packed and each.name not in copies]
    for name in marks:
        rows = name.removesuffix(MARKS)
        copies[name] = marks_text(folder / rows, copies[rows]) if rows in copies else b""
    return copies, tuple(files)


def _copy(path: Path, cover: Cover) -> tuple[bytes, int]:
    """The bytes with private words covered, and how many. Raises BadInput where that would spoil a JSON file."""
    original = path.read_bytes()
    data, covered = cover.covered(original)
    if covered and path.suffix == ".json" and _is_json(original) and not _is_json(data):
        raise BadInput(f"{path} has a key or password where it is no text; take it out first", code=UNREADABLE)
    return data, covered


def _is_json(data: bytes) -> bool:
    try:
        json_of(data.decode("utf-8"))
    except ValueError:
        return False
    return True


def _told(name: str, cover: Cover) -> str:
    return "/".join(safe_part(part) for part in cover.text(name).split("/"))


def _files(folder: Path) -> Iterator[Path]:
    """Files below a folder, links and the folders of other runs left out."""
    for place, folders, names in os.walk(folder, followlinks=False):
        here = Path(place)
        folders[:] = [each for each in folders if not (here / each / "run.json").exists()]
        yield from (path for name in names if not (path := here / name).is_symlink() and path.is_file())
