"""Options that the verbs of `twinlens plan` share. Values are words with units, which `api/plan` reads."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Model = Annotated[
    str, typer.Option("--model", metavar="NAME", help="70B, a model of `list models`, a folder, config.json, GGUF.")
]
Device = Annotated[
    str | None, typer.Option("--device", metavar="NAME", help="H100, a name of `list devices`, or 'this'.")
]
Devices = Annotated[str | None, typer.Option("--devices", metavar="COUNT", help="How many of them.")]
Precision = Annotated[
    str | None, typer.Option("--precision", metavar="FORMAT", help="Of the weights: bf16, fp8, q4_k_m …")
]
Kv = Annotated[str | None, typer.Option("--kv", metavar="FORMAT", help="Of the KV cache: fp16, fp8 …")]
Users = Annotated[str | None, typer.Option("--users", metavar="COUNT", help="Served at the same time.")]
Context = Annotated[str | None, typer.Option("--context", metavar="TOKENS", help="Of each user: 8192, 32K …")]
Catalogue = Annotated[
    Path | None,
    typer.Option("--catalogue", metavar="FOLDER", help="Your devices, links, models and prices."),
]
Probe = Annotated[
    Path | None, typer.Option("--probe", metavar="FILE", help="What `twinlens probe --json` wrote, as the device.")
]
Known = Annotated[Path | None, typer.Option("--constants", metavar="FILE", help="What `plan calibrate -o` wrote.")]
Json = Annotated[bool, typer.Option("--json", help="Machine-readable output on stdout.")]
NoPage = Annotated[Path | None, typer.Option("-o", hidden=True)]
"""Refused, with the verbs that have a page."""
Page = Annotated[Path | None, typer.Option("-o", "--output", metavar="FILE", help="Write the plan as an HTML page.")]


def refuse_page(page: Path | None) -> None:
    """Raises BadInput (TL231) where a page was asked of a verb that has none."""
    from twinlens.errors import BadInput

    if page is not None:
        raise BadInput(
            "this verb answers with one table and has no page; --json gives it as data (plan fit, capacity, choose, "
            "cost and roi have one)",
            code="TL231",
        )


Groups = Annotated[str | None, typer.Option("--groups", metavar="COUNT", help="Of attention, that share experts.")]
