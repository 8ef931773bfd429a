"""`twinlens plan fit`: whether a model fits, in serving or in training, and what would change the answer."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from twinlens.cli.plan.options import (
    Catalogue,
    Context,
    Device,
    Devices,
    Groups,
    Json,
    Kv,
    Page,
    Precision,
    Probe,
    Users,
)
from twinlens.cli.plan.speed import Model
from twinlens.cli.plan.told import tell, words_of
from twinlens.system.numpy_threads import load_numpy

Train = Annotated[str | None, typer.Option("--train", metavar="METHOD", help="full, lora or qlora.")]
Optimizer = Annotated[str | None, typer.Option("--optimizer", metavar="NAME", help="adamw, adamw-8bit …")]
Layout = Annotated[str | None, typer.Option("--layout", metavar="NAME", help="16-bit-fp32-master, fp32 …")]
Batch = Annotated[str | None, typer.Option("--batch", metavar="COUNT", help="Sequences at a time on each device.")]
Recompute = Annotated[str | None, typer.Option("--recompute", metavar="HOW", help="none, selective or full.")]
Loss = Annotated[str | None, typer.Option("--loss", metavar="KIND", help="torch or fused cross-entropy.")]
Rank = Annotated[str | None, typer.Option("--rank", metavar="COUNT", help="Of adapters.")]
Zero = Annotated[str | None, typer.Option("--zero", metavar="STAGE", help="0 to 3; 3 is FSDP.")]
Tensor = Annotated[str | None, typer.Option("--tensor", metavar="COUNT", help="Tensor parallel, in training.")]
Pipeline = Annotated[str | None, typer.Option("--pipeline", metavar="COUNT", help="Pipeline parallel.")]
Expert = Annotated[str | None, typer.Option("--expert", metavar="COUNT", help="Expert parallel.")]
Runtime = Annotated[str | None, typer.Option("--runtime", metavar="NAME", help="vllm or plain.")]
Like = Annotated[
    Path | None, typer.Option("--like", metavar="RUN", help="A run of yours: its memory by part goes first.")
]
MaxSequences = Annotated[str | None, typer.Option("--max-sequences", metavar="COUNT", help="Most at a time.")]


def fit(
    model: Model = None,
    users: Users = None,
    context: Context = None,
    device: Device = None,
    devices: Devices = None,
    precision: Precision = None,
    kv: Kv = None,
    train: Train = None,
    optimizer: Optimizer = None,
    layout: Layout = None,
    batch: Batch = None,
    recompute: Recompute = None,
    loss: Loss = None,
    rank: Rank = None,
    zero: Zero = None,
    tensor: Tensor = None,
    pipeline: Pipeline = None,
    expert: Expert = None,
    groups: Groups = None,
    runtime: Runtime = None,
    max_sequences: MaxSequences = None,
    probe: Probe = None,
    like: Like = None,
    beside: Annotated[
        str | None,
        typer.Option("--beside", metavar="NAMES", help="Other models on the same devices: 8B,qwen3-8b:32:4K."),
    ] = None,
    why: Annotated[bool, typer.Option("--why", help="Every figure with its formula, and legal degrees.")] = False,
    output: Page = None,
    catalogue: Catalogue = None,
    json: Json = False,
) -> None:
    """Will it fit, serving or training: on which devices, with what head-room, and what flips the answer."""
    options = words_of(locals())
    load_numpy()
    from twinlens.api.plan.fit import fit as planned
    from twinlens.cli.screen import sentences
    from twinlens.reporting.screen.plan_fit import fit_screen

    with sentences():
        found = planned(**options)
        if output:
            from twinlens.reporting.html.plan_fit import fit_page
            from twinlens.reporting.html.plan_page import write_plan

            write_plan(fit_page(found.answer, found.notes), output)
        tell(found, lambda: fit_screen(found.answer, found.notes, why=why), json=json)
