"""Charts of buying or renting: what each way costs over the months, and what moves the answer most."""

from __future__ import annotations

import altair as alt

from twinlens.planning.outlay import outlay
from twinlens.planning.roi import Roi
from twinlens.reporting.chart.figure import INK, PART_COLOURS, WIDTH, Figure, data, figure
from twinlens.reporting.display import clean
from twinlens.reporting.wording.amount import WAYS

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
    bars = alt.Chart(data(rows)).mark_bar(height=18, color=PART_COLOURS[1]).encode(x=x, x2="high:Q", y=y)
    zero = alt.Chart(data([{"at": 0}])).mark_rule(color=INK, strokeWidth=2).encode(x="at:Q")
    now = alt.Chart(data([{"at": float(answer.saved())}])).mark_rule(color="#D55E00", strokeDash=[5, 3], strokeWidth=2)
    chart = alt.layer(bars, zero, now.encode(x="at:Q")).properties(width=WIDTH, height=alt.Step(30))
    flips = [each.name for each in swings if each.flips]
    title = f"{len(flips)} of {len(swings)} inputs flip the answer within their range."
    caption = "Each input alone at its quoted ends, or ±20 %. Dashed: as asked. Left of 0, another way is cheaper."
    return figure("tornado", chart, title, caption)
