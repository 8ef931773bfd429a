"""`twinlens plan capacity`: how much a machine serves or trains, how fast, and how many of it a load takes."""

from __future__ import annotations

from typing import Annotated

import typer

from twinlens.cli.plan.options import Catalogue, Device, Devices, Groups, Json, Known, Kv, Page, Precision, Probe
from twinlens.cli.plan.speed import Engine, Model, Of, Tensor, Tpot, Ttft
from twinlens.cli.plan.told import tell, words_of
from twinlens.system.numpy_threads import load_numpy

Users = Annotated[str | None, typer.Option("--users", metavar="COUNT", help="Who ask again as soon as they have it.")]
Rate = Annotated[str | None, typer.Option("--rate", metavar="PER_S", help="Requests per second, at random.")]
Prompt = Annotated[str | None, typer.Option("--prompt", metavar="TOKENS", help="Of a request: 1024, 2K.")]
Answer = Annotated[str | None, typer.Option("--answer", metavar="TOKENS", help="Of a request.")]
Peak = Annotated[str | None, typer.Option("--peak", metavar="FACTOR", help="Peak of the load over it: 1.5.")]
Spare = Annotated[str | None, typer.Option("--spare", metavar="COPIES", help="Copies that may fail at a time.")]
Like = Annotated[str | None, typer.Option("--like", metavar="RUN", help="Your own served runs go before datasheets.")]
Train = Annotated[str | None, typer.Option("--train", metavar="METHOD", help="full or lora; else it is served.")]
Batch = Annotated[str | None, typer.Option("--batch", metavar="COUNT", help="Training: sequences of a step.")]
Microbatch = Annotated[str | None, typer.Option("--microbatch", metavar="COUNT", help="Of them at a time on a copy.")]
Context = Annotated[str | None, typer.Option("--context", metavar="TOKENS", help="Training: of a sequence.")]
Recompute = Annotated[str | None, typer.Option("--recompute", metavar="HOW", help="Training: none or full.")]
Pipeline = Annotated[str | None, typer.Option("--pipeline", metavar="COUNT", help="Training: stages.")]
Expert = Annotated[str | None, typer.Option("--expert", metavar="COUNT", help="Training: expert parallel.")]
Tokens = Annotated[str | None, typer.Option("--tokens", metavar="COUNT", help="Training: of the whole, 300B, 15T.")]
Within = Annotated[str | None, typer.Option("--within", metavar="TIME", help="Training: of the whole, 12h, 30days.")]
Effective = Annotated[
    str | None, typer.Option("--effective", metavar="SHARE", help="Training: not lost to failures, 90%.")
]


def capacity(
    model: Model = None,
    device: Device = None,
    devices: Devices = None,
    users: Users = None,
    rate: Rate = None,
    prompt: Prompt = None,
    answer: Answer = None,
    ttft: Ttft = None,
    tpot: Tpot = None,
    of: Of = None,
    peak: Peak = None,
    spare: Spare = None,
    precision: Precision = None,
    kv: Kv = None,
    tensor: Tensor = None,
    groups: Groups = None,
    engine: Engine = None,
    like: Like = None,
    known: Known = None,
    train: Train = None,
    batch: Batch = None,
    microbatch: Microbatch = None,
    context: Context = None,
    recompute: Recompute = None,
    pipeline: Pipeline = None,
    expert: Expert = None,
    tokens: Tokens = None,
    within: Within = None,
    effective: Effective = None,
    probe: Probe = None,
    why: Annotated[bool, typer.Option("--why", help="Every figure with its formula.")] = False,
    output: Page = None,
    catalogue: Catalogue = None,
    json: Json = False,
) -> None:
    """How much it serves or trains and how fast, with bands: latency, users at a target, devices, time to train."""
    options = words_of(locals())
    load_numpy()
    from twinlens.api.plan.capacity import capacity as planned
    from twinlens.cli.screen import sentences
    from twinlens.reporting.screen.plan_capacity import capacity_screen

    with sentences():
        found = planned(**options)
        if output:
            from twinlens.reporting.html.plan_capacity import capacity_page
            from twinlens.reporting.html.plan_page import write_plan

            write_plan(capacity_page(found.answer, found.notes), output)
        rows = [(each.run, each.metric, each.measured_s, each.own_s) for each in found.measured]
        tell(found, lambda: capacity_screen(found.answer, found.notes, rows, why=why), json=json)
