"""`twinlens plan cost`: what a request, a million tokens and a thousand users cost, of hardware and of energy."""

from __future__ import annotations

from typing import Any

from twinlens.cli.plan.paid import option, paid
from twinlens.cli.plan.told import tell
from twinlens.system.numpy_threads import load_numpy


@paid(
    way=option("way", "HOW", "rent, reserved, buy or api, where several have a price."),
    life=option("life", "TIME", "Over which it is written off: '36 months'."),
    output_weight=option("output-weight", "TIMES", "An output token, in input tokens: 4."),
    retries=option("retries", "SHARE", "Requests made again: 3%."),
    hits=option("hits", "SHARE", "Answered from a cache, without the model: 20%."),
    users=option("users", "COUNT", "In a month."),
    uses=option("uses", "COUNT", "Requests of a user a day."),
    days=option("days", "COUNT", "Of a month; 365 / 12 without it."),
    revenue=option("revenue", "MONEY", "Of a user: '20 USD/user/month', for the margin."),
    training=option("training", "MONEY", "Of the training run: '100M USD'.", panel="Money"),
    training_hours=option("training-hours", "HOURS", "Device-hours of it, at the rent."),
    requests=option("requests", "COUNT", "That the training run is spread over."),
    carbon=option("carbon", "AMOUNT", "Of the grid: '400 g/kWh'."),
    carbon_source=option("carbon-source", "WORDS", "Who says so, and for when."),
)
def cost(**options: Any) -> None:
    """What it costs: a request, a million tokens, a thousand users a month; hardware and energy apart."""
    output, json, why = (options.pop(each) for each in ("output", "json", "why"))
    load_numpy()
    from twinlens.api.plan.cost import cost as planned
    from twinlens.cli.screen import sentences
    from twinlens.reporting.screen.plan_cost import cost_screen

    with sentences():
        found = planned(**options)
        if output:
            from twinlens.reporting.html.plan_cost import cost_page
            from twinlens.reporting.html.plan_page import write_plan

            write_plan(cost_page(found.answer, found.notes), output)
        tell(found, lambda: cost_screen(found.answer, found.notes, why=why), json=json)
