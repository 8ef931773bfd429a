"""A history as a chart: each measurement in order of time, the mean of each level, and a rule at each change."""

from __future__ import annotations

import itertools

import altair as alt

from twinlens.comparison.history import History
from twinlens.reporting.chart.figure import INK, SOFT, WIDTH, Figure, data, figure
from twinlens.reporting.palette import colour
from twinlens.reporting.wording.comparison import label_of
from twinlens.reporting.wording.history import date_of, head_words


def history_chart(history: History, anchor: str) -> Figure:
    """Values over the number of the measurement; days are in the table, as nights without one leave no gap here."""
    rows = [{"n": place, "value": each.value} for place, each in enumerate(history.entries, start=1)]
    edges = [0, *(change.shift.at for change in history.changes), len(rows)]
    levels = []
    for start, stop in itertools.pairwise(edges):
        mean = sum(each.value for each in history.entries[start:stop]) / (stop - start)
        levels.append({"from": start + 0.5, "to": stop + 0.5, "mean": mean})
    least, most = (pick(each.value for each in history.entries) for pick in (min, max))
    air = (most - least) / 10 or abs(most) / 10 or 1.0
    scale = alt.Scale(domain=[least - air, most + air], nice=False, zero=False)
    unit = "" if history.unit in label_of(history.metric) else f" ({history.unit})"
    x = alt.X("n:Q", title="measurement", axis=alt.Axis(format="d", tickMinStep=1, grid=False))
    y = alt.Y("value:Q", title=f"{label_of(history.metric)}{unit}", scale=scale)
    hue = colour(str(history.entries[-1].side.group.point["precision"]))
    points = alt.Chart(data(rows)).mark_point(filled=True, size=60, opacity=1, color=hue).encode(x=x, y=y)
    lines = alt.Chart(data(levels)).mark_rule(color=INK, strokeWidth=2).encode(
        x=alt.X("from:Q", title="measurement"), x2=alt.X2("to:Q"), y=alt.Y("mean:Q", scale=scale)
    )  # fmt: skip
    parts = [lines, points]
    if history.changes:
        marks = [{"at": change.shift.at + 0.5} for change in history.changes]
        parts.insert(0, alt.Chart(data(marks)).mark_rule(color=SOFT, strokeDash=[4, 3]).encode(x=alt.X("at:Q")))
    chart = alt.layer(*parts).properties(width=WIDTH, height=220)
    first, last = date_of(history, 0), date_of(history, len(rows) - 1)
    caption = f"From {first} to {last}. Lines: the mean of each level; dashed: where the level changes."
    return figure(anchor, chart, head_words(history), caption)
