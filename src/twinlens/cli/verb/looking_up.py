"""Verbs that look up a word, or what is available here."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from twinlens.cli.verb.options import Json, Out


def explain(word: Annotated[str | None, typer.Argument(metavar="WORD")] = None) -> None:
    """What a metric, label, error or term means. Without a word: the names of all pages."""
    from twinlens.cli.explain import run

    run(word)


def list_(
    kind: Annotated[str, typer.Argument(metavar="KIND", help="models, devices, executors, metrics, …")] = "kinds",
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="One device or model, with every field.")] = None,
    out: Out = Path("runs"),
    json: Json = False,
) -> None:
    """What is available here: models, examples, metrics, runs …"""
    from twinlens.cli.listing import run

    run(kind, name, out, json)
