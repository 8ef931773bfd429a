"""Zip files: written whole or not at all, and read without being unpacked, within limits."""

from __future__ import annotations

import contextlib
import os
import re
import stat
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from types import TracebackType
from typing import Self

from twinlens.errors import BadInput
from twinlens.pack.sums import UNREADABLE

MOST_FILES = 20_000
MOST_BYTES = 8 * 1024**3
MOST_TEXT_BYTES = 32 * 1024**2
_PIECE = 1 << 20
_END, _END_BYTES = b"PK\5\6", 22
_SAFE = re.compile(r"[^\W_][\w.+@=-]*")
"""Letters and digits first: no part of a name is "..", hidden, or an option of a command."""


def safe_part(name: str) -> str:
    """A file or folder name of letters, digits and `._+@=-`; other characters become "-"."""
    plain = re.sub(r"[^\w.+@=-]", "-", name, flags=re.ASCII).lstrip("._+@=-")
    return plain[:150] or "unnamed"


def write_archive(path: Path, members: Mapping[str, bytes | Path]) -> None:
    """Write a zip file of bytes and files by name; a file that was there stays until the new one is whole.

    Raises BadInput (TL240) where its folder is not there or the disk refuses it.
    """
    fresh = path.with_name(f".{path.name}.part")
    try:
        with zipfile.ZipFile(fresh, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, data in members.items():
                entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
                entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
                archive.writestr(entry, data if isinstance(data, bytes) else data.read_bytes())
        fresh.replace(path)
    except OSError as error:
        raise BadInput(
            f"the pack cannot be written to {path} ({error.strerror}); name another file with -o", code=UNREADABLE
        ) from None
    finally:
        with contextlib.suppress(OSError):
            fresh.unlink(missing_ok=True)


class Archive:
    """A zip file that may have been made by anybody. Nothing of it is ever written to disk.

    Raises BadInput (TL240) for what is no zip file, and for one whose names lead elsewhere, stand twice, are encrypted,
    are links, or whose content is beyond the limits. What a header says of a size is never trusted.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._left = path, MOST_BYTES
        try:
            self._zip = zipfile.ZipFile(path)
        except FileNotFoundError:
            raise BadInput(f"there is no file {str(path)!r}", code=UNREADABLE) from None
        except (OSError, zipfile.BadZipFile, ValueError, NotImplementedError) as error:
            raise BadInput(f"{path} is no zip file that can be read ({error})", code=UNREADABLE) from None
        try:
            self.names = self._checked()
        except BaseException:
            self._zip.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._zip.close()

    def pieces(self, name: str) -> Iterator[bytes]:
        """The content of a file in pieces. Raises BadInput beyond the limit, `Damaged` where it cannot be read."""
        try:
            with self._zip.open(name) as file:
                while piece := file.read(_PIECE):
                    self._left -= len(piece)
                    if self._left < 0:
                        raise self._refusal(f"it holds more than {MOST_BYTES // 1024**3} GiB")
                    yield piece
        except (zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError, RuntimeError) as error:
            raise Damaged(str(error)) from None

    def text(self, name: str) -> str:
        """A small file as text. Raises BadInput where it is damaged, is no text, or is larger than 32 MiB."""
        data = b""
        try:
            for piece in self.pieces(name):
                data += piece
                if len(data) > MOST_TEXT_BYTES:
                    raise self._refusal(f"{name} is larger than {MOST_TEXT_BYTES // 1024**2} MiB")
            return data.decode("utf-8")
        except (Damaged, UnicodeDecodeError) as error:
            raise self._refusal(f"{name} cannot be read: {error}") from None

    def _checked(self) -> tuple[str, ...]:
        entries = self._zip.infolist()
        if len(entries) > MOST_FILES:
            raise self._refusal(f"it has {len(entries):,} files, and {MOST_FILES:,} is the limit")
        if all(entry.header_offset for entry in entries) and entries:
            raise self._refusal("foreign bytes stand before its first file")
        if not self._ends_with_its_directory():
            raise self._refusal("foreign bytes stand behind its last file")
        names: dict[str, None] = {}
        for entry in entries:
            name = entry.filename
            if not is_safe(name):
                raise self._refusal(f"the name {name[:60]!r} leads out of it, or is none that a pack has")
            if name in names:
                raise self._refusal(f"{name!r} stands in it twice")
            if entry.flag_bits & 0x1 or stat.S_ISLNK(entry.external_attr >> 16):
                raise self._refusal(f"{name!r} is encrypted, or a link")
            names[name] = None
        return tuple(names)

    def _ends_with_its_directory(self) -> bool:
        """Whether nothing stands behind the record that ends a zip file: readers look for it from behind."""
        with self._path.open("rb") as file:
            file.seek(-_END_BYTES, os.SEEK_END)
            return file.read(len(_END)) == _END and not self._zip.comment

    def _refusal(self, why: str) -> BadInput:
        return BadInput(f"{self._path} is refused: {why}", code=UNREADABLE)


class Damaged(Exception):
    """A file of an archive whose bytes cannot be read: they are not those that were packed."""


def is_safe(name: str) -> bool:
    """Whether a name stays inside the archive: relative, no "..", no backslash, no drive, no folder, plain letters."""
    parts = PurePosixPath(name).parts
    return bool(parts) and "/".join(parts) == name and name.isascii() and all(map(_SAFE.fullmatch, parts))
