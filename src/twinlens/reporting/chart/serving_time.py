"""A served run against time: requests due and done, in flight, waiting at the server, and its cache."""

from __future__ import annotations

from typing import Any

import altair as alt
import numpy as np
from numpy.typing import NDArray

from twinlens.record.run import Run
from twinlens.reporting.chart.figure import INK, SOFT, WARM, WIDTH, Figure, data, figure
from twinlens.reporting.load_kind import fault_of
from twinlens.reporting.view import Entry
from twinlens.reporting.wording.finding import label_words
from twinlens.stats.steady.slope import in_flight
from twinlens.stats.summary.group import Summary

_BINS = 80
_HEIGHT = 84
_DUE, _DONE, _FLIGHT, _RUNNING, _WAITING, _KV = "#767676", "#0072B2", INK, "#009E73", "#D55E00", "#CC79A7"
Series = tuple[str, str, NDArray[np.float64], NDArray[np.float64]]  # name, colour, seconds, values


def serving_timeline(entry: Entry, anchor: str) -> Figure | None:
    """One run of a point: the first that has rows. Shaded: before the window, where nothing is counted."""
    chosen = next(((run, summary) for run, summary in entry.material if len(run.requests)), None)
    if chosen is None:
        return None
    run, summary = chosen
    rates, flight, cache = _rates(run), _flight(run), _cache(run)
    last = max(float(series[2][-1]) for series in [*rates, *flight, *cache])
    stack = [(rates, "requests/s", None), (flight, "requests", None), *([(cache, "KV use", 1.0)] if cache else [])]
    panels = [
        _panel(lines, title, summary, last, top, is_last=number == len(stack))
        for number, (lines, title, top) in enumerate(stack, start=1)
    ]
    chart = alt.vconcat(*panels, spacing=10).resolve_scale(color="independent", x="shared")
    state = f"is {label_words(entry.group.label)}" if entry.group.ranked else f"is not valid: {fault_of(entry.group)}"
    which = "" if len(entry.material) == 1 else f" Repeat {summary.repeat + 1} of {len(entry.material)}."
    seen = (
        "Waiting and running are the server's own figures."
        if len(flight) > 1
        else "The server's own queue was not read."
    )
    caption = f"Rates in stretches of {last / _BINS:.2g} s. Shaded: before the window, not counted. {seen}{which}"
    return figure(anchor, chart, f"{entry.name} {state}.", caption)


def _rates(run: Run) -> list[Series]:
    rows = run.requests
    edges = np.linspace(0, float(rows.end_ns.max()), _BINS + 1)
    width_s = (edges[1] - edges[0]) / 1e9
    middle = (edges[:-1] + edges[1:]) / 2e9
    due, done = (np.histogram(times, edges)[0] / width_s for times in (rows.intended_ns, rows.end_ns[rows.ok]))
    return [("due", _DUE, middle, due), ("done", _DONE, middle, done)]


def _flight(run: Run) -> list[Series]:
    rows = run.requests
    edges = np.linspace(0, float(rows.end_ns.max()), 2 * _BINS + 1).astype(np.int64)
    level = in_flight(rows.intended_ns, rows.end_ns, edges)
    lines: list[Series] = [("in flight, from intent", _FLIGHT, (edges[:-1] + edges[1:]) / 2e9, level)]
    for name, hue in (("running", _RUNNING), ("waiting", _WAITING)):
        at_s, values = _sampled(run, name)
        if values.size:
            lines.append((f"{name} (server)", hue, at_s, values))
    return lines


def _cache(run: Run) -> list[Series]:
    at_s, values = _sampled(run, "kv_use")
    return [("KV cache in use (server)", _KV, at_s, values)] if values.size else []


def _sampled(run: Run, name: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """(seconds, values) of one of the server's own figures inside the run, where it was read."""
    table = run.server_samples
    at_s = np.asarray(table.column("time_ns").to_numpy(), dtype=float) / 1e9
    values = np.asarray(table.column(name).to_numpy(zero_copy_only=False), dtype=float)
    last_s = float(run.requests.end_ns.max()) / 1e9
    known = np.isfinite(values) & (at_s >= 0) & (at_s <= last_s)
    step = max(1, int(known.sum()) // (4 * _BINS))
    return at_s[known][::step], values[known][::step]


def _panel(drawn: list[Series], title: str, summary: Summary, last: float, top: float | None, *, is_last: bool) -> Any:
    names = [series[0] for series in drawn]
    rows = [
        {"s": float(a), "value": float(b), "name": name}
        for name, _, at_s, values in drawn
        for a, b in zip(at_s, values, strict=True)
    ]
    most = top if top is not None else max(1e-9, max(float(series[3].max()) for series in drawn)) * 1.12
    when = "time since the start (s)" if is_last else None
    x = alt.X(
        "s:Q",
        title=when,
        scale=alt.Scale(domain=[0, last], nice=False),
        axis=alt.Axis(grid=False, labels=is_last, ticks=is_last),
    )
    y = alt.Y(
        "value:Q", title=title, scale=alt.Scale(domain=[0, most], nice=False), axis=alt.Axis(tickCount=3, minExtent=34)
    )
    hue = alt.Color(
        "name:N", title=None, sort=names, scale=alt.Scale(domain=names, range=[series[1] for series in drawn]),
        legend=alt.Legend(orient="top", columns=3, symbolType="stroke", offset=2, padding=0),
    )  # fmt: skip
    shade = alt.Chart(data([{"from": 0.0, "to": summary.verdict.begin_s}])).mark_rect(color=WARM, opacity=0.8)
    lines = alt.Chart(data(rows)).mark_line(strokeWidth=1.3, clip=True).encode(x=x, y=y, color=hue)
    end = (
        alt.Chart(data([{"s": summary.verdict.end_s}]))
        .mark_rule(color=SOFT, strokeDash=[2, 3])
        .encode(x=alt.X("s:Q", title=when))
    )
    return alt.layer(shade.encode(x=alt.X("from:Q", title=when), x2=alt.X2("to:Q")), lines, end).properties(
        width=WIDTH - 10, height=_HEIGHT
    )
