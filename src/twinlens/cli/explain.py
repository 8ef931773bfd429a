"""`twinlens explain`: the page of a metric, label, error or term."""

from __future__ import annotations

from rich.markdown import Markdown

from twinlens.cli.screen import out, sentences
from twinlens.pages import find


def run(word: str) -> None:
    with sentences():
        out().print(Markdown(find(word).text))
