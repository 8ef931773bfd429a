"""`twinlens plan quotes`: two quotes at the same work."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from twinlens.cli.plan.options import Json, NoPage, refuse_page


def quotes(
    one: Annotated[Path, typer.Argument(metavar="A.toml", help="A quote: `twinlens explain quotes` has one.")],
    other: Annotated[Path, typer.Argument(metavar="B.toml", help="The other.")],
    input: Annotated[str, typer.Option("--input", metavar="TOKENS", help="Of a request.")] = "1024",
    output: Annotated[
        str, typer.Option("--output", metavar="TOKENS", help="Of a request.", rich_help_panel="Load")
    ] = "256",
    page: NoPage = None,
    json: Json = False,
) -> None:
    """Two quotes brought to money per million output tokens at the same work, and what is not comparable."""
    from twinlens.api.plan.quotes import quotes as held
    from twinlens.cli.screen import out, print_json, sentences
    from twinlens.reporting.screen.plan_quotes import quotes_screen

    with sentences():
        refuse_page(page)
        found = held(one, other, input=input, output=output)
        if json:
            print_json(found.to_json())
        else:
            out().print(quotes_screen(found.answer))
