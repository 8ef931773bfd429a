"""A search as it went: each run at its rate with its verdict, and the interval that was left after it."""

from __future__ import annotations

import altair as alt

from twinlens.record.beside import SearchRecord, SearchResult
from twinlens.reporting.chart.figure import INK, STEADY, WIDTH, Figure, data, figure, log_marks
from twinlens.reporting.search import search_interval, slo_words, swept_point
from twinlens.reporting.view import runs_word
from twinlens.stats.search.trial import so_far

# Okabe and Ito's green, vermilion and grey; the shapes say the same without colour.
_MARKS = {
    "pass": ("#009E73", "circle"),
    "fail": ("#D55E00", "cross"),
    "inconclusive": ("#767676", "diamond"),
    "invalid": (INK, "triangle-down"),
}


def search_chart(record: SearchRecord, result: SearchResult, anchor: str) -> Figure | None:
    """The values that were tried, in order, over the interval known by then."""
    if not result.tried:
        return None
    rows = [
        {"n": number, "value": trial.value, "verdict": trial.verdict, "word": f"{trial.value:g}"}
        for number, trial in enumerate(result.tried, start=1)
    ]
    values = [trial.value for trial in result.tried]
    low, high = min(values) / 1.25, max(values) * 1.25
    bands = []
    for number in range(1, len(result.tried) + 1):
        known = so_far(result.tried[:number], record.search, record.slo)
        bands.append({"from": number - 0.5, "to": number + 0.5, "low": known.low or low, "high": known.high or high})
    y_scale = alt.Scale(type="log", domain=[low, high], nice=False)
    x = alt.X(
        "n:Q", title="run of the search",
        scale=alt.Scale(domain=[0.5, len(rows) + 0.5], nice=False),
        axis=alt.Axis(values=list(range(1, len(rows) + 1)), format="d", grid=False),
    )  # fmt: skip
    marks = alt.Axis(values=log_marks(low, high))
    y = alt.Y("value:Q", title=f"{record.search.unit} (log scale)", scale=y_scale, axis=marks)
    verdicts = [verdict for verdict in _MARKS if any(row["verdict"] == verdict for row in rows)]
    hue = alt.Color("verdict:N", title=None, scale=alt.Scale(domain=verdicts, range=[_MARKS[v][0] for v in verdicts]))
    shape = alt.Shape("verdict:N", title=None, scale=alt.Scale(domain=verdicts, range=[_MARKS[v][1] for v in verdicts]))
    band = alt.Chart(data(bands)).mark_rect(color=STEADY).encode(
        x=alt.X("from:Q", title="run of the search"), x2=alt.X2("to:Q"), y=alt.Y("low:Q", scale=y_scale),
        y2=alt.Y2("high:Q"),
    )  # fmt: skip
    base = alt.Chart(data(rows))
    points = base.mark_point(filled=True, size=90, opacity=1).encode(x=x, y=y, color=hue, shape=shape)
    words = base.mark_text(dy=-13, fontSize=14, color=INK).encode(x=x, y=y, text=alt.Text("word:N"))
    chart = alt.layer(band, points, words).properties(width=WIDTH, height=220)
    name = swept_point(result)
    lead, interval = f"{name}: the" if name else "The", search_interval(result, record.search.unit)
    title = f"{lead} highest within the SLO is in {interval}."
    if result.low is None or result.high is None:
        title = f"{lead} highest within the SLO: {interval}."
    caption = (
        f"{runs_word(len(rows))} in the order in which they were made; the band is what was left after each. "
        f"SLO: {slo_words(record)}."
    )
    return figure(anchor, chart, title, caption)
