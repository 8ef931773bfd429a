"""Verbs that look up a word, or what is available here."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from twinlens.api.question import Question, argument
from twinlens.cli.verb.options import Json, Out


class Explain(Question):
    """What a metric, label, error or term means. Without a word: the names of all pages."""

    word: Annotated[str, argument("A metric, finding, error, field or option.", "WORD")] | None = None


def explain(asked: Explain) -> None:
    from twinlens.cli.explain import run

    run(asked.word)


class List(Question):
    """What is available here: models, examples, metrics, runs …"""

    kind: Annotated[str, argument("models, devices, executors, metrics, …", "KIND")] = "kinds"
    name: Annotated[str, argument("One device or model, with every field.", "NAME")] | None = None
    out: Out = Path("runs")
    json_: Json = False


def list_(asked: List) -> None:
    from twinlens.cli.listing import run

    run(asked.kind, asked.name, asked.out, asked.json_)
