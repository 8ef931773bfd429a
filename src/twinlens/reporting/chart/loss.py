"""The loss of a training run against time, with what it can reach at best and when it met its target."""

from __future__ import annotations

from typing import Any

import altair as alt
import numpy as np

from twinlens.record.run import Run
from twinlens.reporting.chart.figure import INK, WIDTH, Figure, colours, dashes, data, figure
from twinlens.reporting.chart.series import thin
from twinlens.reporting.view import Entry
from twinlens.spec.workload.workload import TrainingWorkload
from twinlens.stats.metrics.training import target_nats
from twinlens.stats.summary.group import Summary
from twinlens.units import digits, show


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
        layers.append(bars.encode(x="low:Q", x2="high:Q", y=y, color=hue))
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
    return [line, text.encode(y=y, x=alt.value(5), text="text:N")]


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
