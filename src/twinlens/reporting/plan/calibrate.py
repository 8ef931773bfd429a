"""Document of `plan calibrate`: each measured time beside the public constants and the own ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median

from twinlens.reporting.document.block import Block, Document, Line, Table, cells
from twinlens.units import SECONDS, show

Row = tuple[str, str, float, float, float]
"""Run, metric, and seconds measured, by the public constants, by the own ones."""


def calibrate_document(rows: Sequence[Row], left_out: Sequence[tuple[str, str]], written: str | None) -> Document:
    """`written`: the file that holds the constants now."""
    return Document.of("Plan: calibrate", "Constants of predictions, moved to runs.", _blocks(rows, left_out, written))


def _blocks(rows: Sequence[Row], left_out: Sequence[tuple[str, str]], written: str | None) -> Iterator[Block]:
    public = median(abs(said / measured - 1) for _, _, measured, said, _ in rows)
    own = median(abs(said / measured - 1) for _, _, measured, _, said in rows)
    many = f"{len(rows)} measured times" if len(rows) > 1 else "1 measured time"
    yield Line(f"The public constants are off by {public:.0%} (median of {many}), your own by {own:.0%}.", is_lead=True)
    shown = tuple(
        cells((run, metric.upper(), *(show(each, SECONDS) for each in times))) for run, metric, *times in rows
    )
    sides = ("left", "left", "right", "right", "right")
    yield Table("Measured times beside predicted ones.", ("run", "", "measured", "public", "own"), shown, sides)
    yield from (Line(f"Left out: {run} {why}.") for run, why in left_out)
    yield Line(f"Written to {written}." if written else "Nothing is written; -o FILE keeps the constants.")
