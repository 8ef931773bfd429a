"""`twinlens explain` prints a page, `twinlens list` what is available here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from twinlens.api.questions import Explain, List
from twinlens.api.reference import explain
from twinlens.api.reference import list as list_
from twinlens.cli.screen import out, print_json, sentences


def explained(name: str, given: Mapping[str, Any]) -> None:
    from rich.markdown import Markdown

    with sentences():
        out().print(Markdown(explain(Explain.read(name, given).word)))


def listed(name: str, given: Mapping[str, Any]) -> None:
    from twinlens.reporting.text.listing import listing

    with sentences():
        asked = List.read(name, given)
        rows = list_(asked.kind, asked.name, out=asked.out)
        if asked.kind == "schema":
            print_json(rows[0])
        elif asked.json_:
            print_json(rows)
        else:
            out().print(listing(asked.kind, rows))
