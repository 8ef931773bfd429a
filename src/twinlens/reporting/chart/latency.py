"""Latency and goodput against load: one chart an axis, so that open and closed loops are never on the same one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import altair as alt

from twinlens.record.estimate import Estimate
from twinlens.reporting import display
from twinlens.reporting.chart.figure import INK, SOFT, WIDTH, Figure, data, figure, log_marks
from twinlens.reporting.load_kind import LoadKind, fault_of, load_of, place_of
from twinlens.reporting.palette import colours_of
from twinlens.reporting.view import Entry
from twinlens.spec.slo import Slo
from twinlens.spec.workload.workload import InferenceWorkload
from twinlens.units import scale

AXES: dict[LoadKind, str] = {
    "rate": "offered rate (requests/s, open loop)",
    "concurrency": "requests in flight (closed loop)",
    "other": "offered rate (requests/s)",
}
_WORDS = {"ttft_s": "TTFT", "tpot_s": "TPOT", "e2e_latency_s": "latency"}
_DASHES = {"p50": [1, 0], "p99": [5, 3]}


def latency_charts(entries: tuple[Entry, ...], load: LoadKind, anchor: str) -> list[Figure]:
    """TTFT and TPOT at their median and p99 against the load, with their intervals and the SLO's limits.

    The whole latency too, where the SLO limits it.
    """
    mine = tuple(entry for entry in entries if load_of(entry.group) == load)
    slo = slo_of(mine)
    kinds = [kind for kind in _WORDS if kind != "e2e_latency_s" or (slo is not None and slo.e2e_latency_s is not None)]
    charts = [_latency_chart(mine, load, kind, f"{anchor}-{load}-{kind.split('_')[0]}") for kind in kinds]
    return [chart for chart in charts if chart is not None]


def slo_of(entries: tuple[Entry, ...]) -> Slo | None:
    """The SLO that all runs share; None where there is none, or several."""
    slos = {
        run.spec.workload.slo
        for entry in entries
        for run, _ in entry.material
        if isinstance(run.spec.workload, InferenceWorkload)
    }
    return slos.pop() if len(slos) == 1 else None


def _latency_chart(entries: tuple[Entry, ...], load: LoadKind, kind: str, anchor: str) -> Figure | None:
    rows = [row for entry in entries for q in _DASHES for row in _row(entry, kind, q)]
    if not rows:
        return None
    slo = slo_of(entries)
    limit = getattr(slo, kind) if slo is not None else None
    shown = [row for row in rows if row["ranked"]] or rows
    divisor, unit = scale("s", max(row["value"] for row in shown))
    for row in rows:
        row |= {key: row[key] / divisor for key in ("value", "low", "high")}
    x, (low, high) = place_axis(rows, load), _span(rows, limit, divisor)
    y = alt.Y(
        "value:Q",
        title=f"{_WORDS[kind]} ({unit}, log scale)",
        scale=alt.Scale(type="log", domain=[low, high], nice=False),
        axis=alt.Axis(values=log_marks(low, high)),
    )
    layers = [*_slo_line(limit, divisor, rows, unit), *series(rows, x, y)]
    chart = alt.layer(*layers).properties(width=WIDTH, height=240)
    return figure(anchor, chart, _title(entries, kind, load, limit), _caption(rows, load, _estimates(entries, kind)))


def _estimates(entries: tuple[Entry, ...], kind: str) -> list[Estimate]:
    estimates = [entry.group.metrics.get(f"{kind}_{q}") for entry in entries for q in _DASHES]
    return [estimate for estimate in estimates if estimate is not None]


def _row(entry: Entry, kind: str, q: str) -> list[dict[str, Any]]:
    estimate = entry.group.metrics.get(f"{kind}_{q}")
    if estimate is None or estimate.value is None or estimate.value <= 0:
        return []
    return [point_row(entry, estimate.value, estimate.low, estimate.high) | {"quantile": q}]


def point_row(entry: Entry, value: float, low: float | None, high: float | None) -> dict[str, Any]:
    """The values that every chart by load draws of a point: where it stands, its value, and the word that makes it
    hollow."""
    fault = fault_of(entry.group)
    return {
        "at": place_of(entry.group),
        "value": value,
        "low": value if low is None or low <= 0 else low,
        "high": value if high is None else high,
        "precision": entry.kind,
        "ranked": not fault,
        "fault": fault,
        "quantile": "p50",
    }


def series(rows: list[dict[str, Any]], x: Any, y: Any) -> list[Any]:
    """Lines through the ranked points of each precision and quantile, intervals, marks, and words at hollow ones."""
    names = list(dict.fromkeys(row["precision"] for row in rows))
    hue = precision_hue(names)
    base = alt.Chart(data(rows)).encode(x=x, color=hue)
    quantiles = list(dict.fromkeys(row["quantile"] for row in rows))
    dash = alt.StrokeDash(
        "quantile:N", title=None, scale=alt.Scale(domain=quantiles, range=[_DASHES[q] for q in quantiles])
    ) if len(quantiles) > 1 else alt.value([1, 0])  # fmt: skip
    ranked = base.transform_filter("datum.ranked")
    hollow = base.transform_filter("!datum.ranked")
    highest: dict[tuple[float, str], dict[str, Any]] = {}
    for row in rows:
        key = (row["at"], row["fault"])  # one word for points of several precisions: two would lie on each other
        if row["fault"] and (key not in highest or row["value"] > highest[key]["value"]):
            highest[key] = row
    words = alt.Chart(data(list(highest.values()))).encode(x=x, y=y)
    return [
        base.mark_rule(strokeWidth=5, opacity=0.25)
        .encode(y=y, y2=alt.Y2("high:Q"))
        .transform_calculate(value="datum.low"),
        ranked.mark_line(strokeWidth=2).encode(y=y, strokeDash=dash),
        ranked.mark_point(filled=True, size=46, opacity=1).encode(y=y),
        hollow.mark_point(filled=False, size=52, strokeWidth=1.6, fill="white", opacity=1).encode(y=y),
        *([words.mark_text(dy=-10, fontSize=14, color=SOFT).encode(text=alt.Text("fault:N"))] if highest else []),
    ]


def precision_hue(names: list[str]) -> Any:
    """The colour of each precision, with a legend whose marks are not pale as those of the first layer are."""
    scale = alt.Scale(domain=names, range=colours_of(names))
    return alt.Color("precision:N", title=None, scale=scale, legend=alt.Legend(symbolOpacity=1))


def place_axis(rows: list[dict[str, Any]], load: LoadKind) -> Any:
    """The axis of the load, from zero; a little room on the right for words."""
    most = max(row["at"] for row in rows) * 1.12
    return alt.X("at:Q", title=AXES[load], scale=alt.Scale(domain=[0, most], nice=False), axis=alt.Axis(tickCount=7))


def _slo_line(limit: float | None, divisor: float, rows: list[dict[str, Any]], unit: str) -> list[Any]:
    if limit is None:
        return []
    line = alt.Chart(data([{"value": limit / divisor, "t": f"SLO {limit / divisor:g} {unit}"}])).encode(
        y=alt.Y("value:Q")
    )
    return [
        line.mark_rule(color=INK, strokeDash=[2, 3], strokeWidth=1.5),
        line.mark_text(align="left", dx=4, dy=-6, fontSize=14, color=INK).encode(x=alt.XValue(0), text=alt.Text("t:N")),
    ]


def _span(rows: list[dict[str, Any]], limit: float | None, divisor: float) -> tuple[float, float]:
    values = [row[key] for row in rows for key in ("low", "high", "value")]
    values += [limit / divisor] if limit is not None else []
    return min(values) * 0.8, max(values) * 2.2


def _title(entries: tuple[Entry, ...], kind: str, load: LoadKind, limit: float | None) -> str:
    word, axis = _WORDS[kind], "offered rate" if load != "concurrency" else "requests in flight"
    if limit is None:
        return f"{word} against {axis}."
    best: dict[str, Entry] = {}
    for entry in entries:
        if entry.group.ranked and _keeps(entry, kind, limit):
            before = best.get(entry.kind)
            best[entry.kind] = (
                entry if before is None else max(before, entry, key=lambda reached: place_of(reached.group))
            )
    ranked = [entry for entry in entries if entry.group.ranked]
    known = [entry for entry in ranked if _p99(entry, kind)]
    if not known:
        return f"Too few requests for a p99 {word} at any valid point."
    if not best:
        return f"No valid point keeps p99 {word} within {limit:g} s."
    upto = " and ".join(entry.name for entry in best.values())
    among = "points measured" if len(known) == len(ranked) else f"{len(known)} of {len(ranked)} points that have a p99"
    return f"p99 {word} stays within {limit:g} s up to {upto} among the {among}."


def _keeps(entry: Entry, kind: str, limit: float) -> bool:
    p99 = _p99(entry, kind)
    return p99 is not None and p99 <= limit


def _p99(entry: Entry, kind: str) -> float | None:
    estimate = entry.group.metrics.get(f"{kind}_p99")
    return estimate.value if estimate is not None else None


def bars(shown: Iterable[Estimate]) -> str:
    """The meaning of the pale bars of a chart: 95 % intervals, ranges of two runs, or both."""
    kinds = {display.kind(estimate) for estimate in shown} - {""}
    if kinds == {"range"}:
        return "pale bars are ranges of two runs, for which no confidence is claimed"
    return f"pale bars are 95% intervals{', or ranges where a point has two runs' if 'range' in kinds else ''}"


def _caption(rows: list[dict[str, Any]], load: LoadKind, shown: Iterable[Estimate]) -> str:
    hollow = sorted({f"{row['precision']} at {row['at']:.3g}: {row['fault']}" for row in rows if row["fault"]})
    words = f" Hollow, and in no line: {'; '.join(hollow)}." if hollow else ""
    loop = {
        "rate": "An open loop: requests come whatever the server does.",
        "concurrency": "A closed loop: each answer starts the next request, so a slow server is asked less.",
        "other": "The load changes by design, or comes at once.",
    }[load]
    return (
        f"Solid p50, dashed p99, both from when a request was due; {bars(shown)}, missing where "
        f"too few requests give none. {loop}{words}"
    )
