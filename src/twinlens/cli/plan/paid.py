"""Options that `plan cost` and `plan roi` share: machine, speed and money. An amount says what it is per: "3 USD/h"."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from twinlens.cli.plan.options import Catalogue, Device, Devices, Json, Page, Precision
from twinlens.cli.plan.speed import Engine, Model, Of, Tensor, Tpot, Ttft


def option(name: str, metavar: str, words: str, *others: str, panel: str | None = None) -> Any:
    """The type of an option that takes words."""
    told = typer.Option(f"--{name}", *others, metavar=metavar, help=words, rich_help_panel=panel)
    return Annotated[str | None, told]


SHARED: dict[str, Any] = {
    "model": Model, "device": Device, "devices": Devices, "precision": Precision, "tensor": Tensor, "engine": Engine,
    "ttft": Ttft, "tpot": Tpot, "of": Of,
    "throughput": option("throughput", "RATE", "Within the SLO, all devices: '4 requests/s'."),
    "like": Annotated[Path | None, typer.Option("--like", metavar="RUN", help="A measured run: its goodput.")],
    "input_tokens": option("input-tokens", "COUNT", "Of a request.", "--prompt"),
    "output_tokens": option("output-tokens", "COUNT", "Of a request.", "--answer"),
    "rent": option("rent", "MONEY", "Of an hour of one device: '3 USD/h'."),
    "reserved": option("reserved", "MONEY", "With a commitment: '2 USD/h'."),
    "buy": option("buy", "MONEY", "One device with its host: '37500 USD'."),
    "api": option("api", "MONEY", "'0.01 USD/request', '3 USD/M input tokens + 15 USD/M output tokens'."),
    "prices": Annotated[
        Path | None,
        typer.Option("--prices", metavar="FILE", help="TOML: [rent] price, date, source; [buy] … (explain cost)."),
    ],
    "residual": option("residual", "MONEY", "What is got back at the end."),
    "fixed": option("fixed", "MONEY", "Space, people: '250 USD/month'."),
    "energy": option("energy", "MONEY", "'0.12 USD/kWh'."),
    "power": option("power", "WATTS", "Of one device under load: 700W."),
    "idle_power": option("idle-power", "WATTS", "Of one device that waits: 75W."),
    "host": option("host", "TIMES", "Power with the host, over the device's: 1.5."),
    "pue": option("pue", "TIMES", "Power of the building over that: 1.3."),
    "busy": option("busy", "SHARE", "Of the hours, those that serve: 40%."),
    "catalogue": Catalogue, "output": Page, "json": Json,
    "why": Annotated[bool, typer.Option("--why", "--all", help="Every figure with its formula.")],
}  # fmt: skip
_FLAGS = {"json": False, "why": False}


def paid(**own: Any) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Gives a verb the options of SHARED and its `own`, by name; it takes what was given of them as keywords."""
    both = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=_FLAGS.get(name), annotation=kind)
        for name, kind in {**SHARED, **own}.items()
    ]

    def with_options(verb: Callable[..., None]) -> Callable[..., None]:
        verb.__signature__ = inspect.Signature(both)  # type: ignore[attr-defined]
        verb.__annotations__ = {each.name: each.annotation for each in both}
        return verb

    return with_options
