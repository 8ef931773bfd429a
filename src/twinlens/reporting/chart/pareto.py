"""Tokens/s for everybody against tokens/s for each: what a server gives at once, and how fast one user reads it."""

from __future__ import annotations

from typing import Any

import altair as alt

from twinlens.reporting.chart.figure import SOFT, WIDTH, Figure, data, figure
from twinlens.reporting.chart.latency import bars, place_axis, point_row, precision_hue, series, slo_of
from twinlens.reporting.load_kind import TITLES, LoadKind, fault_of, load_of, place_of
from twinlens.reporting.search import limits_of
from twinlens.reporting.view import Entry
from twinlens.stats.search.trial import pareto
from twinlens.units import digits

_LEAST_GAP = 0.08  # of the axis: words closer than that lie on each other
_PER_USER = "tokens_per_s_per_request"
_ALL = ("output_tokens_per_s_per_device", "output_tokens_per_s")


def pareto_chart(entries: tuple[Entry, ...], load: LoadKind, anchor: str) -> Figure | None:
    """Output tokens/s per device against tokens/s of one user, a line through the points of each precision.

    Of one load: a closed loop asks less of a server that is slow, so its points are no rivals to those of an open one.
    """
    entries = tuple(entry for entry in entries if load_of(entry.group) == load)
    per_device = all(_value(entry, _ALL[0]) is not None for entry in entries if not fault_of(entry.group))
    name = _ALL[0] if per_device else _ALL[1]
    known = [(entry, _value(entry, _PER_USER), _value(entry, name)) for entry in entries]
    points = [(entry, user, total) for entry, user, total in known if user and total]
    ranked = [point for point in points if point[0].group.ranked]
    if len(ranked) < 2:
        return None
    front = {id_ for index in pareto([(total, user) for _, user, total in ranked]) for id_ in [ranked[index][0].name]}
    rows = [_pareto_row(entry, user, total, entry.name in front) for entry, user, total in points]
    hue = precision_hue(list(dict.fromkeys(row["precision"] for row in rows)))
    unit = "per device" if per_device else "of the whole server"
    x = alt.X("user:Q", title="output tokens/s of one user (1 / median TPOT)", scale=_from_zero(rows, "user"))
    y = alt.Y("total:Q", title=f"output tokens/s {unit}", scale=_from_zero(rows, "total"))
    base = alt.Chart(data(rows)).encode(x=x, y=y, color=hue)
    lines = base.transform_filter("datum.ranked").mark_line(strokeWidth=1.4, opacity=0.5)
    chart = alt.layer(
        lines.encode(order=alt.Order("place:Q")),
        base.transform_filter("datum.ranked").mark_point(filled=True, size=46, opacity=1),
        base.transform_filter("!datum.ranked").mark_point(filled=False, size=46, fill="white"),
        base.transform_filter("datum.front").mark_point(filled=False, size=170, strokeWidth=1.2),
        alt.Chart(data(_apart(rows))).mark_text(dy=-13, fontSize=14, color=SOFT).encode(x=x, y=y,
                                                                                        text=alt.Text("word:N")),
    ).properties(width=WIDTH, height=240)  # fmt: skip
    caption = (
        f"Points {TITLES[load]}; up and to the right is better. Ringed: no other point has more of both. "
        f"{'' if per_device else 'How many devices served is not known, so this is the whole server. '}"
        "Hollow points are not valid and on no front."
    )
    kind = {"rate": "open-loop ", "concurrency": "closed-loop "}.get(load, "")
    title = f"{len(front)} of {len(ranked)} {kind}points are on the Pareto front of throughput and speed per user."
    return figure(anchor, chart, title, caption)


def _pareto_row(entry: Entry, user: float, total: float, is_front: bool) -> dict[str, Any]:
    return {
        "user": user, "total": total, "precision": entry.kind, "place": place_of(entry.group),
        "ranked": not fault_of(entry.group), "front": is_front, "word": entry.name.split(" · ")[-1],
    }  # fmt: skip


def _apart(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The points on the front whose words do not touch one another, from the fastest for everybody on."""
    wide, high = (max(row[key] for row in rows) for key in ("user", "total"))
    kept: list[dict[str, Any]] = []
    for row in sorted((row for row in rows if row["front"]), key=lambda row: -row["total"]):
        gaps = [
            max(abs(row["user"] - other["user"]) / wide / 1.6, abs(row["total"] - other["total"]) / high)
            for other in kept
        ]
        if all(gap >= _LEAST_GAP for gap in gaps):
            kept.append(row)
    return kept


def _from_zero(rows: list[dict[str, Any]], key: str) -> Any:
    return alt.Scale(domain=[0, max(row[key] for row in rows) * 1.15], nice=False)


def _value(entry: Entry, name: str) -> float | None:
    estimate = entry.group.metrics.get(name)
    return estimate.value if estimate is not None else None


# Goodput against the rate that was offered.


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
