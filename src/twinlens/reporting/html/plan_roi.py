"""The page of `plan roi`: costs over the months, what moves the answer, and the cheapest way by use and time."""

from __future__ import annotations

from collections.abc import Sequence

from twinlens.planning.roi.answer import FRONTIER_MONTHS, Roi
from twinlens.record.finding import Finding
from twinlens.reporting.chart.plan_money import outlay_chart, tornado_chart
from twinlens.reporting.html.plan_page import PlanPage, PlanTable
from twinlens.reporting.wording.money import WAYS
from twinlens.reporting.wording.plan_roi import pays_words, verdict_words
from twinlens.units import digits


def roi_page(answer: Roi, notes: Sequence[Finding] = ()) -> PlanPage:
    """What the page of one answer shows."""
    used = f"{digits(100 * float(answer.terms.busy), 2)} % of the hours used"
    tornado = tornado_chart(answer)
    rows = tuple((f"{100 * busy:.0f} % used", *(WAYS[one] for one in ways)) for busy, ways in answer.frontier())
    heads = ("use", *(f"{each} months" for each in FRONTIER_MONTHS))
    return PlanPage(
        "buy or rent",
        f"{', '.join(WAYS[one] for one in answer.terms.ways())}; {used}",
        (verdict_words(answer), pays_words(answer)),
        answer.figures(),
        (outlay_chart(answer), *(() if tornado is None else (tornado,))),
        (PlanTable("The cheapest way, by use and by months.", heads, rows),),
        (),
        (*notes, *answer.assumptions()),
    )
