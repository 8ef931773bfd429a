"""The page of `plan cost`: hardware and energy of a request and of a month as bars, and every figure."""

from __future__ import annotations

from collections.abc import Sequence

from twinlens.planning.cost.answer import Cost
from twinlens.planning.figure import Figure
from twinlens.record.finding import Finding
from twinlens.reporting.chart.figure import Figure as Chart
from twinlens.reporting.chart.plan_bars import plan_bars
from twinlens.reporting.html.plan_page import PlanPage
from twinlens.reporting.wording.finding import clause_of
from twinlens.reporting.wording.money import NAMES, money_words
from twinlens.reporting.wording.plan_cost import cost_words


def cost_page(answer: Cost, notes: Sequence[Finding] = ()) -> PlanPage:
    """What the page of one answer shows."""
    each, month, rate = answer.each, answer.month, answer.traffic.throughput
    charts = [_bars("request", "A request at full load costs", (each.hardware, each.energy, each.total))]
    if month is not None:
        bars = (month.hardware, month.energy, month.bill, month.doubled)
        charts.insert(0, _bars("month", f"A month of {month.users:,} users costs", bars))
    lacking = dict.fromkeys(clause_of(one.reason) for one in answer.figures() if one.reason is not None)
    return PlanPage(
        "cost",
        "behind an API"
        if rate is None or rate.value is None
        else f"{float(rate.value):,.4g} {rate.unit} within the SLO",
        tuple(cost_words(answer)),
        (*answer.hour(), *answer.figures()),
        tuple(one for one in charts if one is not None),
        (),
        tuple(f"not said: {one}" for one in lacking),
        (*notes, *answer.assumptions()),
    )


def _bars(anchor: str, what: str, figures: Sequence[Figure]) -> Chart | None:
    whole = figures[2]
    if whole.value is None:
        return None
    bars = [(NAMES.get(each.name, each.name), each) for each in figures]
    title = f"{what} {money_words(float(whole.value), _currency(whole))}."
    return plan_bars(f"cost-{anchor}", bars, whole.unit, title, "Lines are bands, where prices or rates have one.")


def _currency(figure: Figure) -> str:
    return figure.unit.partition("/")[0]
