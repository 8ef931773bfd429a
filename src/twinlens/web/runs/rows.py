"""`/runs/{id}/rows`: the rows of a run as they were written, a page at a time, read where they lie.

The checksums beside a file of rows say where each batch ends, so a page of a million rows is found without reading the
others. Bytes may be anybody's: each batch that is shown is validated in full.
"""

from __future__ import annotations

import asyncio
from array import array
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aiohttp import web

from twinlens.errors import BadInput
from twinlens.reporting.display import clean
from twinlens.web.page import Answer, respond
from twinlens.web.runs.index import Found, index_of
from twinlens.web.runs.notes import CODE
from twinlens.web.runs.reading import refuse_links
from twinlens.web.runs.run_page import found_of

if TYPE_CHECKING:  # heavy
    import pyarrow as pa

PER_PAGE = 100
FILES = {"steps": "Steps", "requests": "Requests", "exchanges": "Exchanges", "telemetry": "Telemetry",
         "server": "Server samples"}  # fmt: skip
_MOST_BATCH_BYTES = 256 * 2**20


@dataclass(frozen=True, slots=True)
class Rows:
    """A page of rows. `total`: as the checksums count them; None where the run has none, of an older version."""

    file: str
    files: tuple[str, ...]
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    first: int
    total: int | None

    @property
    def after(self) -> int | None:
        end = self.first + len(self.rows)
        return end if len(self.rows) == PER_PAGE and (self.total is None or end < self.total) else None


async def rows_page(request: web.Request) -> web.Response:
    found = found_of(request, index_of(request))
    word = request.query.get("from", "0")
    if not (word.isascii() and word.isdecimal() and len(word) < 16):
        raise BadInput(f"from is the number of a row, from 0, not {word[:40]!r}", code=CODE)
    shown = await asyncio.to_thread(rows_of, found, request.query.get("file", ""), int(word))
    answer = Answer(
        f"Rows of {clean(found.name, 120)}",
        below="rows.html.j2",
        values={"shown": shown, "id": found.id, "titles": FILES, "per_page": PER_PAGE},
        json=lambda: {
            "id": found.id, "file": shown.file, "from": shown.first, "total": shown.total,
            "rows": [dict(zip(shown.columns, each, strict=True)) for each in shown.rows],
        },
        styles=("runs.css",),
        command=("twinlens", "show", found.path, "--parquet", "rows.parquet"),
        python=f"import twinlens as tl\n\ntl.rows(*tl.read({found.path!r}))",
    )  # fmt: skip
    return respond(request, answer)


def rows_of(found: Found, file: str, first: int) -> Rows:
    """Rows from `first` on. Raises BadInput (TL269) where there are none, or their bytes are damaged."""
    import pyarrow as pa

    try:
        refuse_links(found.path)
        there = tuple(each for each in FILES if Path(found.path, f"{each}.arrows").is_file())
        if not there:
            raise BadInput(f"{clean(found.name, 120)} has no rows", code=CODE)
        name = file if file in there else there[0]
        return _page(Path(found.path, f"{name}.arrows"), name, there, first)
    except (OSError, ValueError, OverflowError, MemoryError, pa.ArrowException) as error:
        if isinstance(error, BadInput):
            raise
        raise BadInput(f"the rows of {clean(found.name, 120)} cannot be read: {clean(error, 200)}", code=CODE) from None


def _page(path: Path, name: str, there: tuple[str, ...], first: int) -> Rows:
    ends, end_bytes = _marked(path)
    total = ends[-1] if len(ends) > 1 else None
    start = bisect_right(ends, first) - 1
    begins_at, before = end_bytes[start], ends[start]
    rows: list[tuple[Any, ...]] = []
    columns: tuple[str, ...] = ()
    for batch in _batches(path, begins_at):
        columns = columns or tuple(clean(each, 60) for each in batch.schema.names)
        if before + len(batch) > first:
            cut = batch.slice(max(0, first - before), PER_PAGE - len(rows))
            cut.validate(full=True)
            rows += [tuple(map(_plain, each.values())) for each in cut.to_pylist()]
        before += len(batch)
        if len(rows) >= PER_PAGE:
            break
    return Rows(name, there, columns, tuple(rows), first, total)


def _marked(path: Path) -> tuple[array[int], array[int]]:
    """Rows and bytes up to each batch, from 0 on, as the checksums say; 0 alone where there are none."""
    from twinlens.record.checksum import marks_path

    try:
        seen = marks_path(path).stat()
    except FileNotFoundError:
        return array("q", [0]), array("q", [0])
    return _kept_marks(path, seen.st_mtime_ns, seen.st_size)


@lru_cache(maxsize=4)
def _kept_marks(path: Path, changed_ns: int, size: int) -> tuple[array[int], array[int]]:
    """Of a file as it was then: a run of a million rows has twenty thousand, and pages are turned."""
    from twinlens.record.checksum import read_marks

    marks = read_marks(path)
    return array("q", [0, *(each.rows for each in marks)]), array("q", [0, *(each.end_byte for each in marks)])


def _batches(path: Path, begins_at: int) -> Iterator[pa.RecordBatch]:
    """Batches of a stream from a byte on; a torn end is the end."""
    import pyarrow as pa

    if path.stat().st_size == 0:
        return
    with pa.memory_map(str(path)) as source:
        reader = pa.ipc.open_stream(source)
        schema = reader.schema
        if begins_at:
            if not 0 < begins_at <= source.size():
                raise ValueError("its checksums lead out of it")
            source.seek(begins_at)
        while True:
            try:
                message = pa.ipc.read_message(source)
                if message.body is not None and message.body.size > _MOST_BATCH_BYTES:
                    raise ValueError("a batch of it is larger than 256 MiB")
                if message.type != "record batch":
                    continue
                yield pa.ipc.read_record_batch(message, schema)
            except (EOFError, StopIteration):
                return


def _plain(value: Any) -> Any:
    """A value as JSON holds it; of a list of many the first and last, and how many there are."""
    if isinstance(value, list):
        return value if len(value) <= 4 else [*value[:2], f"… {len(value) - 3} more …", value[-1]]
    if isinstance(value, float):
        return value if value - value == 0 else str(value)
    return value if value is None or isinstance(value, bool | int | str) else clean(value, 200)
