"""`twinlens explain`: the page of a metric, label, error or term; without a word, the names of all pages."""

from __future__ import annotations

from rich.markdown import Markdown

from twinlens.api.reference import explain
from twinlens.cli.screen import out, sentences


def run(word: str | None) -> None:
    with sentences():
        out().print(Markdown(explain(word)))
