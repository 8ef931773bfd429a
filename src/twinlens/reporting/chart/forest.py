"""The forest plot of a comparison: the ratio of each metric with its interval, over the band that would hide it."""

from __future__ import annotations

import math
from typing import Any

import altair as alt

from twinlens.comparison.effect import Effect
from twinlens.comparison.verdict import Comparison
from twinlens.reporting import display
from twinlens.reporting.chart.figure import INK, SOFT, WIDTH, Figure, data, figure, log_marks
from twinlens.reporting.comparison import first_rows
from twinlens.reporting.wording.comparison import label_of

_WORDS = {True: "B is worse", False: "B is better", None: "cannot be told apart, or neither way is better"}
_COLOURS = {_WORDS[False]: "#0072B2", _WORDS[True]: "#D55E00", _WORDS[None]: SOFT}
_BAND = "#E3E3E3"
_LEAST_SPAN = 1.1  # the axis reaches at least 10 % either way, so that noise does not look like an effect


def forest_chart(comparison: Comparison, anchor: str) -> Figure | None:
    """Metrics that have a ratio, one line each; None where none has."""
    rows = [_row(effect) for effect in first_rows(comparison) if effect.ratio.value is not None]
    if not rows:
        return None
    ends = [float(row[key]) for row in rows for key in ("low", "high", "band_low", "band_high")]
    span = max(_LEAST_SPAN, *(max(end, 1 / end) for end in ends)) * 1.06
    scale = alt.Scale(type="log", domain=[1 / span, span], nice=False)
    ticks = _ticks(span)
    x = alt.X("ratio:Q", title="B / A (log scale)", scale=scale, axis=alt.Axis(values=ticks, format="~g"))
    y = alt.Y("label:N", sort=[row["label"] for row in rows], title=None, axis=alt.Axis(domain=False, ticks=False))
    hue = alt.Color(
        "way:N", title=None, scale=alt.Scale(domain=list(_COLOURS), range=list(_COLOURS.values())),
        legend=alt.Legend(columns=2, labelLimit=330),
    )  # fmt: skip
    base = alt.Chart(data(rows)).encode(y=y)
    one = alt.Chart(data([{"ratio": 1.0}])).mark_rule(color=INK, strokeWidth=1).encode(x=x)
    chart = alt.layer(
        base.mark_bar(height=20, color=_BAND).encode(x=x.copy(), x2=alt.X2("band_high:Q")).transform_calculate(
            ratio="datum.band_low"
        ),
        one,
        base.mark_rule(strokeWidth=3).encode(x=alt.X("low:Q", scale=scale), x2=alt.X2("high:Q"), color=hue),
        base.mark_point(filled=True, size=90, opacity=1).encode(x=x, color=hue),
    ).properties(width=WIDTH, height=alt.Step(30))  # fmt: skip
    apart = sum(bool(effect.apart) for effect in first_rows(comparison))
    title = f"B against A: {apart} of {len(rows)} metrics can be told apart."
    return figure(anchor, chart, title, _caption(comparison, rows))


def _row(effect: Effect) -> dict[str, Any]:
    ratio, hidden = effect.ratio, min(effect.smallest or 0.0, 10.0)
    value = ratio.value or 1.0
    low, high = (value if bound is None or not 0 < bound < math.inf else bound for bound in (ratio.low, ratio.high))
    return {
        "label": label_of(effect.metric), "ratio": value, "low": low, "high": high,
        "band_low": 1 / (1 + hidden), "band_high": 1 + hidden, "way": _WORDS[effect.is_worse],
    }  # fmt: skip


def _ticks(span: float) -> list[float]:
    marks = log_marks(1 / span, span)
    if len(marks) >= 3:
        return marks
    step = (span - 1) / 2
    digits = max(0, -math.floor(math.log10(step)))
    return sorted({round(1 + at * step, digits) for at in (-1, 0, 1)})


def _caption(comparison: Comparison, rows: list[dict[str, Any]]) -> str:
    counts = [len(side.runs) for side in (comparison.a, comparison.b)]
    without = sum(row["low"] == row["high"] for row in rows)
    bare = f" {without} without interval: too few runs." if without else ""
    left = sum(effect.ratio.value is None for effect in first_rows(comparison))
    absent = f" {left} metrics have no ratio; the table says why." if left else ""
    return display.clean(
        f"Point: ratio of B to A. Line: its 95% interval. Grey band: the noise floor, changes too small for these runs "
        f"to show. Runs: A {counts[0]}, B {counts[1]}.{bare}{absent}",
        400,
    )
