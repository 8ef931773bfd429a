"""`twinlens list`: what is available here, one kind at a time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.table import Table

from twinlens.api.reference import list as listed
from twinlens.cli.screen import out as stdout
from twinlens.cli.screen import print_json, sentences


def run(kind: str, out: Path, json: bool) -> None:
    with sentences():
        rows = listed(kind, out)
        if json:
            print_json(rows)
        elif not rows:
            stdout().print(f"no {kind} here")
        else:
            stdout().print(_table(rows))


def _table(rows: list[dict[str, Any]]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0))
    for index, head in enumerate(rows[0]):
        table.add_column(head, overflow="fold", no_wrap=index == 0)
    for row in rows:
        table.add_row(*(str(value) for value in row.values()))
    return table
