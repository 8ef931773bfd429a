"""`twinlens plan roi`: to buy, rent, reserve or call an API, over months, with when buying pays and what flips it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from twinlens.cli.plan.options import Catalogue, Device, Devices, Json, Page, Precision
from twinlens.cli.plan.prices import (
    Api,
    Buy,
    Energy,
    Fixed,
    Host,
    IdlePower,
    Power,
    Prices,
    Pue,
    Rent,
    Reserved,
    Residual,
)
from twinlens.cli.plan.speed import Engine, InputTokens, Model, Of, OutputTokens, Tensor, Tpot, Ttft
from twinlens.cli.plan.told import tell, words_of
from twinlens.system.numpy_threads import load_numpy

Delivery = Annotated[
    str | None, typer.Option("--delivery", metavar="TIME", help="Until it works, rented meanwhile: '3 months'.")
]
Throughput = Annotated[
    str | None, typer.Option("--throughput", metavar="RATE", help="Of the machine, against an API: '4 requests/s'.")
]


def roi(
    device: Device = None,
    devices: Devices = None,
    buy: Buy = None,
    rent: Rent = None,
    reserved: Reserved = None,
    api: Api = None,
    prices: Prices = None,
    hours: Annotated[str | None, typer.Option("--hours", metavar="COUNT", help="Used a day: 8.")] = None,
    busy: Annotated[str | None, typer.Option("--busy", metavar="SHARE", help="Of all hours used: 33%.")] = None,
    months: Annotated[str | None, typer.Option("--months", metavar="LIST", help="Horizons: 12,24,36.")] = None,
    energy: Energy = None,
    power: Power = None,
    idle_power: IdlePower = None,
    host: Host = None,
    pue: Pue = None,
    fixed: Fixed = None,
    residual: Residual = None,
    resale_falls: Annotated[
        str | None, typer.Option("--resale-falls", metavar="SHARE", help="Of its price a year, when sold: 30%.")
    ] = None,
    rent_falls: Annotated[
        str | None, typer.Option("--rent-falls", metavar="SHARE", help="Of the rent a year: 20%.")
    ] = None,
    warranty: Annotated[str | None, typer.Option("--warranty", metavar="MONEY", help="'900 USD/year'.")] = None,
    discount: Annotated[str | None, typer.Option("--discount", metavar="SHARE", help="A year: 8%.")] = None,
    delivery: Delivery = None,
    finance: Annotated[str | None, typer.Option("--finance", metavar="SHARE", help="Interest of a loan.")] = None,
    finance_months: Annotated[str | None, typer.Option("--finance-months", metavar="COUNT", help="Of it.")] = None,
    throughput: Throughput = None,
    like: Annotated[Path | None, typer.Option("--like", metavar="RUN", help="The same from a measured run.")] = None,
    input_tokens: InputTokens = None,
    output_tokens: OutputTokens = None,
    model: Model = None,
    precision: Precision = None,
    tensor: Tensor = None,
    engine: Engine = None,
    ttft: Ttft = None,
    tpot: Tpot = None,
    of: Of = None,
    why: Annotated[bool, typer.Option("--why", "--all", help="Every figure with its formula.")] = False,
    output: Page = None,
    catalogue: Catalogue = None,
    json: Json = False,
) -> None:
    """To buy, rent, reserve or call an API: costs over months, where buying pays, and what flips it."""
    options = words_of(locals())
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
