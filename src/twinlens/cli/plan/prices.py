"""Options of money that `plan cost` and `plan roi` share. An amount says what it is per: "3 USD/h"."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Rent = Annotated[str | None, typer.Option("--rent", metavar="MONEY", help="Of an hour of one device: '3 USD/h'.")]
Reserved = Annotated[str | None, typer.Option("--reserved", metavar="MONEY", help="With a commitment: '2 USD/h'.")]
Buy = Annotated[str | None, typer.Option("--buy", metavar="MONEY", help="One device with its host: '37500 USD'.")]
Api = Annotated[
    str | None,
    typer.Option("--api", metavar="MONEY", help="'0.01 USD/request', '3 USD/M input tokens + 15 USD/M output tokens'."),
]
Prices = Annotated[
    Path | None,
    typer.Option("--prices", metavar="FILE", help="TOML: [rent] price, date, source; [buy] … (explain cost)."),
]
Residual = Annotated[str | None, typer.Option("--residual", metavar="MONEY", help="What is got back at the end.")]
Fixed = Annotated[str | None, typer.Option("--fixed", metavar="MONEY", help="Space, people: '250 USD/month'.")]
Energy = Annotated[str | None, typer.Option("--energy", metavar="MONEY", help="'0.12 USD/kWh'.")]
Power = Annotated[str | None, typer.Option("--power", metavar="WATTS", help="Of one device under load: 700W.")]
IdlePower = Annotated[str | None, typer.Option("--idle-power", metavar="WATTS", help="Of one device that waits: 75W.")]
Host = Annotated[
    str | None, typer.Option("--host", metavar="TIMES", help="Power with the host, over the device's: 1.5.")
]
Pue = Annotated[str | None, typer.Option("--pue", metavar="TIMES", help="Power of the building over that: 1.3.")]
