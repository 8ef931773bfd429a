"""Bars of a plan: named figures of one unit, from zero, with their bands and a limit that is drawn across them."""

from __future__ import annotations

from typing import Any

import altair as alt

from twinlens.reporting.chart.figure import INK, PART_COLOURS, WIDTH, Figure, data, figure
from twinlens.reporting.display import clean
from twinlens.reporting.document.block import Bar, Bars

_BLUE, _RED = PART_COLOURS[1], "#D55E00"


def bars_chart(block: Bars) -> Figure | None:
    """A bar for each figure that has a value, with its words; None where none has one.

    Where the band of a figure is known a line shows it; the limit is a dashed line.
    """
    rows = [_row(each, block.divisor) for each in block.bars if each.figure.value is not None]
    if not rows:
        return None
    limit = None if block.limit is None else block.limit / block.divisor
    ends = [float(row[key]) for row in rows for key in ("value", "low", "high")]
    least, most = min(0.0, *ends), max(0.0, *ends, limit or 0.0)
    reach = alt.Scale(domain=[least, most + 0.3 * (most - least or 1.0)], nice=False)
    y = alt.Y("name:N", sort=[row["name"] for row in rows], title=None, axis=alt.Axis(domain=False, ticks=False))
    base = alt.Chart(data(rows)).encode(y=y)
    drawn = base.mark_bar(height=18, color=_BLUE).encode(x=alt.X("value:Q", title=block.axis, scale=reach))
    lines = base.mark_rule(color=INK, strokeWidth=2).encode(x="low:Q", x2="high:Q")
    words = base.mark_text(align="left", dx=8, fontSize=14, color=INK).encode(x="end:Q", text="text:N")
    parts: list[Any] = [drawn, lines, words]
    if limit is not None:
        across = alt.Chart(data([{"at": limit}]))
        parts.append(across.mark_rule(color=_RED, strokeDash=[5, 3], strokeWidth=2).encode(x="at:Q"))
    chart = alt.layer(*parts).properties(width=WIDTH, height=alt.Step(34))
    return figure(block.anchor, chart, block.title, block.caption)


def _row(bar: Bar, divisor: float) -> dict[str, Any]:
    each = bar.figure
    value = float(each.value or 0) / divisor
    low, high = (value if end is None else float(end) / divisor for end in (each.low, each.high))
    return {"name": clean(bar.name, 40), "value": value, "low": low, "high": high, "end": max(0.0, high),
            "text": clean(bar.shown, 40)}  # fmt: skip
