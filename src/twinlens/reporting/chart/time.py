"""Charts of time: how steps and latencies are distributed, one line an operating point."""

from __future__ import annotations

from typing import Any

import altair as alt
import numpy as np

from twinlens.reporting.chart.figure import WIDTH, Figure, colours, dashes, data, figure
from twinlens.reporting.chart.series import distribution, steady_times
from twinlens.reporting.view import Entry, LensView, headline
from twinlens.units import scale, show

_TIMES = {
    "training": (("step", "step time"),),
    "inference": (
        ("ttft", "time to first token (TTFT)"),
        ("tpot", "time per output token (TPOT)"),
        ("e2e", "latency of a request"),
    ),
}
_ONE_CHUNK = (("e2e", "latency of a request"),)


def time_charts(lens: LensView, entries: tuple[Entry, ...], anchor: str) -> list[Figure]:
    """The distribution of steady rows' times, one chart a metric, one line an operating point."""
    first = headline(entries[0].group)
    is_image = lens.lens == "inference" and first is not None and "images" in first[0]
    kinds = _ONE_CHUNK if is_image else _TIMES[lens.lens]
    charts = [_time_chart(entries, kind, label, f"{anchor}-{kind}") for kind, label in kinds]
    return [chart for chart in charts if chart is not None]


def _time_chart(entries: tuple[Entry, ...], kind: str, label: str, anchor: str) -> Figure | None:
    values = [(entry, steady_times(entry.material, kind)) for entry in entries]
    values = [(entry, times) for entry, times in values if times.size]
    if not values:
        return None
    every = np.concatenate([times for _, times in values])
    divisor, unit = scale("s", float(np.median(every)))
    rows = []
    for entry, times in values:
        x, share = distribution(times / divisor)
        rows += [{"name": entry.name, "x": float(a), "share": float(b)} for a, b in zip(x, share, strict=True)]
    has_tail = float(every.max()) > 4 * float(every.min()) > 0
    x_scale = alt.Scale(type="log", nice=False) if has_tail else alt.Scale(zero=False)
    names = {entry.name: entry.precision for entry, _ in values}
    chart = alt.Chart(data(rows)).mark_line(interpolate="step-after", strokeWidth=2).encode(
        x=alt.X("x:Q", title=f"{label} ({unit}{', log scale' if has_tail else ''})", scale=x_scale),
        y=alt.Y("share:Q", title="share of rows at or below", axis=alt.Axis(format="%", tickCount=5)),
        color=alt.Color("name:N", scale=colours(names), title=None, sort=list(names)),
        strokeDash=alt.StrokeDash("name:N", sort=list(names), title=None,
                                  scale=alt.Scale(domain=list(names), range=dashes(len(names)))),
    ).properties(width=WIDTH, height=210)  # fmt: skip
    fastest = min(
        [of_entry for of_entry in values if of_entry[0].group.ranked] or values,
        key=lambda pair: float(np.median(pair[1])),
    )
    counts = ", ".join(f"{entry.name} {times.size:,}" for entry, times in values)
    title = f"{fastest[0].name} has the shortest median {label}: {_median(fastest[1])}."
    if not any(entry.group.ranked for entry, _ in values):
        title = f"How the {label} is distributed; none of this is valid."
    elif len(values) == 1:
        title = f"The median {label} of {values[0][0].name} is {_median(values[0][1])}."
    caption = f"Empirical distribution of steady rows, all repeats together (n: {counts}). Left is better."
    return figure(anchor, chart, title, caption)


def _median(times: Any) -> str:
    return show(float(np.median(times)), "s")
