"""`twinlens explain` prints a page, `twinlens list` what is available here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from twinlens.api.questions import Explain, List
from twinlens.api.reference import explain
from twinlens.api.reference import list as list_
from twinlens.cli.console import out
from twinlens.cli.screen import print_json, sentences


def explained(name: str, given: Mapping[str, Any]) -> None:
    from rich.markdown import Markdown

    with sentences():
        out().print(Markdown(explain(Explain.read(name, given).word)))


def listed(name: str, given: Mapping[str, Any]) -> None:
    from twinlens.reporting.document.terminal import screen
    from twinlens.reporting.judging.listing import listing_document

    with sentences():
        asked = List.read(name, given)
        rows = list_(asked.kind, asked.name, out=asked.out)
        if asked.kind == "schema":
            print_json(rows[0])
        elif asked.json_:
            print_json(rows)
        else:
            out().print(screen(listing_document(asked.kind, rows), whole=True))
