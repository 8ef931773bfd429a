"""`twinlens compare`: whether runs may be compared, and how far apart they are."""

from __future__ import annotations

from pathlib import Path

from twinlens.api.compare import compared, comparison_json, ledger, pairs
from twinlens.cli.screen import out, print_json, sentences
from twinlens.reporting.screen.comparison import comparison_screen, whole_screen
from twinlens.reporting.screen.ledger import ledger_screen


def run(paths: list[Path], json: bool, whole: bool) -> None:
    with sentences():
        _compare(paths, json, whole)


def run_ledger(paths: list[Path], json: bool, price_per_hour: float | None, per_month: float | None) -> None:
    with sentences():
        found = ledger(*paths, price_per_hour=price_per_hour, per_month=per_month)
        if json:
            print_json(found.to_json())
        else:
            out().print(ledger_screen(found))


def _compare(paths: list[Path], json: bool, whole: bool) -> None:
    found = pairs(*paths)
    comparisons = compared(found)
    if json:
        print_json(comparison_json(comparisons, found.alone))
        return
    alone = [side.name for side in found.alone]
    out().print((whole_screen if whole else comparison_screen)(comparisons, alone))
