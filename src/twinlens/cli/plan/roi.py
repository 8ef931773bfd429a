"""`twinlens plan roi`: to buy, rent, reserve or call an API, over months, with when buying pays and what flips it."""

from __future__ import annotations

from typing import Any

from twinlens.cli.plan.paid import option, paid
from twinlens.cli.plan.told import tell
from twinlens.system.numpy_threads import load_numpy


@paid(
    hours=option("hours", "COUNT", "Used a day: 8."),
    months=option("months", "LIST", "Horizons: 12,24,36."),
    resale_falls=option("resale-falls", "SHARE", "Of its price a year, when sold: 30%."),
    rent_falls=option("rent-falls", "SHARE", "Of the rent a year: 20%."),
    warranty=option("warranty", "MONEY", "'900 USD/year'."),
    discount=option("discount", "SHARE", "A year: 8%."),
    delivery=option("delivery", "TIME", "Until it works, rented meanwhile: '3 months'."),
    finance=option("finance", "SHARE", "Interest of a loan."),
    finance_months=option("finance-months", "COUNT", "Of it."),
)
def roi(**options: Any) -> None:
    """To buy, rent, reserve or call an API: costs over months, where buying pays, and what flips it."""
    output, json, why = (options.pop(each) for each in ("output", "json", "why"))
    load_numpy()
    from twinlens.api.plan.roi import roi as planned
    from twinlens.cli.screen import sentences
    from twinlens.reporting.screen.plan_roi import roi_screen

    with sentences():
        found = planned(**options)
        if output:
            from twinlens.reporting.html.plan_page import write_plan
            from twinlens.reporting.html.plan_roi import roi_page

            write_plan(roi_page(found.answer, found.notes), output)
        tell(found, lambda: roi_screen(found.answer, found.notes, why=why), json=json)
