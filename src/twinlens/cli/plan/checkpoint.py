"""`twinlens plan checkpoint`: how often to save."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from twinlens.cli.plan.options import Json, NoPage, refuse_page
from twinlens.cli.plan.told import tell, words_of
from twinlens.system.numpy_threads import load_numpy


def checkpoint(
    run: Annotated[Path | None, typer.Argument(metavar="RUN", help="A run that saved (workload.checkpoint).")] = None,
    mtbf: Annotated[
        str | None, typer.Option("--mtbf", metavar="TIME", help="Mean time between failures of the job: 8h, 6h..10h.")
    ] = None,
    device_mtbf: Annotated[
        str | None, typer.Option("--device-mtbf", metavar="TIME", help="The same of one device: '50000 h'.")
    ] = None,
    devices: Annotated[str | None, typer.Option("--devices", metavar="COUNT", help="How many there are.")] = None,
    save: Annotated[str | None, typer.Option("--save", metavar="TIME", help="What a save costs: 40s.")] = None,
    restart: Annotated[
        str | None, typer.Option("--restart", metavar="TIME", help="From a failure until training goes on: 5min.")
    ] = None,
    why: Annotated[bool, typer.Option("--why", help="Every figure with its formula.")] = False,
    page: NoPage = None,
    json: Json = False,
) -> None:
    """How often to save training: the best interval by Daly, with its band, and the goodput it keeps."""
    options = words_of(locals())
    load_numpy()
    from twinlens.api.plan.checkpoint import checkpoint as planned
    from twinlens.cli.screen import sentences
    from twinlens.reporting.screen.plan_checkpoint import checkpoint_screen

    with sentences():
        refuse_page(page)
        found = planned(**options)
        tell(found, lambda: checkpoint_screen(found.answer, found.notes, why=why), json=json)
