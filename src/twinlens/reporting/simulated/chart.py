"""Charts of simulated points: a latency against the rate, with bands, the SLO, and where overload begins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt

from twinlens.reporting.chart.figure import SOFT, WIDTH, Figure, data, figure, log_marks
from twinlens.reporting.palette import PART_COLOURS
from twinlens.simulation.points.sweep import Point
from twinlens.spec.workload.workload import InferenceWorkload
from twinlens.stats.metrics.definition import METRICS
from twinlens.units import SECONDS, show

_LIMIT = "#D55E00"
_OF_SLO = {"ttft_s_p99": "ttft_s", "tpot_s_p99": "tpot_s", "e2e_latency_s_p99": "e2e_latency_s"}


def rate_charts(points: Sequence[Point], metric: str) -> list[Figure]:
    """The metric that decides, and the time of a token, against the rate; none where fewer than two rates have them."""
    names = dict.fromkeys((metric, "tpot_s_p99"))
    return [chart for name in names if (chart := _chart(points, name)) is not None]


def _chart(points: Sequence[Point], name: str) -> Figure | None:
    rows = [_row(each, name) for each in points if each.spec.point.rate_per_s and each.figures[name].value]
    if len({row["rate"] for row in rows}) < 2:
        return None
    limit = _limit(points[0], name)
    ends = [row[key] for row in rows for key in ("low", "high")] + ([1e3 * limit] if limit else [])
    least, most = min(ends) / 1.2, max(ends) * 1.2
    policies = list(dict.fromkeys(row["policy"] for row in rows))
    y_scale = alt.Scale(type="log", domain=[least, most], nice=False)
    axis = alt.Axis(values=log_marks(least, most), format="~g")
    hue = alt.Color("policy:N", scale=alt.Scale(domain=policies, range=list(PART_COLOURS[: len(policies)])),
                    legend=alt.Legend(title=None, orient="top") if len(policies) > 1 else None)  # fmt: skip
    top = max(row["rate"] for row in rows) * 1.05
    base = alt.Chart(data(rows)).encode(
        x=alt.X("rate:Q", title="requests/s", scale=alt.Scale(domain=[0, top], nice=False)), color=hue
    )
    label = METRICS[name].label
    y = alt.Y("value:Q", title=f"{label} (ms)", scale=y_scale, axis=axis)
    parts: list[Any] = [
        base.mark_area(opacity=0.25, line=False).encode(y=alt.Y("low:Q", scale=y_scale), y2=alt.Y2("high:Q")),
        base.mark_line(strokeWidth=2, point=True).encode(y=y),
    ]
    if limit:
        across = alt.Chart(data([{"value": 1e3 * limit}]))
        parts.append(across.mark_rule(color=_LIMIT, strokeDash=[5, 3], strokeWidth=2).encode(y=y))
    parts += (overload := _overload(points, top))
    chart = alt.layer(*parts).properties(width=WIDTH, height=240)
    values = [row["value"] / 1e3 for row in rows]
    title = f"Simulated {label} goes from {show(min(values), SECONDS)} to {show(max(values), SECONDS)}."
    caption = "Line: the median over simulations; shaded: the band that holds nine of ten. "
    caption += "Orange: the limit of the SLO. " if limit else ""
    caption += "Grey: from here on more come than are served." if overload else ""
    return figure(f"simulated-{name.replace('_', '-')}", chart, title, caption)


def _overload(points: Sequence[Point], top: float) -> list[Any]:
    """Lines at the ends of the band of the rate from which it is overloaded, as far as they are in sight; none for
    fleets of several sizes."""
    if len({each.fleet.replicas for each in points if each.fleet is not None}) > 1:
        return []
    known = next((each.capacity for each in points if each.capacity is not None), None)
    ends = [] if known is None else sorted({end for end in (known.low, known.value, known.high) if end and end <= top})
    if not ends:
        return []
    rules = alt.Chart(data([{"rate": end} for end in ends]))
    return [rules.mark_rule(color=SOFT, strokeDash=[2, 2], strokeWidth=1.5).encode(x=alt.X("rate:Q"))]


def _row(point: Point, name: str) -> dict[str, Any]:
    found = point.figures[name]
    value = 1e3 * (found.value or 0.0)
    low, high = (value if end is None else 1e3 * end for end in (found.low, found.high))
    policy = point.policy or "as asked"
    return {"rate": point.spec.point.rate_per_s, "value": value, "low": low, "high": high, "policy": policy}


def _limit(point: Point, name: str) -> float | None:
    workload = point.spec.workload
    slo = workload.slo if isinstance(workload, InferenceWorkload) else None
    limit: float | None = getattr(slo, _OF_SLO[name]) if slo is not None else None
    return limit


_MOST_LINES = 40
_PHASES = ("waits in front", "waits for its first token", "answers")


def slot_chart(point: Point, place: int) -> Figure | None:
    """Who waits for whom: a line a request, of the middle of one simulation; None where it served nobody."""
    table = point.repeats[0].played.table.sort_by("intended_ns")
    ok = [row for row in table.to_pylist() if row["outcome"] == "ok"]
    begin = max(0, (len(ok) - _MOST_LINES) // 2)
    shown = ok[begin : begin + _MOST_LINES]
    if not shown:
        return None
    rows: list[dict[str, Any]] = [
        {"request": line, "phase": phase, "from": start / 1e9, "to": stop / 1e9}
        for line, row in enumerate(shown, start=1)
        for phase, start, stop in zip(_PHASES, *_moments(row), strict=True)
        if stop > start
    ]
    hues = alt.Scale(domain=list(_PHASES), range=list(PART_COLOURS[4:1:-1]))
    least, most = min(row["from"] for row in rows), max(row["to"] for row in rows)
    chart = alt.Chart(data(rows)).mark_bar(height=4).encode(
        x=alt.X("from:Q", title="time (s)", scale=alt.Scale(domain=[least, most], nice=False)),
        x2=alt.X2("to:Q"),
        y=alt.Y("request:O", title="requests as they were due", axis=alt.Axis(labels=False, ticks=False)),
        color=alt.Color("phase:N", scale=hues, legend=alt.Legend(title=None, orient="top")),
    )  # fmt: skip
    name = f"{point.policy or 'as asked'} at {point.spec.point.rate_per_s or 0:g}/s"
    waited = sum(_moments(row)[1][1] - row["intended_ns"] for row in shown) / len(shown) / 1e9
    title = f"{name}: {len(shown)} requests wait {show(waited, SECONDS)} for their first token on average."
    caption = (
        "From the middle of one simulation, a line a request: held back in front, until its first token, its answer."
    )
    anchor = f"slots-{place}"
    return figure(anchor, chart.properties(width=WIDTH, height=240), title, caption)


def _moments(row: dict[str, Any]) -> tuple[tuple[int, int, int], tuple[int, int, int]]:
    """Begins and ends of the phases of a request, in nanoseconds."""
    released = row["released_ns"] if row["released_ns"] is not None else row["intended_ns"]
    first = row["chunk_ns"][0]
    return (row["intended_ns"], released, first), (released, first, row["end_ns"])
