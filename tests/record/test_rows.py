"""Rows on disk: what goes in comes out, and what a crash or a full disk leaves is readable."""

from __future__ import annotations

import errno
import math
import os
import resource
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import get_args
from unittest import mock

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from twinlens.errors import BadInput, ExecutorFailed
from twinlens.record.arrow import RowWriter, read_rows
from twinlens.record.checksum import marks_path
from twinlens.record.request import REQUEST_SCHEMA, Request, RequestOutcome, Requests
from twinlens.record.step import STEP_SCHEMA, Marks, Steps

PLACES = st.integers(0, 2**20)  # taken modulo the length: how long a file is depends on when its batches were flushed
ns = st.integers(0, 2**62)
counts = st.integers(0, 2**31 - 1)
phase = st.none() | st.integers(0, 2**53)  # columns of phases are floats, exact up to 104 days
marks = st.builds(
    Marks, ns, ns, counts, counts, st.none() | st.floats(allow_nan=False), phase, phase, phase, phase, phase,
    st.sampled_from(["step", "evaluate"]), st.none() | st.text(max_size=9),
)  # fmt: skip
chunks = st.lists(st.tuples(ns, counts), max_size=5).map(lambda pairs: tuple(zip(*pairs, strict=True)) or ((), ()))
requests = st.builds(
    lambda group, times, chunk, lengths, outcome: Request(group, *times[:2], *chunk, times[2], *lengths, outcome),
    ns, st.tuples(ns, ns, ns), chunks, st.tuples(counts, counts), st.sampled_from(get_args(RequestOutcome)),
)  # fmt: skip


@contextmanager
def a_file() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder) / "rows.arrows"


@settings(max_examples=60, deadline=None)
@given(st.lists(marks, max_size=40), st.integers(1, 9))
def test_steps_come_back_as_they_were_written(rows: list[Marks], most: int) -> None:
    with a_file() as path:
        with RowWriter(path, STEP_SCHEMA, most) as writer:
            writer.add_all(rows)
        table = read_rows(path, STEP_SCHEMA)
        assert [Marks(**row) for row in table.to_pylist()] == rows
        columns = Steps.from_table(table)
        assert columns.begin_ns.tolist() == [row.begin_ns for row in rows]
        assert columns.tag.tolist() == [row.tag for row in rows]


@settings(max_examples=60, deadline=None)
@given(st.lists(requests, max_size=40), st.integers(1, 9))
def test_requests_come_back_as_they_were_written(rows: list[Request], most: int) -> None:
    with a_file() as path:
        with RowWriter(path, REQUEST_SCHEMA, most) as writer:
            writer.add_all(rows)
        table = read_rows(path, REQUEST_SCHEMA)
        back = [Request(**r | {k: tuple(r[k]) for k in ("chunk_ns", "chunk_tokens")}) for r in table.to_pylist()]
        assert back == rows
        columns = Requests.from_table(table)
        for i, row in enumerate(rows):
            assert tuple(columns.chunk_ns[columns.offsets[i] : columns.offsets[i + 1]].tolist()) == row.chunk_ns
            assert columns.outcome[i] == row.outcome


def step(number: int) -> Marks:
    return Marks(number * 10, number * 10 + 9, 4, 128, 1.0)


def test_rows_are_readable_before_the_writer_is_closed(tmp_path: Path) -> None:
    path = tmp_path / "steps.arrows"
    writer = RowWriter(path, STEP_SCHEMA, most=2)
    writer.add_all(map(step, range(5)))
    assert read_rows(path, STEP_SCHEMA).num_rows == 4
    writer.flush()
    assert read_rows(path, STEP_SCHEMA).num_rows == 5
    writer.close()


def killed_before_its_end(path: Path) -> None:
    """The checksums that a killed writer leaves: without the line that says the end."""
    lines = marks_path(path).read_text().splitlines(keepends=True)
    assert lines.pop().endswith("end\n")
    marks_path(path).write_text("".join(lines))


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_wherever_the_end_is_torn_off_whole_batches_are_left(data: st.DataObject) -> None:
    with a_file() as path, mock.patch("twinlens.record.arrow._FLUSH_S", math.inf):  # a slow disk flushes in between
        ends = []
        with RowWriter(path, STEP_SCHEMA, most=3) as writer:
            for number in range(12):
                writer.add(step(number))
                if number % 3 == 2:
                    ends.append(path.stat().st_size)
        killed_before_its_end(path)
        whole = path.read_bytes()
        cut = data.draw(PLACES) % (len(whole) + 1)
        path.write_bytes(whole[:cut])
        kept = 3 * sum(end <= cut for end in ends)
        rows = read_rows(path, STEP_SCHEMA)
        assert rows.num_rows == kept
        assert [Marks(**row) for row in rows.to_pylist()] == [step(n) for n in range(kept)]


@pytest.mark.parametrize("content", [None, b"", b"not an Arrow stream", bytes(64)])
def test_a_file_that_is_missing_empty_or_garbage_has_no_rows(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "steps.arrows"
    if content is not None:
        path.write_bytes(content)
    table = read_rows(path, STEP_SCHEMA)
    assert table.num_rows == 0
    assert len(Steps.from_table(table)) == 0


def written(path: Path, count: int = 24, most: int = 4) -> bytes:
    with RowWriter(path, STEP_SCHEMA, most) as writer:
        writer.add_all(map(step, range(count)))
    return path.read_bytes()


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_a_flipped_bit_anywhere_in_written_rows_is_an_error(data: st.DataObject) -> None:
    with a_file() as path:
        whole = bytearray(written(path))
        bit = data.draw(PLACES) % (8 * len(whole))
        whole[bit // 8] ^= 1 << bit % 8
        path.write_bytes(whole)
        with pytest.raises(BadInput, match=r"is damaged \(.*\); restore it from a copy, or measure") as found:
            read_rows(path, STEP_SCHEMA)
        assert found.value.code == "TL220"
        assert str(path) in str(found.value)


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_flipped_bytes_of_an_older_run_are_an_error_or_readable_rows_and_never_a_crash(data: st.DataObject) -> None:
    """Without checksums a changed value cannot be seen; what could not have been written can."""
    with a_file() as path:
        with RowWriter(path, REQUEST_SCHEMA, 3) as writer:
            for n in range(9):
                writer.add(Request(n, n, n, (n, n + 1), (1, 1), n + 2, 3, 2, "ok", error="why"))
        marks_path(path).unlink()
        whole = bytearray(path.read_bytes())
        for place in data.draw(st.lists(PLACES, min_size=1, max_size=4)):
            whole[place % len(whole)] = data.draw(st.integers(0, 255))
        path.write_bytes(whole)
        try:
            table = read_rows(path, REQUEST_SCHEMA, whole=True)
        except BadInput as error:
            assert error.code == "TL220"  # noqa: PT017  # either is right: read whole, or refused with this code
            return
        assert len(Requests.from_table(table)) == len(table.to_pylist())


def test_an_offset_beyond_its_values_is_an_error_and_not_a_crash(tmp_path: Path) -> None:
    """Arrow uses offsets unchecked: this one reads 8 GB past the end of the chunks."""
    path = tmp_path / "requests.arrows"
    row = Request(0, 1, 2, (3, 4), (1, 1), 5, 3, 2)
    with RowWriter(path, REQUEST_SCHEMA) as writer:
        writer.add(row)
    marks_path(path).unlink()
    whole = path.read_bytes()
    offsets, wrong = ((0).to_bytes(4, "little") + end.to_bytes(4, "little") for end in (2, 2**30))
    at = whole.index((3).to_bytes(8, "little") + (4).to_bytes(8, "little"))  # the times, right after their offsets
    begin = whole.rindex(offsets, 0, at)
    path.write_bytes(whole[:begin] + wrong + whole[begin + 8 :])
    with pytest.raises(BadInput, match="is damaged"):
        read_rows(path, REQUEST_SCHEMA)


@pytest.mark.parametrize("keep_bytes", [0, 700, 3000])
@pytest.mark.parametrize("with_marks", [True, False], ids=["of this version", "of an older one"])
def test_a_finished_file_with_a_part_missing_is_an_error(tmp_path: Path, keep_bytes: int, with_marks: bool) -> None:
    path = tmp_path / "steps.arrows"
    path.write_bytes(written(path)[:keep_bytes])
    if not with_marks:
        marks_path(path).unlink()
    with pytest.raises(BadInput, match="is damaged") as found:
        read_rows(path, STEP_SCHEMA, whole=True, least=24)
    assert found.value.code == "TL220"


def test_a_column_of_another_type_and_one_that_every_row_has_are_named(tmp_path: Path) -> None:
    path = tmp_path / "steps.arrows"
    table = pa.table({"kind": ["step"], "begin_ns": ["0"]})
    for columns, says in ((["kind"], "no column 'begin_ns'"), (["kind", "begin_ns"], "'begin_ns' is string")):
        with pa.ipc.new_stream(str(path), table.select(columns).schema) as stream:
            stream.write_table(table.select(columns))
        with pytest.raises(BadInput, match=says):
            read_rows(path, STEP_SCHEMA)


def test_a_column_younger_than_a_run_is_empty_in_it(tmp_path: Path) -> None:
    path = tmp_path / "requests.arrows"
    old = pa.schema(list(REQUEST_SCHEMA)[:9])
    with RowWriter(path, old) as writer:
        writer.add({n: getattr(Request(0, 1, 2, (3,), (1,), 5, 3, 1), n) for n in old.names})
    table = read_rows(path, REQUEST_SCHEMA, whole=True)
    assert table.column("status").to_pylist() == [None]
    assert len(Requests.from_table(table)) == 1


def test_checksums_that_are_no_checksums_are_named(tmp_path: Path) -> None:
    path = tmp_path / "steps.arrows"
    written(path)
    marks_path(path).write_text("nonsense\n")
    with pytest.raises(BadInput, match=r"steps\.arrows\.crc32 is damaged"):
        read_rows(path, STEP_SCHEMA)


@contextmanager
def no_more_than(size_bytes: int) -> Iterator[None]:
    """Every write past this size fails, as on a full disk."""
    before, handler = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


def test_when_nothing_more_can_be_written_earlier_rows_are_kept_and_counted(tmp_path: Path) -> None:
    path = tmp_path / "steps.arrows"
    writer = RowWriter(path, STEP_SCHEMA, most=100)
    rows = list(map(step, range(20_000)))
    with no_more_than(64 * 1024):
        with pytest.raises(ExecutorFailed, match=r"cannot write .*rows are kept") as failed:
            writer.add_all(rows)
        writer.close()  # must not raise again: the first sentence is the one that says what happened
    assert failed.value.code == "TL301"
    assert "\n" not in str(failed.value)
    kept = read_rows(path, STEP_SCHEMA).num_rows
    assert 0 < kept < len(rows)
    assert f"; {kept} rows are kept" in str(failed.value)


def test_a_full_disk_is_named_as_one(tmp_path: Path) -> None:
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("this system has no /dev/full")
    writer = RowWriter(full, STEP_SCHEMA)
    writer.add(step(0))
    with pytest.raises(ExecutorFailed, match=r"the disk is full.*0 rows are kept: free some space"):
        writer.flush()
    writer.close()


def test_an_errno_of_its_own_is_said_as_the_system_says_it() -> None:
    from twinlens.record.arrow import _disk_error

    failed = _disk_error(Path("rows"), OSError(errno.EDQUOT, os.strerror(errno.EDQUOT)), 7)
    assert "7 rows are kept" in str(failed)
    assert "uota" in str(failed)


_WRITES = """
import sys
from pathlib import Path
from twinlens.record.arrow import RowWriter
from twinlens.record.request import REQUEST_SCHEMA, Request

with RowWriter(Path(sys.argv[1]), REQUEST_SCHEMA) as rows:
    before = set(sys.modules)
    rows.add(Request(0, 0, 0, (1, 2), (1, 1), 2, 5, 2))
    rows.flush()
    print(sorted(set(sys.modules) - before))
"""


def test_rows_import_nothing_while_a_run_is_on(tmp_path: Path) -> None:
    """pyarrow imports pandas at its first array, for 0.2 s, in which a client would send nothing."""
    words = [sys.executable, "-c", _WRITES, str(tmp_path / "rows.arrows")]
    found = subprocess.run(words, capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
