"""Comparisons as one self-contained HTML file: verdict first, sides, what differs, then every effect."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from twinlens.comparison.ranking import Ranking
from twinlens.comparison.verdict import Comparison
from twinlens.reporting import display
from twinlens.reporting.chart.forest import forest_chart
from twinlens.reporting.comparison import (
    HEADS,
    LEGEND,
    not_measured_words,
    rows_of,
    side_words,
    subject_words,
    verdict_words,
)
from twinlens.reporting.html.render import environment, write_page
from twinlens.reporting.ranking import ranking_table
from twinlens.reporting.wording.comparison import values_words
from twinlens.reporting.wording.finding import sentence_of
from twinlens.version import __version__


def comparison_page(comparisons: Sequence[Comparison], alone: Sequence[str] = (), ranks: Sequence[Ranking] = ()) -> str:
    """The page as text; everything foreign is escaped by the template. `ranks`: of three candidates or more."""
    return environment().get_template("comparison.html.j2").render(
        version=__version__,
        comparisons=comparisons,
        forests=[forest_chart(each, f"forest-{place}") for place, each in enumerate(comparisons)],
        alone=[display.clean(name, 80) for name in alone],
        ranking=_ranking(ranks),
        heads=HEADS,
        legend=LEGEND,
        verdict_words=verdict_words,
        subject_words=subject_words,
        side_words=side_words,
        rows_of=rows_of,
        not_measured_words=not_measured_words,
        sentence_of=sentence_of,
        values_words=values_words,
        clean=display.clean,
    )  # fmt: skip


def _ranking(ranks: Sequence[Ranking]) -> tuple[list[str], list[list[str]]] | None:
    """The table of ranks, with names as the page may show them."""
    if not ranks:
        return None
    heads, rows = ranking_table(ranks)
    return [head.replace("\n", ": ") for head in heads], [[display.clean(cell, 80) for cell in row] for row in rows]


def write_comparison(
    comparisons: Sequence[Comparison], path: Path, alone: Sequence[str] = (), ranks: Sequence[Ranking] = ()
) -> Path:
    """Write the page. Raises BadInput (TL207) where the disk refuses it."""
    return write_page(comparison_page(comparisons, alone, ranks), path)
