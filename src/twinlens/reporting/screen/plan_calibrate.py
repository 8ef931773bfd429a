"""Calibration on one screen: each measured time beside the public constants and the own ones."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from rich.console import Group as Stack
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from twinlens.reporting.text.footnote import hanging
from twinlens.units import SECONDS, show

Row = tuple[str, str, float, float, float]


def calibrate_screen(rows: Sequence[Row], left_out: Sequence[tuple[str, str]], written: str | None) -> RenderableType:
    """`rows`: run, metric, and seconds measured, by the public constants, by the own ones."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name, side in (("run", "left"), ("", "left"), ("measured", "right"), ("public", "right"), ("own", "right")):
        table.add_column(name, justify="left" if side == "left" else "right", no_wrap=name != "run")
    for run, metric, measured, public, own in rows:
        table.add_row(Text(run), metric.upper(), *(show(each, SECONDS) for each in (measured, public, own)))
    lines: list[RenderableType] = [hanging("", _head(rows), "bold"), table]
    lines += [hanging("", f"Left out: {run} {why}.", "") for run, why in left_out]
    end = f"Written to {written}." if written else "Nothing is written; -o FILE keeps the constants."
    lines.append(hanging("", end, ""))
    return Stack(*lines)


def _head(rows: Sequence[Row]) -> str:
    public = median(abs(said / measured - 1) for _, _, measured, said, _ in rows)
    own = median(abs(said / measured - 1) for _, _, measured, _, said in rows)
    many = f"{len(rows)} measured times" if len(rows) > 1 else "1 measured time"
    return f"The public constants are off by {public:.0%} (median of {many}), your own by {own:.0%}."
