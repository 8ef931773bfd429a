"""The texts of a pack: tables, report and comparison, all of them made of its rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from twinlens.api.compare import compared, pairs, ranked
from twinlens.comparison.ranking import Pairs
from twinlens.errors import BadInput
from twinlens.measurement.search_from_rows import searches_of
from twinlens.record.run import Run
from twinlens.reporting.comparing.comparison import comparison_document
from twinlens.reporting.document.html import html
from twinlens.reporting.document.terminal import screen
from twinlens.reporting.run.points import runs_document
from twinlens.reporting.text.fitted import plain
from twinlens.reporting.view import Material


def texts_of(material: Sequence[Material]) -> dict[str, str]:
    """The report, and every figure of all runs together and of each alone."""
    from twinlens.api.diagnose import diagnoser
    from twinlens.reporting.report.page import render  # charts are heavy, and no other verb draws them
    from twinlens.reporting.view import view

    searches = searches_of([run for run, _ in material])
    alone = [plain(screen(runs_document([each]), whole=True)) for each in material] if len(material) > 1 else []
    shown = [plain(screen(runs_document(material, searches), whole=True)), *alone]
    return {
        "report.html": render(view(material, None, searches), diagnoser(material)),
        "show.txt": "\n\n".join(shown) + "\n",
    }


def as_given(runs: Sequence[Run], told: Sequence[Mapping[str, Any]]) -> list[list[Run]]:
    """Runs as they were given to be compared: those of one argument together. `told`: each as evidence.json has it."""
    numbers = [number if isinstance(number := each.get("given"), int) else 0 for each in told]
    return [[run for run, at in zip(runs, numbers, strict=True) if at == number] for number in sorted(set(numbers))]


def comparison_texts(given: Sequence[Iterable[Run]]) -> dict[str, str]:
    """The comparison of what was given, as text and as a page; nothing where there are no two points."""
    try:
        found: Pairs = pairs(*given)
    except BadInput:
        return {}  # one point, or nothing that has a counterpart
    comparisons, alone = compared(found), [side.name for side in found.alone]
    document = comparison_document(comparisons, alone, ranked(found))
    return {"comparison.txt": plain(screen(document, whole=True)) + "\n", "comparison.html": html(document)}
