"""`twinlens compare`: whether runs may be compared, and how far apart they are."""

from __future__ import annotations

from pathlib import Path

from twinlens.api.compare import compared, comparison_json, pairs
from twinlens.cli.screen import out, print_json, sentences
from twinlens.reporting.screen.comparison import comparison_screen, whole_screen


def run(paths: list[Path], json: bool, whole: bool) -> None:
    with sentences():
        found = pairs(*paths)
        comparisons = compared(found)
        if json:
            print_json(comparison_json(comparisons, found.alone))
            return
        alone = [side.name for side in found.alone]
        out().print((whole_screen if whole else comparison_screen)(comparisons, alone))
