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

from twinlens.errors import ExecutorFailed

_FLUSH_S = 0.2


class RowWriter:
    """Appends rows to one stream. A batch is written when it holds `most` rows or is older than a fifth of a second,

    so a crash loses less than that, and a slow step is on disk before the next one starts.
    """

    def __init__(self, path: Path, schema: pa.Schema, most: int = 128) -> None:
        # Arrow's own allocator holds 8 MB back of what a few small batches took; a client with many streams minds.
        pa.set_memory_pool(pa.system_memory_pool())
        self._path, self._schema, self._most = path, schema, most
        self._lists = {field.name: field.type.value_type.to_pandas_dtype() for field in schema if is_list(field.type)}
        self._pending: list[dict[str, Any]] = []
        self._flushed_s = time.monotonic()
        self._file = path.open("ab")
        self._writer = pa.ipc.new_stream(self._file, schema)
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
        self._write(pa.RecordBatch.from_pylist(pending, schema=self._schema), self.count - len(pending))

    def _write(self, batch: pa.RecordBatch, kept: int) -> None:
        try:
            self._writer.write_batch(batch)
            self._file.flush()
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
        try:
            self._writer.close()
            self._file.flush()
        except OSError as error:
            raise _disk_error(self._path, error, self.count) from error


def read_rows(path: Path, schema: pa.Schema) -> pa.Table:
    """All complete batches of a stream; a torn last batch (a killed run) is left out. A missing file has no rows."""
    batches: list[pa.RecordBatch] = []
    if path.exists() and path.stat().st_size:
        with pa.memory_map(str(path)) as source:
            try:
                reader = pa.ipc.open_stream(source)
                while True:
                    batches.append(reader.read_next_batch())
            except (StopIteration, pa.ArrowInvalid, OSError):
                pass  # the end, or where the crash cut it
    return pa.Table.from_batches(batches, schema=batches[0].schema if batches else schema)


def _disk_error(path: Path, error: OSError, kept: int) -> ExecutorFailed:
    if error.errno == errno.ENOSPC:
        sentence = f"the disk is full while writing {path}; {kept} rows are kept: free some space and run it again"
    else:
        sentence = f"cannot write {path}: {error.strerror}; {kept} rows are kept"
    return ExecutorFailed(sentence, code="TL301")
