"""`twinlens plan cost`: what a request, a million tokens and a thousand users cost, of hardware and of energy."""

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


def _option(name: str, metavar: str, words: str, *others: str) -> typer.models.OptionInfo:
    option: typer.models.OptionInfo = typer.Option(f"--{name}", *others, metavar=metavar, help=words)
    return option


Throughput = Annotated[str | None, _option("throughput", "RATE", "Within the SLO, all devices: '4 requests/s'.")]
OutputWeight = Annotated[str | None, _option("output-weight", "TIMES", "An output token, in input tokens: 4.")]
Revenue = Annotated[str | None, _option("revenue", "MONEY", "Of a user: '20 USD/user/month', for the margin.")]
Training = Annotated[
    str | None,
    typer.Option("--training", metavar="MONEY", help="Of the training run: '100M USD'.", rich_help_panel="Money"),
]
TrainingHours = Annotated[str | None, _option("training-hours", "HOURS", "Device-hours of it, at the rent.")]


def cost(
    model: Model = None,
    throughput: Throughput = None,
    like: Annotated[Path | None, _option("like", "RUN", "A measured run: its goodput, with its interval.")] = None,
    way: Annotated[str | None, _option("way", "HOW", "rent, reserved, buy or api, where several have a price.")] = None,
    device: Device = None,
    devices: Devices = None,
    precision: Precision = None,
    tensor: Tensor = None,
    engine: Engine = None,
    ttft: Ttft = None,
    tpot: Tpot = None,
    of: Of = None,
    rent: Rent = None,
    reserved: Reserved = None,
    buy: Buy = None,
    api: Api = None,
    prices: Prices = None,
    life: Annotated[str | None, _option("life", "TIME", "Over which it is written off: '36 months'.")] = None,
    residual: Residual = None,
    fixed: Fixed = None,
    energy: Energy = None,
    power: Power = None,
    idle_power: IdlePower = None,
    host: Host = None,
    pue: Pue = None,
    busy: Annotated[str | None, _option("busy", "SHARE", "Of the paid hours that serve: 40%.")] = None,
    input_tokens: InputTokens = None,
    output_tokens: OutputTokens = None,
    output_weight: OutputWeight = None,
    retries: Annotated[str | None, _option("retries", "SHARE", "Requests made again: 3%.")] = None,
    hits: Annotated[str | None, _option("hits", "SHARE", "Answered from a cache, without the model: 20%.")] = None,
    users: Annotated[str | None, _option("users", "COUNT", "In a month.")] = None,
    uses: Annotated[str | None, _option("uses", "COUNT", "Requests of a user a day.")] = None,
    days: Annotated[str | None, _option("days", "COUNT", "Of a month; 365 / 12 without it.")] = None,
    revenue: Revenue = None,
    training: Training = None,
    training_hours: TrainingHours = None,
    requests: Annotated[str | None, _option("requests", "COUNT", "That the training run is spread over.")] = None,
    carbon: Annotated[str | None, _option("carbon", "AMOUNT", "Of the grid: '400 g/kWh'.")] = None,
    carbon_source: Annotated[str | None, _option("carbon-source", "WORDS", "Who says so, and for when.")] = None,
    why: Annotated[bool, typer.Option("--why", "--all", help="Every figure with its formula.")] = False,
    output: Page = None,
    catalogue: Catalogue = None,
    json: Json = False,
) -> None:
    """What it costs: a request, a million tokens, a thousand users a month; hardware and energy apart."""
    options = words_of(locals())
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
