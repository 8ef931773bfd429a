"""Curves of capacity: a latency against the load, with its band, its target and the load that was asked for."""

from __future__ import annotations

from typing import Any

import altair as alt

from twinlens.planning.capacity.serving import ServingCapacity
from twinlens.planning.outlay import outlay
from twinlens.planning.prediction.answer import Said
from twinlens.planning.roi import Roi
from twinlens.reporting.chart.figure import INK, SOFT, STEADY, WIDTH, Figure, data, figure, log_marks
from twinlens.reporting.display import clean
from twinlens.reporting.palette import PART_COLOURS
from twinlens.reporting.wording.amount import WAYS
from twinlens.reporting.wording.planned.capacity import NAMES
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
    band = base.mark_area(color=STEADY, opacity=0.9).encode(y=alt.Y("low:Q", scale=y_scale), y2=alt.Y2("high:Q"))
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


# Charts of buying or renting: what each way costs over the months, and what moves the answer most.

_MOST_MONTHS = 60


def outlay_chart(answer: Roi) -> Figure:
    """Costs today of each way against the months that it runs."""
    ways, currency = answer.terms.ways(), answer.terms.currency
    rows = [
        {"way": WAYS[way], "months": months, "cost": float(outlay(way, answer.terms, months).value or 0)}
        for way in ways
        for months in range(1, _MOST_MONTHS + 1)
    ]
    hues = alt.Scale(domain=[WAYS[way] for way in ways], range=list(PART_COLOURS[0 : 2 * len(ways) : 2]))
    chart = alt.Chart(data(rows)).mark_line(strokeWidth=2.5).encode(
        x=alt.X("months:Q", title="months", scale=alt.Scale(domain=[0, _MOST_MONTHS], nice=False)),
        y=alt.Y("cost:Q", title=f"costs today ({currency})", axis=alt.Axis(format="~s")),
        color=alt.Color("way:N", scale=hues, title=None),
    ).properties(width=WIDTH, height=240)  # fmt: skip
    cheapest = WAYS[answer.cheapest(answer.months[-1])]
    title = f"Over {answer.months[-1]} months {cheapest} is the cheapest."
    return figure("outlay", chart, title, "All that each way takes, in money of today.")


def tornado_chart(answer: Roi) -> Figure | None:
    """What buying saves with each input at its ends, the widest first."""
    swings = answer.tornado()
    if not swings:
        return None
    rows = [
        {"name": clean(each.name, 40), "low": float(min(each.at_low, each.at_high)),
         "high": float(max(each.at_low, each.at_high))}
        for each in swings
    ]  # fmt: skip
    y = alt.Y("name:N", sort=[row["name"] for row in rows], title=None, axis=alt.Axis(domain=False, ticks=False))
    x = alt.X("low:Q", title=f"buying saves ({answer.terms.currency})", axis=alt.Axis(format="~s"))
    bars = alt.Chart(data(rows)).mark_bar(height=18, color=PART_COLOURS[1]).encode(x=x, x2=alt.X2("high:Q"), y=y)
    zero = alt.Chart(data([{"at": 0}])).mark_rule(color=INK, strokeWidth=2).encode(x=alt.X("at:Q"))
    now = alt.Chart(data([{"at": float(answer.saved())}])).mark_rule(color="#D55E00", strokeDash=[5, 3], strokeWidth=2)
    chart = alt.layer(bars, zero, now.encode(x=alt.X("at:Q"))).properties(width=WIDTH, height=alt.Step(30))
    flips = [each.name for each in swings if each.flips]
    title = f"{len(flips)} of {len(swings)} inputs flip the answer within their range."
    caption = "Each input alone at its quoted ends, or ±20 %. Dashed: as asked. Left of 0, another way is cheaper."
    return figure("tornado", chart, title, caption)
