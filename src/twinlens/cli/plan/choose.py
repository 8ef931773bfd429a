"""`twinlens plan choose`: what to run a model on, inference and training ranked apart."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from twinlens.cli.plan.options import Catalogue, Context, Json, Known, Model, Page, Precision, Probe, Users
from twinlens.cli.plan.told import tell, words_of
from twinlens.system.numpy_threads import load_numpy


def _word(name: str, metavar: str, text: str) -> object:
    return typer.Option(f"--{name}", metavar=metavar, help=text)


Word = str | None


def choose(
    model: Model,
    training: Annotated[Word, _word("training", "PERCENT", "Share of the hours that is training.")] = None,
    inference: Annotated[Word, _word("inference", "PERCENT", "Share of the hours that is inference.")] = None,
    users: Users = None,
    context: Context = None,
    answer: Annotated[Word, _word("answer", "TOKENS", "Of the context, what is answered.")] = None,
    speed: Annotated[Word, _word("speed", "RATE", "Tokens/s that each user gets at least.")] = None,
    ttft: Annotated[Word, _word("ttft", "TIME", "Mean time to the first token at most: 2s.")] = None,
    precision: Precision = None,
    train: Annotated[str, _word("train", "METHOD", "full, lora or qlora.")] = "full",
    training_model: Annotated[Word, _word("training-model", "NAME", "What is trained, if another.")] = None,
    training_precision: Annotated[str, _word("training-precision", "FORMAT", "bf16, fp8 …")] = "bf16",
    sequences: Annotated[Word, _word("sequences", "COUNT", "Of a step, over all devices.")] = None,
    length: Annotated[Word, _word("length", "TOKENS", "Of a training sequence.")] = None,
    tokens: Annotated[Word, _word("tokens", "COUNT", "To train on, with --within.")] = None,
    within: Annotated[Word, _word("within", "TIME", "Deadline of training: 12h.")] = None,
    duty: Annotated[Word, _word("duty", "HOURS", "A day in which users are served.")] = None,
    ecc: Annotated[bool, typer.Option("--ecc", help="Only devices with ECC.")] = False,
    datacentre: Annotated[bool, typer.Option("--datacentre", help="Only data-centre devices.")] = False,
    on_premise: Annotated[bool, typer.Option("--on-premise", help="Only devices that are sold.")] = False,
    compliance: Annotated[Word, _word("compliance", "NAME", "hipaa, itar or fedramp.")] = None,
    power: Annotated[Word, _word("power", "WATTS", "Of all devices at most: 20kW.")] = None,
    most_devices: Annotated[Word, _word("most-devices", "COUNT", "Of one system.")] = None,
    among_devices: Annotated[Word, _word("among", "NAMES", "Choose from these: H100,H200.")] = None,
    probe: Probe = None,
    like: Annotated[Path | None, typer.Option("--like", metavar="RUN", help="Served runs of yours go first.")] = None,
    beside: Annotated[
        Word, _word("beside", "NAMES", "Other models, on devices of their own: 8B,qwen3-8b:32:4K.")
    ] = None,
    known: Known = None,
    all_: Annotated[bool, typer.Option("--all", help="Every candidate and why others are not one.")] = False,
    output: Page = None,
    catalogue: Catalogue = None,
    json: Json = False,
) -> None:
    """What would serve it and what would train it, ranked apart; one shared system or two."""
    options = words_of(locals())
    load_numpy()
    from twinlens.api.plan.choose import choose as chosen
    from twinlens.cli.screen import sentences
    from twinlens.reporting.screen.plan_choose import choose_screen

    with sentences():
        found = chosen(**options)
        if output:
            from twinlens.reporting.html.plan_choose import choose_page
            from twinlens.reporting.html.plan_page import write_plan

            write_plan(choose_page(found.answer, found.notes), output)
        tell(found, lambda: choose_screen(found.answer, found.notes, full=all_), json=json)
