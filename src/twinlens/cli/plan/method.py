"""`twinlens plan method`: prompt, retrieval, fine-tuning or training from scratch."""

from __future__ import annotations

from typing import Annotated

import typer

from twinlens.cli.plan.options import Catalogue, Context, Devices, Json, Model, NoPage, refuse_page
from twinlens.cli.plan.told import tell, words_of
from twinlens.system.numpy_threads import load_numpy

Count = str | None


def method(
    model: Model,
    device: Annotated[str, typer.Option("--device", metavar="NAME", help="H100, a name of `list devices`.")],
    devices: Devices = None,
    corpus: Annotated[Count, typer.Option("--corpus", metavar="TOKENS", help="Private knowledge: 20M.")] = None,
    changes: Annotated[
        str | None, typer.Option("--changes", metavar="HOW", help="never, yearly, monthly, weekly or daily.")
    ] = None,
    examples: Annotated[Count, typer.Option("--examples", metavar="COUNT", help="Labelled examples.")] = None,
    style: Annotated[bool, typer.Option("--style", help="A form, a tone or a format is to be held.")] = False,
    own_weights: Annotated[bool, typer.Option("--own-weights", help="No public weights may be used.")] = False,
    requests: Annotated[Count, typer.Option("--requests", metavar="COUNT", help="A month: 10000.")] = None,
    price: Annotated[
        str | None, typer.Option("--price", metavar="DOLLARS", help="Of a device-hour: 2.50, or 2..4.")
    ] = None,
    budget: Annotated[str | None, typer.Option("--budget", metavar="DOLLARS", help="For all months.")] = None,
    months: Annotated[Count, typer.Option("--months", metavar="COUNT", help="12.")] = None,
    deadline: Annotated[str | None, typer.Option("--deadline", metavar="TIME", help="Of training: '12 h'.")] = None,
    mfu: Annotated[str | None, typer.Option("--mfu", metavar="SPAN", help="Taken of all work: 0.3..0.5.")] = None,
    prompt: Annotated[Count, typer.Option("--prompt", metavar="TOKENS", help="Of a request: 512.")] = None,
    answer: Annotated[Count, typer.Option("--answer", metavar="TOKENS", help="Of a request: 256.")] = None,
    context: Context = None,
    retrieved: Annotated[Count, typer.Option("--retrieved", metavar="TOKENS", help="Put before each: 2048.")] = None,
    example_tokens: Annotated[
        Count, typer.Option("--example-tokens", metavar="TOKENS", help="Of one example: 512.")
    ] = None,
    shots: Annotated[Count, typer.Option("--shots", metavar="COUNT", help="Examples in a prompt: 8.")] = None,
    epochs: Annotated[Count, typer.Option("--epochs", metavar="COUNT", help="Of training: 3.")] = None,
    why: Annotated[bool, typer.Option("--why", help="Reasons of every way, every figure's formula.")] = False,
    catalogue: Catalogue = None,
    page: NoPage = None,
    json: Json = False,
) -> None:
    """Prompt, retrieval, fine-tuning or from scratch: what each meets, takes and costs, and what flips the choice."""
    options = words_of(locals())
    load_numpy()
    from twinlens.api.plan.method import method as chosen
    from twinlens.cli.screen import sentences
    from twinlens.reporting.screen.plan_method import method_screen

    with sentences():
        refuse_page(page)
        found = chosen(**options)
        tell(found, lambda: method_screen(found.answer, found.notes, why=why), json=json)
