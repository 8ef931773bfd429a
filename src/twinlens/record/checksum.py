"""Checksums of rows on disk, one for each batch, and full validation of what is read.

Beside FILE.arrows stands FILE.arrows.crc32, one line per batch: the byte at which it ends, the CRC-32 of the bytes
since the line before, in hex, and the rows so far; "end" after that where the writer was closed. A killed run lacks
the end, a run of an older version the file; both stay readable.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow.types import is_list

from twinlens.errors import BadInput
from twinlens.system.document import read_bytes

MARKS = ".crc32"
"""What the name of a file of checksums has beyond that of its rows."""
# What every row has.
_REQUIRED = frozenset(
    [
        "kind",
        "begin_ns",
        "end_ns",
        "samples",
        "tokens",
        "group",
        "intended_ns",
        "sent_ns",
        "chunk_ns",
        "chunk_tokens",
        "input_tokens",
        "output_tokens",
        "outcome",
        "time_ns",
        "source",
        "round_trip_ns",
    ]
)
# A null there was never written; only a talk from a page does not know how long its prompts were.
_NEVER_NULL = _REQUIRED - {"input_tokens"}


@dataclass(frozen=True, slots=True)
class Mark:
    """One batch: the byte after its last, the checksum of its bytes, the rows of the file up to its end."""

    end_byte: int
    crc32: int
    rows: int
    is_last: bool = False

    def line(self) -> bytes:
        return f"{self.end_byte} {self.crc32:08x} {self.rows}{' end' if self.is_last else ''}\n".encode()


def marks_path(rows: Path) -> Path:
    """Where the checksums of a file of rows stand."""
    return rows.with_name(f"{rows.name}{MARKS}")


def read_marks(rows: Path) -> tuple[Mark, ...]:
    """The checksums of a file of rows, without a torn last line; none where it has none. Raises BadInput (TL220)."""
    path = marks_path(rows)
    try:
        lines = read_bytes(path).split(b"\n")[:-1]
        return tuple(_mark(line.split()) for line in lines)
    except FileNotFoundError:
        return ()
    except (OSError, ValueError, IndexError) as error:
        raise damaged(path, f"its checksums cannot be read: {error}") from None


def marks_text(rows: Path, changed: bytes) -> bytes:
    """The checksums of a copy of `rows` whose bytes were changed in place: new where a batch was changed, and whole.

    Damage stays visible: a batch whose checksum is wrong keeps it. Raises BadInput (TL220) and OSError.
    """
    original, begin, lines = rows.read_bytes(), 0, []
    for mark in read_marks(rows):
        batch = slice(begin, mark.end_byte)
        is_new = original[batch] != changed[batch] and zlib.crc32(original[batch]) == mark.crc32
        lines.append(replace(mark, crc32=zlib.crc32(changed[batch])) if is_new else mark)
        begin = mark.end_byte
    return b"".join(line.line() for line in lines)


def _mark(words: list[bytes]) -> Mark:
    if len(words) not in (3, 4) or words[3:] not in ([], [b"end"]):
        raise ValueError("a line is not three words")
    return Mark(int(words[0]), int(words[1], 16), int(words[2]), len(words) == 4)


def refuse_other_bytes(path: Path, source: pa.NativeFile, size_bytes: int) -> None:
    """Raises BadInput (TL220) where the bytes of a file are not those that its checksums were made of."""
    marks, begin = read_marks(path), 0
    for number, mark in enumerate(marks, start=1):
        if mark.end_byte > size_bytes:
            if marks[-1].is_last:
                raise damaged(path, f"it ends at byte {size_bytes} where {marks[-1].end_byte} were written")
            return  # a machine that lost power: the end of the rows is lost, and what is left of them is whole
        source.seek(begin)
        if mark.end_byte < begin or zlib.crc32(source.read_buffer(mark.end_byte - begin)) != mark.crc32:
            raise damaged(path, f"the checksum of batch {number} of {len(marks)} is not that of what was written")
        begin = mark.end_byte


def refuse_other_schema(path: Path, observed: pa.Schema, wanted: pa.Schema) -> None:
    """Raises BadInput (TL220) for columns of another type and for missing ones that every row has."""
    _ = observed.names  # bytes that are no text raise here, where they are heard
    for field in wanted:
        place = observed.get_field_index(field.name)
        if place < 0 and field.name in _REQUIRED:
            raise damaged(path, f"it has no column {field.name!r}")
        if place >= 0 and observed.field(place).type != field.type:
            raise damaged(path, f"column {field.name!r} is {observed.field(place).type}, not {field.type}")


OF = b"of"
"""Key of a field's metadata: what its lists are of."""


def refuse_impossible_values(path: Path, rows: pa.Table, wanted: pa.Schema) -> None:
    """Raises BadInput (TL220) for offsets out of bounds, bytes that are no text, and nulls where there can be none.

    Lists of a row are as long as one another, but for those that the wanted schema puts together (`OF` of a field).
    """
    try:
        rows.validate(full=True)
    except pa.ArrowException as error:
        raise damaged(path, str(error).splitlines()[0][:200]) from None
    lengths: dict[bytes, list[Any]] = {}
    for name, column in zip(rows.column_names, rows.columns, strict=True):
        lists = column.chunks if is_list(column.type) else []
        if (name in _NEVER_NULL and column.null_count) or any(each.flatten().null_count for each in lists):
            raise damaged(path, f"column {name!r} has empty places")
        if is_list(column.type) and column.null_count < len(column):  # a column that these rows have at all
            of = (wanted.field(name).metadata or {}).get(OF, b"") if name in wanted.names else b""
            if lengths.setdefault(of, seen := [each.value_lengths() for each in lists]) != seen:
                raise damaged(path, "the lists of a row differ in length")


def conformed(table: pa.Table, wanted: pa.Schema) -> pa.Table:
    """The same with the columns that a run of an older version does not have, all of them null."""
    for field in wanted:
        if field.name not in table.column_names:
            table = table.append_column(field, pa.nulls(len(table), field.type))
    return table


def damaged(path: Path, how: str) -> BadInput:
    """The error of a file of rows that is not what was written."""
    sentence = f"{path} is damaged ({how}); restore it from a copy, or measure this run again"
    return BadInput(sentence, code="TL220")


class MarkWriter:
    """Appends the checksums of one file of rows; its file is made with the first of them."""

    def __init__(self, rows: Path) -> None:
        self._path = marks_path(rows)
        self._end_byte = 0
        self._fresh = True

    def add(self, data: list[pa.Buffer], rows: int, *, is_last: bool = False) -> None:
        """Note what was just written. Raises OSError."""
        crc = 0
        for part in data:
            crc = zlib.crc32(part, crc)
            self._end_byte += len(part)
        with self._path.open("wb" if self._fresh else "ab") as file:
            file.write(Mark(self._end_byte, crc, rows, is_last).line())
        self._fresh = False
