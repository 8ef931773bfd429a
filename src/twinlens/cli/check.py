"""`twinlens check`: whether a spec can be measured, what it stands for, and what theory says of it."""

from __future__ import annotations

from pathlib import Path

from twinlens.api.studies import check
from twinlens.cli.screen import err, out, print_json, sentences
from twinlens.cli.settings import as_settings
from twinlens.reporting.screen.check import check_screen, check_whole
from twinlens.spec.load import load


def run(path: Path, settings: list[str], at: list[str], json: bool, whole: bool = False) -> None:
    with sentences():
        checked = check(load(path, [*as_settings(at), *settings]), refuse=False)
        if json:
            print_json(checked.to_json())
        else:
            out().print((check_whole if whole else check_screen)(checked))
        for sentence in checked.lacking:
            err().print(f"! not measured, the others are: {sentence}", style="yellow", markup=False)
        if checked.refusal is not None:
            raise checked.refusal
