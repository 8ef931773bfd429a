"""Goodput against the rate that was offered."""

from __future__ import annotations

import altair as alt

from twinlens.reporting.chart.figure import WIDTH, Figure, data, figure
from twinlens.reporting.chart.latency import bars, place_axis, point_row, series, slo_of
from twinlens.reporting.load_kind import load_of
from twinlens.reporting.search import limits_of
from twinlens.reporting.view import Entry
from twinlens.units import digits


def goodput_chart(entries: tuple[Entry, ...], anchor: str) -> Figure | None:
    """Good requests per second against the rate offered; on the grey line every request would be good."""
    mine = [entry for entry in entries if load_of(entry.group) == "rate"]
    by_entry = [(entry, entry.group.metrics.get("goodput_per_s")) for entry in mine]
    known = [(entry, good) for entry, good in by_entry if good is not None and good.value is not None]
    if not known:
        return None
    rows = [point_row(entry, good.value or 0.0, good.low, good.high) for entry, good in known]
    most = max(row["at"] for row in rows)
    top = max(max(row["high"], row["value"]) for row in rows) * 1.15
    x = place_axis(rows, "rate")
    y = alt.Y("value:Q", title="goodput (requests/s)", scale=alt.Scale(domain=[0, top], nice=False))
    reach = min(most, top)
    line = alt.Chart(data([{"at": 0.0, "value": 0.0}, {"at": reach, "value": reach}]))
    grey = line.mark_line(color="#BBBBBB", strokeWidth=1.2, strokeDash=[4, 3]).encode(x=x, y=y)
    chart = alt.layer(grey, *series(rows, x, y)).properties(width=WIDTH, height=220)
    best, good = max(known, key=lambda pair: (pair[0].group.ranked, pair[1].value or 0.0))
    slo = slo_of(tuple(mine))
    limits = limits_of(slo) if slo else "of its own SLO"
    title = f"The most goodput is {digits(good.value or 0.0)} requests/s, at {best.name}."
    if not best.group.ranked:
        title = "No valid point has a goodput."
    caption = (
        f"Requests within every limit ({limits}) per second of the window, by when they were due; "
        f"{bars(good for _, good in known)}. On the dashed line every request is good. Hollow points are not valid."
    )
    return figure(anchor, chart, title, caption)
