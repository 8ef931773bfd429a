"""Rows of a log on the clock of those who read it, so that they stand beside what was sampled meanwhile. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from twinlens.record.step import Marks

TOLERANCE_NS = 250_000_000
"""A line may come so much later than the steps before it add up to: the poll, and the last digits of its times."""


def placed(rows: Iterable[tuple[Marks, int]]) -> Iterator[Marks]:
    """Each row as long as the log says, and where its line came. Rows with when their line was read, in ns from the
    start of the run.

    Rows follow each other. Where the next line comes later than its step takes, a row "between" stands for what lies
    before it, an evaluation or a save. Of lines that came together the last one tells when; the first to come alone
    places the others, and those before it, or from before the start, are left out. A row is given when the next comes.
    """
    end_ns: int | None = None
    has_begun = False
    for marks, came_ns, is_last in _with_last(rows):
        length_ns = marks.end_ns - marks.begin_ns
        if end_ns is None:
            if not is_last:
                continue
            end_ns = came_ns - length_ns
        elif is_last and (gap_ns := came_ns - length_ns - end_ns) > TOLERANCE_NS:
            if has_begun:
                yield Marks(end_ns, end_ns + gap_ns, samples=0, tokens=0, kind="between")
            end_ns += gap_ns
        begin_ns, end_ns = end_ns, end_ns + length_ns
        if has_begun := begin_ns >= 0:
            yield replace(marks, begin_ns=begin_ns, end_ns=end_ns)


def _with_last(rows: Iterable[tuple[Marks, int]]) -> Iterator[tuple[Marks, int, bool]]:
    """Whether a row is the last of those whose lines came together."""
    before: tuple[Marks, int] | None = None
    for row in rows:
        if before is not None:
            yield (*before, before[1] != row[1])
        before = row
    if before is not None:
        yield (*before, True)
