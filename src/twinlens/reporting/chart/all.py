"""All charts of one lens, in the order they are read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt
import numpy as np
from altair.utils import schemapi

from twinlens.record.run import Run
from twinlens.reporting.chart.figure import INK, WIDTH, Figure, colours, dashes, data, figure
from twinlens.reporting.chart.memory import memory_chart, phase_chart, rule_chart, stack
from twinlens.reporting.chart.rate import rate_chart, timeline
from twinlens.reporting.chart.roofline import placed_points, roofline_chart
from twinlens.reporting.chart.series import distribution, steady_times, thin
from twinlens.reporting.paired import Paired
from twinlens.reporting.view import Entry, LensView, headline
from twinlens.spec.workload.workload import TrainingWorkload
from twinlens.stats.metrics.definition import METRICS
from twinlens.stats.metrics.training import target_nats
from twinlens.stats.summary.group import Summary
from twinlens.stats.wall_time import LOSSES
from twinlens.units import digits, scale, show


@dataclass(frozen=True, slots=True)
class Charts:
    """`main` stand beside the table, `timelines` below; `missing` says what could not be drawn and why."""

    main: tuple[Figure, ...]
    timelines: tuple[Figure, ...]
    missing: tuple[str, ...]


def charts(lens: LensView, turns: Sequence[Paired] = (), *, checked: bool = False) -> tuple[Charts, ...]:
    """One set of charts for each part of the lens (a model on a machine), in the view's order.

    `turns`: ratios of points that took turns.

    Altair's own checks against its schema take longer than the drawing. They are a matter for tests.
    """
    with schemapi.debug_mode(checked):
        return tuple(_of_part(lens, entries, index, turns) for index, entries in enumerate(lens.parts))


def _of_part(lens: LensView, entries: tuple[Entry, ...], index: int, turns: Sequence[Paired]) -> Charts:
    mark = f"{lens.lens}{index}"
    if lens.lens == "collective":
        return _of_exchanges(lens, entries, mark)
    drawn: list[Figure | None] = [
        rate_chart(lens, entries, f"{mark}-rate", turns),
        *time_charts(lens, entries, mark),
    ]
    if lens.lens == "training":
        drawn += [loss_chart(entries, f"{mark}-loss"), phase_chart(entries, f"{mark}-phase")]
        drawn.append(wall_time_chart(entries, f"{mark}-wall"))
    drawn.append(memory_chart(lens, entries, f"{mark}-memory"))
    if lens.lens == "training":
        drawn.append(rule_chart(entries, f"{mark}-rule"))
    roof = roofline_chart(lens, entries, f"{mark}-roof")
    missing = [] if roof is not None else _why_no_roofline(lens, entries)
    times = [timeline(entry, f"{mark}-time{place_}") for place_, entry in enumerate(entries)]
    return Charts(
        tuple(chart for chart in (*drawn, roof) if chart is not None),
        tuple(chart for chart in times if chart is not None),
        tuple(missing),
    )


def _of_exchanges(lens: LensView, entries: tuple[Entry, ...], mark: str) -> Charts:
    """Bandwidths and how each run went; a roofline and memory are of a model."""
    times = [timeline(entry, f"{mark}-time{place}") for place, entry in enumerate(entries)]
    rate = rate_chart(lens, entries, f"{mark}-rate")
    return Charts((rate,) if rate is not None else (), tuple(chart for chart in times if chart is not None), ())


def _why_no_roofline(lens: LensView, entries: tuple[Entry, ...]) -> list[str]:
    placed, missing = placed_points(lens, entries)
    if placed:
        return ["No roofline: the ceilings of this machine were not measured (read bandwidth and matrix rate)."]
    return [f"No roofline: {'; '.join(missing[:2])}."]


# The chart of where the wall time of training went: useful steps and each loss, one bar an operating point.

_USEFUL = "useful steps"


def wall_time_chart(entries: tuple[Entry, ...], anchor: str) -> Figure | None:
    """None where no point saved or recovered: of other runs the account says little but how long they were."""
    shown = [entry for entry in entries if any(run.sections.checkpoints for run, _ in entry.material)]
    parts = {entry.name: found for entry in shown if (found := _parts(entry))}
    if not parts:
        return None
    labels = [_USEFUL, *(_label(loss) for loss in LOSSES)]
    labels = [label for label in labels if any(found.get(label) for found in parts.values())]
    chart = stack(parts, labels, 1.0, "share of wall time", "%")
    name, found = min(parts.items(), key=lambda pair: pair[1][_USEFUL])
    losses = {label: share for label, share in found.items() if label != _USEFUL}
    largest = max(losses, key=lambda label: losses[label])
    kept = f"{found[_USEFUL]:.0%} of the wall time of {name}"
    title = f"{kept} went into steps that were kept; {largest} cost most."
    caption = (
        "Every part of the wall time from the start of the trainer to the last row, without what Twinlens examined "
        "before the rows; the parts add up to 100 %. Mean of runs."
    )
    return figure(anchor, chart, title, caption)


def _parts(entry: Entry) -> dict[str, float]:
    metrics = entry.group.metrics
    useful = metrics.get("training_goodput")
    if useful is None or useful.value is None:
        return {}
    losses = {_label(loss): metrics[loss].value or 0.0 for loss in LOSSES if loss in metrics}
    return {_USEFUL: useful.value} | losses


def _label(loss: str) -> str:
    return METRICS[loss].label.removeprefix("lost to ")


# Charts of time: how steps and latencies are distributed, one line an operating point.

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


# The loss of a training run against time, with what it can reach at best and when it met its target.


def loss_chart(entries: tuple[Entry, ...], anchor: str) -> Figure | None:
    """Held-out loss (points) and step loss (thin lines) of each entry's first run, in nats, against time.

    Dark dashes: the entropy rate of the data, below which no model can go. Solid: the target. Bars at the target
    run from the last evaluation that missed it to the first that met it.
    """
    lines: list[dict[str, Any]] = []
    dots: list[dict[str, Any]] = []
    hits: list[dict[str, Any]] = []
    for entry in entries:
        run, summary = entry.material[0]
        lines += _points(run, entry.name, "step")
        dots += _points(run, entry.name, "evaluate")
        if (hit := _hit(entry, run, summary)) is not None:
            hits.append(hit)
    if not lines and not dots:
        return None
    bound, target = _bound(entries), _target(entries)
    known = [row["loss"] for row in lines + dots]
    floor = min([*known, *([bound] if bound is not None else [])])
    # The start of training dwarfs what matters; the curve may leave the chart at the top.
    top = max(float(np.quantile(known, 0.93)), floor + 1.5 * ((target or floor) - floor))
    is_flat = top <= floor
    room = 0.05 * (abs(floor) or 1.0) if is_flat else 0.12 * (top - floor)
    scale = alt.Scale(domain=[floor - room, top + room * is_flat], nice=False, zero=False)
    x = alt.X("s:Q", title="time since the start (s)")
    y = alt.Y("loss:Q", title="loss (nats)", scale=scale)
    names = {entry.name: entry.precision for entry in entries}
    shown = alt.Legend(symbolOpacity=1, symbolStrokeWidth=2, symbolType="stroke")
    hue = alt.Color("name:N", scale=colours(names), title=None, sort=list(names), legend=shown)
    thin_line = alt.Chart(data(lines)).mark_line(strokeWidth=1, opacity=0.45, clip=True)
    layers = [thin_line.encode(x=x, y=y, color=hue)]
    # Points of one precision have one colour: the dashes tell them apart.
    dash = alt.StrokeDash("name:N", scale=alt.Scale(domain=list(names), range=dashes(len(names))), title=None,
                          sort=list(names), legend=shown)  # fmt: skip
    if dots:
        held_out = alt.Chart(data(dots)).mark_line(strokeWidth=2, clip=True, point=alt.OverlayMarkDef(size=12))
        layers.append(held_out.encode(x=x, y=y, color=hue, strokeDash=dash))
    if bound is not None:
        layers += _rule(bound, f"entropy rate {digits(bound)}", [5, 4], y, above=False)
    if target is not None:
        layers += _rule(target, f"target {digits(target)}", [1, 0], y, above=True)
    if hits and target is not None:
        bars = alt.Chart(data([hit | {"loss": target} for hit in hits])).mark_rule(strokeWidth=7, opacity=0.8)
        layers.append(bars.encode(x=alt.X("low:Q"), x2=alt.X2("high:Q"), y=y, color=hue))
    chart = alt.layer(*layers).properties(width=WIDTH, height=230)
    return figure(anchor, chart, _title(entries, hits, target), _caption(bool(dots), bound, target, hits))


def _points(run: Run, name: str, kind: str) -> list[dict[str, Any]]:
    rows = run.steps.where(run.steps.kind == kind)
    kept = np.isfinite(rows.loss)
    x, y = thin(rows.end_ns[kept] / 1e9, rows.loss[kept], 200)
    return [{"name": name, "s": float(time_s), "loss": float(loss)} for time_s, loss in zip(x, y, strict=True)]


def _hit(entry: Entry, run: Run, summary: Summary) -> dict[str, Any] | None:
    estimate = summary.metrics.get("time_to_target_s")
    if estimate is None or estimate.value is None:
        return None
    low, high = (estimate.low, estimate.high) if estimate.low is not None else (estimate.value, estimate.value)
    # The metric counts from the first step, the chart from the start of the run.
    start_s = float(run.steps.begin_ns[0]) / 1e9
    return {"name": entry.name, "low": start_s + (low or 0.0), "high": start_s + (high or 0.0)}


def _bound(entries: tuple[Entry, ...]) -> float | None:
    """The entropy rate of the data, in nats, where it is known."""
    known = (run.facts.entropy_rate_nats for entry in entries for run, _ in entry.material if run.facts)
    return next((rate for rate in known if rate is not None), None)


def _target(entries: tuple[Entry, ...]) -> float | None:
    workload = entries[0].material[0][0].spec.workload
    return target_nats(workload, _bound(entries)) if isinstance(workload, TrainingWorkload) else None


def _rule(level: float, words: str, dash: list[int], y: Any, *, above: bool) -> list[Any]:
    rows = data([{"loss": level, "text": words}])
    line = alt.Chart(rows).mark_rule(color=INK, strokeDash=dash, strokeWidth=1).encode(y=y)
    side = {"baseline": "bottom", "dy": -4} if above else {"baseline": "top", "dy": 4}
    text = alt.Chart(rows).mark_text(align="left", fontSize=14, color=INK, **side)
    return [line, text.encode(y=y, x=alt.XValue(5), text=alt.Text("text:N"))]


def _title(entries: tuple[Entry, ...], hits: list[dict[str, Any]], target: float | None) -> str:
    if hits:
        first = min(hits, key=lambda hit: float(hit["high"]))
        when = f"between {show(first['low'], 's')} and {show(first['high'], 's')}"
        return f"{first['name']} meets the target first, {when}."
    if target is not None:
        return "No run met its target."
    return "How the loss fell."


def _caption(has_held_out: bool, bound: float | None, target: float | None, hits: list[Any]) -> str:
    words = ["Repeat 1 of each point; n is one run a line, so differences between lines carry no interval."]
    words.append("Thin: loss of each step." + (" Thick with dots: held-out loss." if has_held_out else ""))
    if bound is not None:
        words.append("Dark dashes: the entropy rate of the data, which no model can beat on average.")
    if target is not None:
        words.append("Solid: the target.")
    if hits:
        words.append("Bars: from the last evaluation that missed it to the first that met it.")
    return " ".join(words)
