"""`twinlens plan check`: what has to be true before money or hours go."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from twinlens.cli.plan.options import (
    Catalogue,
    Context,
    Device,
    Devices,
    Json,
    Model,
    NoPage,
    Precision,
    Probe,
    Users,
    refuse_page,
)
from twinlens.cli.plan.told import tell, words_of
from twinlens.system.numpy_threads import load_numpy


def check(
    model: Model,
    device: Device = None,
    devices: Devices = None,
    precision: Precision = None,
    runtime: Annotated[str | None, typer.Option("--runtime", metavar="NAME", help="vllm, trtllm or llama.cpp.")] = None,
    driver: Annotated[
        str | None, typer.Option("--driver", metavar="VERSION", help="570.124, as nvidia-smi says.")
    ] = None,
    users: Users = None,
    context: Context = None,
    train: Annotated[str | None, typer.Option("--train", metavar="METHOD", help="full, lora or qlora.")] = None,
    tokens: Annotated[str | None, typer.Option("--tokens", metavar="COUNT", help="To train on: 2B.")] = None,
    deadline: Annotated[
        str | None, typer.Option("--deadline", metavar="TIME", help="Of training: '12 h', or several: '12 h, 18 h'.")
    ] = None,
    mfu: Annotated[str | None, typer.Option("--mfu", metavar="SPAN", help="Taken of training: 0.3..0.5.")] = None,
    hours: Annotated[str | None, typer.Option("--hours", metavar="HOURS", help="That it runs.")] = None,
    link: Annotated[str | None, typer.Option("--link", metavar="NAME", help="Between devices: `list devices`.")] = None,
    volts: Annotated[str | None, typer.Option("--volts", metavar="VOLTS", help="230 unless you say.")] = None,
    phases: Annotated[str | None, typer.Option("--phases", metavar="COUNT", help="1 or 3.")] = None,
    rise: Annotated[str | None, typer.Option("--rise", metavar="KELVIN", help="Of the air: 15.")] = None,
    host_watts: Annotated[
        str | None, typer.Option("--host-watts", metavar="WATTS", help="Of all machines around the devices.")
    ] = None,
    answer: Annotated[str | None, typer.Option("--answer", metavar="TOKENS", help="Of the context: 256.")] = None,
    fast: Annotated[str | None, typer.Option("--fast", metavar="RATE", help="Tokens/s that feel fast: 30.")] = None,
    slow: Annotated[str | None, typer.Option("--slow", metavar="RATE", help="Tokens/s that feel slow: 10.")] = None,
    table: Annotated[
        Path | None, typer.Option("--table", metavar="FILE", help="Your rows of compatibility and failure rates.")
    ] = None,
    probe: Probe = None,
    why: Annotated[bool, typer.Option("--why", help="Every figure with its formula, every row's source.")] = False,
    catalogue: Catalogue = None,
    page: NoPage = None,
    json: Json = False,
) -> None:
    """Before money or hours go: will it work together, power, heat, link, errors, deadline, users at a speed."""
    options = words_of(locals())
    load_numpy()
    from twinlens.api.plan.check import check as checked
    from twinlens.cli.screen import sentences
    from twinlens.reporting.screen.plan_check import check_screen

    with sentences():
        refuse_page(page)
        found = checked(**options)
        tell(found, lambda: check_screen(found.answer, found.notes, why=why), json=json)
