"""`twinlens list`: what is available here, one kind at a time."""

from __future__ import annotations

from pathlib import Path

from twinlens.api.reference import list as listed
from twinlens.cli.screen import out as stdout
from twinlens.cli.screen import print_json, sentences
from twinlens.reporting.text.listing import listing


def run(kind: str, name: str | None, out: Path, json: bool) -> None:
    with sentences():
        rows = listed(kind, name, out=out)
        if kind == "schema":
            print_json(rows[0])
        elif json:
            print_json(rows)
        else:
            stdout().print(listing(kind, rows))
