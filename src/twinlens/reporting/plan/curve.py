"""Curves of capacity: a latency against the load, with its band, its target and the load that was asked for."""

from __future__ import annotations

from typing import Any

import altair as alt

from twinlens.planning.capacity.serving import ServingCapacity
from twinlens.planning.prediction.answer import Said
from twinlens.reporting.chart.figure import INK, SOFT, STEADY, WIDTH, Figure, data, figure, log_marks
from twinlens.reporting.wording.plan_capacity import NAMES
from twinlens.units import SECONDS, digits, show

_LIMIT = "#D55E00"


def capacity_curves(found: ServingCapacity) -> list[Figure]:
    """TTFT and TPOT against the load; none of a copy that answers nothing."""
    points = [(each.load, each.answer) for each in found.curve() if each.answer is not None]
    if len(points) < 2:
        return []
    target = found.plan.target
    ttft = [(load, answer.ttft_s, answer.tail.ttft_s) for load, answer in points]
    tpot = [(load, answer.tpot_s, answer.tail.tpot_s) for load, answer in points]
    return [_curve(found, "ttft", ttft, target.ttft_s), _curve(found, "tpot", tpot, target.tpot_s)]


def _curve(found: ServingCapacity, metric: str, points: list[tuple[float, Said, float]], limit: float | None) -> Figure:
    """Mean with its band, and p99."""
    rows = [{"load": load, "value": 1e3 * said.value, "low": 1e3 * said.low, "high": 1e3 * said.high, "p99": 1e3 * slow}
            for load, said, slow in points]  # fmt: skip
    ends = [row[key] for row in rows for key in ("low", "high", "p99")] + ([1e3 * limit] if limit else [])
    least, most = min(ends) / 1.2, max(ends) * 1.2
    x = alt.X("load:Q", title=f"load ({found.plan.unit})", scale=alt.Scale(domain=[0, rows[-1]["load"]], nice=False))
    y_scale = alt.Scale(type="log", domain=[least, most], nice=False)
    y_axis = alt.Axis(values=log_marks(least, most), format="~g")
    y = alt.Y("value:Q", title=f"{NAMES[metric]} (ms)", scale=y_scale, axis=y_axis)
    base = alt.Chart(data(rows)).encode(x=x)
    band = base.mark_area(color=STEADY, opacity=0.9).encode(y=alt.Y("low:Q", scale=y_scale), y2="high:Q")
    slow = base.mark_line(color=INK, strokeWidth=2, strokeDash=[4, 3]).encode(y=alt.Y("p99:Q", scale=y_scale))
    parts: list[Any] = [band, base.mark_line(color=INK, strokeWidth=2).encode(y=y), slow]
    if limit:
        across = alt.Chart(data([{"value": 1e3 * limit}]))
        parts.append(across.mark_rule(color=_LIMIT, strokeDash=[5, 3], strokeWidth=2).encode(y=y))
    if found.plan.load <= rows[-1]["load"]:
        asked = alt.Chart(data([{"load": found.plan.load}]))
        parts.append(asked.mark_rule(color=SOFT, strokeDash=[2, 2], strokeWidth=2).encode(x=x))
    chart = alt.layer(*parts).properties(width=WIDTH, height=240)
    first, last = points[0], points[-1]
    reach = f"{show(first[1].value, SECONDS)} to {show(last[1].value, SECONDS)}"
    title = f"Mean {NAMES[metric]} goes from {reach} up to {digits(last[0])} {found.plan.unit}."
    caption = (
        f"Line: mean; shaded: its {last[1].level:.0%} band. Dashed: p99, modelled. "
        f"Orange: the target, of {'p99' if found.plan.target.of == 'p99' else 'the mean'}. Grey: the load asked for."
    )
    return figure(f"curve-{metric}", chart, title, caption)
