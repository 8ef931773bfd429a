"""Bars of a plan: named figures of one unit, from zero, with their bands and a limit that is drawn across them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt

from twinlens.planning.figure import Figure as Planned
from twinlens.reporting.chart.figure import INK, PART_COLOURS, WIDTH, Figure, data, figure
from twinlens.reporting.display import clean

_BLUE, _RED = PART_COLOURS[1], "#D55E00"
Bar = tuple[str, Planned]


def plan_bars(
    anchor: str, bars: Sequence[Bar], axis: str, title: str, caption: str, *, divisor: float = 1.0,
    limit: float | None = None,
) -> Figure | None:  # fmt: skip
    """A bar for each figure that has a value, in `axis` units of `divisor`; None where none has one.

    Where the band of a figure is known a line shows it; `limit` is a dashed line.
    """
    rows = [_row(name, each, divisor) for name, each in bars if each.value is not None]
    if not rows:
        return None
    ends = [float(row[key]) for row in rows for key in ("value", "low", "high")]
    least, most = min(0.0, *ends), max(0.0, *ends, (limit or 0.0) / divisor)
    reach = alt.Scale(domain=[least, most + 0.3 * (most - least or 1.0)], nice=False)
    y = alt.Y("name:N", sort=[row["name"] for row in rows], title=None, axis=alt.Axis(domain=False, ticks=False))
    base = alt.Chart(data(rows)).encode(y=y)
    drawn = base.mark_bar(height=18, color=_BLUE).encode(x=alt.X("value:Q", title=axis, scale=reach))
    lines = base.mark_rule(color=INK, strokeWidth=2).encode(x="low:Q", x2="high:Q")
    words = base.mark_text(align="left", dx=8, fontSize=14, color=INK).encode(x="end:Q", text="text:N")
    parts: list[Any] = [drawn, lines, words]
    if limit is not None:
        across = alt.Chart(data([{"at": limit / divisor}]))
        parts.append(across.mark_rule(color=_RED, strokeDash=[5, 3], strokeWidth=2).encode(x="at:Q"))
    chart = alt.layer(*parts).properties(width=WIDTH, height=alt.Step(34))
    return figure(anchor, chart, title, caption)


def _row(name: str, each: Planned, divisor: float) -> dict[str, Any]:
    value = float(each.value or 0) / divisor
    low, high = (value if end is None else float(end) / divisor for end in (each.low, each.high))
    return {"name": clean(name, 40), "value": value, "low": low, "high": high, "end": max(0.0, high),
            "text": f"{value:,.3g}" if abs(value) < 1000 else f"{value:,.0f}"}  # fmt: skip
