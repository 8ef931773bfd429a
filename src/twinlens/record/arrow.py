"""Rows on disk: an Arrow IPC stream, appended and flushed as rows end, readable even when its end is missing."""

from __future__ import annotations

import contextlib
import errno
import time
from collections.abc import Iterable
from dataclasses import fields
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa
from pyarrow.types import is_list

from twinlens.errors import BadInput, ExecutorFailed
from twinlens.record.checksum import (
    MarkWriter,
    conformed,
    damaged,
    read_marks,
    refuse_impossible_values,
    refuse_other_bytes,
    refuse_other_schema,
)
from twinlens.system.document import refuse_irregular

_FLUSH_S = 0.2
_END_OF_STREAM = bytes.fromhex("ffffffff00000000")
_READING = pa.ipc.IpcReadOptions(ensure_alignment=pa.ipc.Alignment.DataTypeSpecific)


def make_first_array() -> None:
    """Before a run begins: with the first array pyarrow imports pandas, where there is one, for 0.2 s and more."""
    pa.array(np.zeros(1))


def batch_of(rows: list[dict[str, Any]], schema: pa.Schema) -> pa.RecordBatch:
    """Rows by field name as `RecordBatch.from_pylist` makes them, which takes three times as long for a few."""
    return pa.RecordBatch.from_struct_array(pa.array(rows, pa.struct(schema)))


class RowWriter:
    """Appends rows to one stream. A batch is written when it holds `most` rows or is older than a fifth of a second,

    so a crash loses less than that, and a slow step is on disk before the next one starts. A client writes between two
    requests: 128 rows at once made those due meanwhile 0.8 ms late.
    """

    def __init__(self, path: Path, schema: pa.Schema, most: int = 48) -> None:
        # Arrow's own allocator holds 8 MB back of what a few small batches took; a client with many streams minds.
        pa.set_memory_pool(pa.system_memory_pool())
        make_first_array()
        self._path, self._schema, self._most = path, schema, most
        self._lists = {field.name: field.type.value_type.to_pandas_dtype() for field in schema if is_list(field.type)}
        self._pending: list[dict[str, Any]] = []
        self._flushed_s = time.monotonic()
        self._file = path.open("wb")
        self._marks = MarkWriter(path)
        self._head = [schema.serialize()]  # goes out with the first batch, under the same checksum
        self._failed = False
        self.count = 0
        self.folder = path.parent

    def add(self, row: Any) -> None:
        """Take a dataclass or a mapping with the schema's fields (missing ones are null)."""
        kept = dict(row) if isinstance(row, dict) else {f.name: getattr(row, f.name) for f in fields(row)}
        for name, dtype in self._lists.items():  # now, row by row: a client that sends on time cannot pause for many
            if kept.get(name) is not None:
                kept[name] = np.array(kept[name], dtype)
        self._pending.append(kept)
        self.count += 1
        if len(self._pending) >= self._most or time.monotonic() - self._flushed_s >= _FLUSH_S:
            self.flush()

    def add_all(self, rows: Iterable[Any]) -> None:
        """Take several rows."""
        for row in rows:
            self.add(row)

    def add_table(self, table: pa.Table) -> None:
        """Take rows that are columns already (the schema's) and hand them on at once. Raises as `flush` does."""
        self.flush()
        for batch in table.to_batches():
            self._write(batch, self.count)
            self.count += len(batch)

    def flush(self) -> None:
        """Hand what is pending to the operating system. Raises ExecutorFailed when the disk is full."""
        pending, self._pending, self._flushed_s = self._pending, [], time.monotonic()
        if not pending:
            return
        self._write(batch_of(pending, self._schema), self.count - len(pending))

    def _write(self, batch: pa.RecordBatch, kept: int) -> None:
        self._put([*self._head, batch.serialize()], kept, kept + len(batch))
        self._head = []

    def _put(self, parts: list[pa.Buffer], kept: int, rows: int, *, is_last: bool = False) -> None:
        try:
            for part in parts:
                self._file.write(part)
            self._file.flush()
            self._marks.add(parts, rows, is_last=is_last)
        except OSError as error:
            self._failed = True
            raise _disk_error(self._path, error, kept) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Flush and end the stream. Raises ExecutorFailed when the disk is full, unless a flush has said so before."""
        try:
            if not self._failed:
                self.flush()
                self._end()
        finally:
            with contextlib.suppress(OSError):  # what could not be written cannot be written now
                self._file.close()

    def _end(self) -> None:
        self._put([*self._head, _END_OF_STREAM], self.count, self.count, is_last=True)


def read_rows(path: Path, schema: pa.Schema, *, whole: bool = False, least: int = 0) -> pa.Table:
    """All complete batches of a stream; a torn last batch (a killed run) is left out. A missing file has no rows.

    `whole`: the run finished, so nothing may be torn; `least`: as many rows were written. Raises BadInput (TL220) where
    the bytes are not those that were written, or could not have been.
    """
    try:
        size_bytes = 0
        if path.exists():
            refuse_irregular(path)
            size_bytes = path.stat().st_size
        if not size_bytes:
            table = _nothing(path, schema, whole)
        else:
            with pa.memory_map(str(path)) as source:
                refuse_other_bytes(path, source, size_bytes)
                source.seek(0)
                table = _all_batches(path, source, schema, whole)
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror or error}", code="TL220") from None
    if len(table) < least:
        raise damaged(path, f"it has {len(table)} rows where {least} were written")
    return conformed(table, schema)


def _nothing(path: Path, schema: pa.Schema, whole: bool) -> pa.Table:
    marks = read_marks(path)
    if whole or (marks and marks[-1].is_last):  # a closed writer leaves at least a head and an end
        raise damaged(path, "it is empty or gone")
    return schema.empty_table()


def _all_batches(path: Path, source: pa.NativeFile, schema: pa.Schema, whole: bool) -> pa.Table:
    batches: list[pa.RecordBatch] = []
    written = schema
    try:
        reader = pa.ipc.open_stream(source, options=_READING)
        refuse_other_schema(path, reader.schema, schema)
        written = reader.schema
        while True:
            batches.append(reader.read_next_batch())
    except StopIteration:
        # Arrow takes the end of the file for the end of the stream; a closed writer has said so.
        torn = whole and not _says_its_end(source)
    except (pa.ArrowException, OSError, ValueError, OverflowError, MemoryError) as error:
        torn, how = True, str(error).splitlines()[0][:200]
        if whole:
            raise damaged(path, how) from None
    if whole and torn:
        raise damaged(path, "its end is missing")
    table = pa.Table.from_batches(batches, schema=written)
    refuse_impossible_values(path, table, schema)  # all at once: batch by batch takes ten times as long
    return table


def _says_its_end(source: pa.NativeFile) -> bool:
    end = source.tell()
    source.seek(max(0, end - len(_END_OF_STREAM)))
    return bytes(source.read(len(_END_OF_STREAM))) == _END_OF_STREAM


def _disk_error(path: Path, error: OSError, kept: int) -> ExecutorFailed:
    if error.errno == errno.ENOSPC:
        sentence = f"the disk is full while writing {path}; {kept} rows are kept: free some space and run it again"
    else:
        sentence = f"cannot write {path}: {error.strerror}; {kept} rows are kept"
    return ExecutorFailed(sentence, code="TL301")
