"""Charts of a ledger: one quantity each, a bar for every step with its interval."""

from __future__ import annotations

from typing import Any

import altair as alt

from twinlens.comparison.ledger import Ledger
from twinlens.record.estimate import Estimate
from twinlens.reporting import display
from twinlens.reporting.chart.figure import INK, WIDTH, Figure, data, figure
from twinlens.reporting.ledger import figure_words, quantity_label, shown, step_names
from twinlens.reporting.palette import PART_COLOURS
from twinlens.units import scale

_SOFT_BLUE = PART_COLOURS[1]
_AT = "indexof(datum.label, ' · ')"
_TWO_LINES = (
    f"length(datum.label) > 24 && {_AT} > 0"
    f" ? [slice(datum.label, 0, {_AT}), slice(datum.label, {_AT} + 3)] : datum.label"
)
"""A name that is longer than its place stands in two lines; it would be cut."""


def ledger_charts(ledger: Ledger) -> list[Figure]:
    """A chart of each quantity that some step has, and of what steps repay; none of latencies at several loads."""
    names = [name for name in shown(ledger) if name != "latency" or ledger.at_one_load]
    columns = {name: [step.figures[name] for step in ledger.steps] for name in names}
    repays = [step.repays for step in ledger.steps]
    if any(each.value is not None for each in repays):
        columns["repays"] = repays
    return [_chart(ledger, name, estimates) for name, estimates in columns.items()]


def _chart(ledger: Ledger, name: str, estimates: list[Estimate]) -> Figure:
    names = step_names(ledger)
    label = quantity_label(ledger, name)
    known = [each.value for each in estimates if each.value is not None]
    unit = next(each.unit for each in estimates if each.value is not None)
    divisor, word = scale(unit, max(map(abs, known)))
    rows: list[dict[str, Any]] = []
    for step, estimate in zip(names, estimates, strict=True):
        value = estimate.value
        low, high = (value if bound is None else bound for bound in (estimate.low, estimate.high))
        rows.append({
            "step": step, "value": (value or 0.0) / divisor,
            "low": (low or 0.0) / divisor, "high": (high or 0.0) / divisor, "end": max(0.0, (high or 0.0) / divisor),
            "text": _words(ledger, name, estimate),
        })  # fmt: skip
    ends = [float(row[key]) for row in rows for key in ("value", "low", "high")]
    least, most = min(0.0, *ends), max(0.0, *ends)
    x_scale = alt.Scale(domain=[least * 1.1, most + (most - least or 1.0) * 0.45], nice=False)
    x = alt.X("value:Q", title=f"{label} ({word})" if word and word not in label else label, scale=x_scale)
    y = alt.Y("step:N", sort=names, title=None, axis=alt.Axis(domain=False, ticks=False, labelExpr=_TWO_LINES))
    base = alt.Chart(data(rows)).encode(y=y)
    chart = alt.layer(
        base.mark_bar(height=20, color=_SOFT_BLUE).encode(x=x),
        base.mark_rule(color=INK, strokeWidth=2).encode(x=alt.X("low:Q", scale=x_scale), x2=alt.X2("high:Q")),
        base.mark_text(align="left", dx=8, fontSize=13, color=INK).encode(
            x=alt.X("end:Q", scale=x_scale), text=alt.Text("text:N")
        ),
    ).properties(width=WIDTH, height=alt.Step(36))
    missing = [step for step, each in zip(names, estimates, strict=True) if each.value is None]
    why = next((each.lacks for each in estimates if each.value is None), "")
    lacking = f" Not there: {display.join_names(missing, 4)} ({display.clean(why, 160)})." if missing else ""
    first, last = (figure_words(ledger, name, each) for each in (estimates[0], estimates[-1]))
    both = estimates[0].value is not None and estimates[-1].value is not None
    title = f"{label[:1].upper()}{label[1:]} {f'goes from {first} to {last}' if both else 'of each step'}."
    return figure(f"ledger-{name}", chart, title, f"Lines: 95% intervals, where there are any.{lacking}")


def _words(ledger: Ledger, name: str, estimate: Estimate) -> str:
    """What stands beside a bar: the figure with its interval, or that there is none."""
    if estimate.value is None:
        return display.ABSENT if name == "repays" else "not measured"
    return f"{figure_words(ledger, name, estimate)} {display.spread(estimate)}".strip()
