"""`twinlens plan model`: a choice among models, as constraints and a Pareto set."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from twinlens.cli.plan.options import Catalogue, Context, Devices, Json, NoPage, Precision, Users, refuse_page
from twinlens.cli.plan.told import tell, words_of
from twinlens.system.numpy_threads import load_numpy


def model(
    models: Annotated[str, typer.Option("--models", metavar="NAMES", help="Two or more: 8B,qwen3-8b,gpt-oss-20b.")],
    device: Annotated[str, typer.Option("--device", metavar="NAME", help="H100, a name of `list devices`.")],
    devices: Devices = None,
    precision: Precision = None,
    users: Users = None,
    context: Context = None,
    answer: Annotated[str | None, typer.Option("--answer", metavar="TOKENS", help="Of the context: 256.")] = None,
    price: Annotated[str | None, typer.Option("--price", metavar="DOLLARS", help="Of a device-hour: 2.50.")] = None,
    scores: Annotated[
        Path | None, typer.Option("--scores", metavar="FILE", help="CSV: model, quality, licence, context.")
    ] = None,
    licence: Annotated[str | None, typer.Option("--licence", metavar="NAMES", help="That are allowed: mit,…")] = None,
    most_tpot: Annotated[str | None, typer.Option("--most-tpot", metavar="MS", help="Of a token: 50.")] = None,
    least_quality: Annotated[str | None, typer.Option("--least-quality", metavar="SCORE", help="Of your file.")] = None,
    most_cost: Annotated[
        str | None, typer.Option("--most-cost", metavar="DOLLARS", help="Per million answer tokens.")
    ] = None,
    why: Annotated[bool, typer.Option("--why", help="Every figure with its formula.")] = False,
    catalogue: Catalogue = None,
    page: NoPage = None,
    json: Json = False,
) -> None:
    """Which model: constraints filter, then memory, predicted speed, cost and your own scores; the Pareto set."""
    options = words_of(locals())
    load_numpy()
    from twinlens.api.plan.model import model as chosen
    from twinlens.cli.screen import sentences
    from twinlens.reporting.screen.plan_model import model_screen

    with sentences():
        refuse_page(page)
        found = chosen(**options | {"models": models.split(",")})
        tell(found, lambda: model_screen(found.answer, found.notes, why=why), json=json)
