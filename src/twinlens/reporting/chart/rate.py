"""Charts of speed: the sustained rate of each point, how each run went, and how a search found the highest rate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt
import numpy as np

from twinlens.record.beside import SearchRecord, SearchResult
from twinlens.reporting import display
from twinlens.reporting.chart.figure import (
    INK,
    SOFT,
    STEADY,
    WARM,
    WIDTH,
    Figure,
    colours,
    data,
    figure,
    log_marks,
)
from twinlens.reporting.chart.series import thin, throughput
from twinlens.reporting.paired import Paired, ratio_words
from twinlens.reporting.search import search_interval, slo_words, swept_point
from twinlens.reporting.text.sentence import against, comparison, reference_of
from twinlens.reporting.view import Entry, LensView, headline, runs_word
from twinlens.reporting.wording.finding import label_words
from twinlens.stats.metrics.definition import METRICS
from twinlens.stats.search.trial import so_far
from twinlens.stats.summary.group import Summary
from twinlens.units import digits, scale


def rate_chart(lens: LensView, entries: tuple[Entry, ...], anchor: str, turns: Sequence[Paired] = ()) -> Figure | None:
    """Sustained rate by operating point from zero, with interval and single runs; hollow where not ranked.

    `turns`: ratios of points that took turns, which the title says where there are any.
    """
    shown = [(entry, pair) for entry in entries if (pair := headline(entry.group)) and pair[1].value is not None]
    if not shown:
        return None
    metric = shown[0][1][0]
    divisor, title = _scaled(metric, max(estimate.value or 0.0 for _, (_, estimate) in shown))
    rows: list[dict[str, Any]] = []
    runs: list[dict[str, Any]] = []
    for entry, (key, estimate) in shown:
        state = entry.group.validity
        name = entry.name if state == "valid" else f"{entry.name} ({state})"
        value = (estimate.value or 0.0) / divisor
        low, high = (value if end is None else end / divisor for end in (estimate.low, estimate.high))
        rows.append(
            {
                "name": name,
                "entry": entry.name,
                "value": value,
                "low": low,
                "high": high,
                "ranked": entry.group.ranked,
                "text": f"{digits(value)} {display.spread(estimate)}",
            }
        )
        values = [run.metrics[key].value for run in entry.group.runs if key in run.metrics]
        runs += [{"name": name, "value": each / divisor} for each in values if each is not None]
    order = [row["name"] for row in rows]
    most = max(float(row["high"]) for row in rows) * 1.3
    y = alt.Y("name:N", sort=order, title=None, axis=alt.Axis(domain=False, ticks=False))
    x = alt.X("value:Q", title=f"sustained {title}", scale=alt.Scale(domain=[0, most], nice=False))
    names = {entry.name: entry.precision for entry, _ in shown}
    hue = alt.Color("entry:N", scale=colours(names), legend=None)
    base = alt.Chart(data(rows)).encode(y=y)
    bars = base.mark_bar(height=18).encode(
        x=x, color=hue, opacity=alt.condition("datum.ranked", alt.value(0.85), alt.value(0.25))
    )
    line = base.mark_rule(color=INK, strokeWidth=2).encode(x=alt.X("low:Q"), x2=alt.X2("high:Q"))
    words = base.mark_text(align="left", dx=8, fontSize=14, color=INK).encode(
        x=alt.X("high:Q"), text=alt.Text("text:N")
    )
    ticks = (
        alt.Chart(data(runs)).mark_circle(color=INK, size=16, opacity=0.8, yOffset=12).encode(x=alt.X("value:Q"), y=y)
    )
    chart = (bars + line + ticks + words).properties(width=WIDTH, height=alt.Step(44))
    return figure(anchor, chart, _rate_title(entries, METRICS[metric].label, turns), _rate_caption(shown))


def _scaled(metric: str, largest: float) -> tuple[float, str]:
    """What values are divided by on an axis, and its title: "tokens/s" as it is; "bus bandwidth (GB/s)" of a name that
    does not say its unit."""
    known = METRICS[metric]
    if known.unit in known.label:
        return 1.0, known.label
    divisor, unit = scale(known.unit, largest)
    return divisor, f"{known.label} ({unit})"


def timeline(entry: Entry, anchor: str) -> Figure | None:
    """Throughput of each row against time, one panel a run: warm-up and steady window shaded."""
    panels = []
    series = [(run, summary, *throughput(run)) for run, summary in entry.material]
    series = [each for each in series if each[2].size]
    if not series:
        return None
    most = max(float(np.quantile(each[3], 0.995)) for each in series) * 1.15
    divisor, title = _scaled(pair[0], most) if (pair := headline(entry.group)) else (1.0, "work/s")
    axes = _Axes(title, divisor, most / divisor, max(float(each[2][-1]) for each in series))
    for index, (_, summary, at_s, rate) in enumerate(series, start=1):
        x, y = thin(at_s, np.minimum(rate, most) / divisor)
        panels.append(_panel(summary, x, y, axes, is_last=index == len(series)))
    chart = alt.vconcat(*panels, spacing=14).resolve_scale(x="shared", color="shared")
    rows = sum(each[2].size for each in series)
    words = f"{rows:,} rows of {runs_word(len(series))}; each stretch shows its lowest and highest value. "
    if any(summary.verdict.validity != "not valid" for _, summary, *_ in series):
        words += (
            "Orange: before the steady window (warm-up). Blue: the steady window, where every number is from. "
            "Dashed: the sustained rate, stalls included."
        )
    else:
        words += "No run has a steady window."
    state = "held its rate" if entry.group.ranked else f"is not valid: {label_words(entry.group.label)}"
    return figure(anchor, chart, f"{entry.name} {state}.", words)


@dataclass(frozen=True, slots=True)
class _Axes:
    """Axes that all panels of a timeline share: what the rate is called, what rates are divided by, the highest shown,
    and the last second."""

    title: str
    divisor: float
    most: float
    last_s: float


def _panel(summary: Summary, x: np.ndarray, y: np.ndarray, axes: _Axes, *, is_last: bool) -> Any:
    """The rate y [rows] at x [rows] seconds of one run."""
    begin_s, end_s = summary.verdict.begin_s, summary.verdict.end_s
    spans = [{"from": 0.0, "to": begin_s, "what": "before"}]
    if summary.verdict.validity != "not valid":
        spans.append({"from": begin_s, "to": end_s, "what": "steady window"})
    hue = alt.Color("what:N", scale=alt.Scale(domain=["before", "steady window"], range=[WARM, STEADY]), legend=None)
    seconds = alt.X(
        "s:Q",
        title="time since the start (s)" if is_last else None,
        scale=alt.Scale(domain=[0, axes.last_s], nice=False),
        axis=alt.Axis(labels=is_last, ticks=is_last, grid=False),
    )
    high = alt.Y(
        "rate:Q", title=axes.title, scale=alt.Scale(domain=[0, axes.most], nice=False), axis=alt.Axis(tickCount=3)
    )
    shade = alt.Chart(data(spans)).mark_rect(opacity=0.8).encode(x=alt.X("from:Q"), x2=alt.X2("to:Q"), color=hue)
    points = [{"s": float(a), "rate": float(b)} for a, b in zip(x, y, strict=True)]
    line = alt.Chart(data(points)).mark_line(color=INK, strokeWidth=1, clip=True).encode(x=seconds, y=high)
    layers = [shade, line]
    pair = headline(summary)
    if pair and pair[1].value is not None and summary.verdict.validity != "not valid":
        mean = [{"from": begin_s, "to": end_s, "rate": pair[1].value / axes.divisor}]
        rule = alt.Chart(data(mean)).mark_rule(color="#D55E00", strokeDash=[5, 3], strokeWidth=1.5)
        layers.append(rule.encode(x=alt.X("from:Q"), x2=alt.X2("to:Q"), y=high))
    label = alt.Chart(data([{"t": f"run {summary.repeat + 1}: {label_words(summary.verdict.label)}"}]))
    layers.append(
        label.mark_text(align="right", baseline="bottom", fontSize=14, color=SOFT, dy=-2).encode(
            x=alt.XValue(WIDTH), y=alt.YValue(0), text=alt.Text("t:N")
        )
    )
    return alt.layer(*layers).properties(width=WIDTH, height=76)


def _rate_title(entries: tuple[Entry, ...], unit: str, turns: Sequence[Paired]) -> str:
    groups = [entry.group for entry in entries]
    names = {id(entry.group): entry.name for entry in entries}
    if mine := [pair for pair in turns if pair.is_headline and id(pair.group) in names]:
        pair = mine[0]
        if len(mine) > 1 or not pair.ranked or id(pair.reference) not in names:
            return f"Sustained {unit} by operating point."
        above, below = names[id(pair.group)], names[id(pair.reference)]
        return f"{above} sustains {ratio_words(pair)} the {unit} of {below}, in paired slices."
    best, ratios = None, 0
    for group in groups:
        reference = reference_of(group, groups)
        ratio = against(group, reference) if reference is not None else None
        if reference is None or ratio is None or ratio.value is None:
            continue
        ratios += 1
        if best is None or ratio.value > (best[2].value or 0.0):
            best = (group, reference, ratio)
    if best is None:
        return f"Sustained {unit} by operating point."
    ratio = against(*best[:2], ratios) or best[2]
    return f"{names[id(best[0])]} sustains {comparison(ratio)} the {unit} of {names[id(best[1])]}."


def _rate_caption(shown: list[Any]) -> str:
    counts = sorted({len(entry.group.runs) for entry, _ in shown})
    runs = " to ".join(str(count) for count in dict.fromkeys((counts[0], counts[-1])))
    methods = list(dict.fromkeys(display.clean(pair[1].method) for _, pair in shown))
    return (
        f"Bars from zero; dark lines are intervals, dots are single runs (n = {runs} runs each). "
        f"Method: {methods[0]}{'; and others' if len(methods) > 1 else ''}. Pale bars are not valid."
    )


# A search as it went: each run at its rate with its verdict, and the interval that was left after it.

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
