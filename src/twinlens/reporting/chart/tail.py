"""The tail of a latency: the share of requests that took longer, counted from when they were due and from sending."""

from __future__ import annotations

from typing import Any

import altair as alt
import numpy as np
from numpy.typing import NDArray

from twinlens.reporting.chart.figure import Figure, data, figure, log_marks
from twinlens.reporting.display import join_names
from twinlens.reporting.load_kind import place_of
from twinlens.reporting.view import Entry
from twinlens.stats.serving.latency import latency
from twinlens.units import scale, show

_MOST_LINES = 6
# Tol's "iridescent" sequence, dark to light warm: an order of load, told apart without colour vision by lightness too.
_SHADES = ("#46353A", "#6A4C93", "#3F7CAC", "#44A08D", "#C9A227", "#D1495B")
_PANEL = 190
_LONG_NAME = 22  # letters: three such names side by side are wider than both panels
Floats = NDArray[np.float64]


def tail_chart(entries: tuple[Entry, ...], precision: str, anchor: str) -> Figure | None:
    """1 − F of TTFT for the points of one precision, side by side from intent and from send, on logarithmic axes."""
    chosen = _spread([entry for entry in entries if entry.kind == precision])
    lines = [(entry, *_times(entry)) for entry in chosen]
    lines = [(entry, due, sent) for entry, due, sent in lines if np.isfinite(due).any()]
    if not lines:
        return None
    both = [times for _, *pair in lines for times in pair]
    finite = np.concatenate([times[np.isfinite(times) & (times > 0)] for times in both])
    divisor, unit = scale("s", float(np.median(finite)))
    names = [entry.name for entry, *_ in lines]
    least = 1 / max(due.size for _, due, _ in lines)
    span = (float(finite.min()) / divisor * 0.9, float(finite.max()) / divisor * 1.1)
    panels = [
        _panel(_rows(names, times, divisor), names, span, least, f"TTFT {word} ({unit})", word == "from intent")
        for word, times in (("from intent", both[::2]), ("from send", both[1::2]))
    ]
    chart = alt.hconcat(*panels, spacing=18).resolve_scale(color="shared", x="shared", y="shared")
    counts = ", ".join(f"{entry.name} {due.size:,}" for entry, due, _ in lines)
    lost = sum(int(np.isinf(due).sum()) for _, due, _ in lines)
    failed = f" {lost} requests failed: their line ends above the axis." if lost else ""
    return figure(anchor, chart, _title(lines), (
        f"The share of requests that took longer, logarithmic; lower and to the left is better. Where the two panels "
        f"differ, requests waited in the client or a policy before they were sent. n: {counts}.{failed}"
    ))  # fmt: skip


def _spread(entries: list[Entry]) -> list[Entry]:
    """At most six points, evenly over the load, the least and the most among them."""
    ordered = sorted(entries, key=lambda entry: place_of(entry.group))
    if len(ordered) <= _MOST_LINES:
        return ordered
    return [ordered[round(position)] for position in np.linspace(0, len(ordered) - 1, _MOST_LINES)]


def _times(entry: Entry) -> tuple[Floats, Floats]:
    """TTFT in seconds of every request of the windows of all runs, from intent and from send; inf where it failed."""
    due, sent = [np.empty(0)], [np.empty(0)]
    for run, summary in entry.material:
        first, last = summary.verdict.begin_row, summary.verdict.end_row
        rows = np.argsort(run.requests.intended_ns, kind="stable")[first:last]
        times = latency(run.requests, rows)
        due.append(times.ttft_s)
        sent.append(times.ttft_from_send_s)
    return np.concatenate(due), np.concatenate(sent)


def _rows(names: list[str], times: list[Floats], divisor: float) -> list[dict[str, Any]]:
    return [
        {"name": name, "x": float(x) / divisor, "share": float(share)}
        for name, sorted_times in zip(names, times, strict=True)
        for x, share in zip(*_survival(sorted_times), strict=True)
    ]


def _survival(times: Floats, most: int = 120) -> tuple[Floats, Floats]:
    """(value, share above it) of times [n]: as many points in each decade of the share, all of the last ones."""
    ordered = np.sort(times)
    above = np.arange(times.size, 0, -1) / times.size  # the share at or above: what one step before it is above
    known = np.isfinite(ordered) & (ordered > 0)
    ordered, above = ordered[known], above[known]
    if ordered.size <= most:
        return ordered, above
    wanted = np.geomspace(1, ordered.size, most)
    chosen = np.unique(ordered.size - np.round(wanted).astype(np.int64))
    return ordered[chosen], above[chosen]


def _panel(
    rows: list[dict[str, Any]], names: list[str], span: tuple[float, float], least: float, title: str, is_first: bool
) -> Any:
    y = alt.Y(
        "share:Q",
        title="share that took longer" if is_first else None,
        scale=alt.Scale(type="log", domain=[least * 0.8, 1.0], nice=False),
        axis=alt.Axis(values=[1, 0.1, 0.01, 0.001, 0.0001], format="~%", labels=is_first, ticks=is_first),
    )
    marks = alt.Axis(values=log_marks(*span), labelOverlap=True)
    x = alt.X("x:Q", title=title, scale=alt.Scale(type="log", domain=list(span), nice=False), axis=marks)
    shades = alt.Scale(domain=names, range=list(_SHADES[: len(names)]))
    is_long = max(map(len, names)) > _LONG_NAME
    legend = alt.Legend(columns=1, labelLimit=2 * _PANEL) if is_long else alt.Legend()
    hue = alt.Color("name:N", title=None, sort=names, scale=shades, legend=legend)
    lines = alt.Chart(data(rows)).mark_line(interpolate="step-after", strokeWidth=1.8, clip=True)
    return lines.encode(x=x, y=y, color=hue).properties(width=_PANEL, height=230)


def _title(lines: list[tuple[Entry, Floats, Floats]]) -> str:
    """The slowest quantile that the highest ranked point affords, from intent and from send."""
    entry = max((line[0] for line in lines), key=lambda entry: (entry.group.ranked, place_of(entry.group)))
    for q in ("p99", "p90", "p50"):
        due, sent = (entry.group.metrics.get(f"{kind}_{q}") for kind in ("ttft_s", "ttft_from_send_s"))
        if due is not None and sent is not None and due.value is not None and sent.value is not None:
            return (
                f"{q} TTFT of {entry.name} is {show(due.value, 's')} from intent and {show(sent.value, 's')} from send."
            )
    return f"How the TTFT of {join_names([line[0].name for line in lines])} is distributed."
