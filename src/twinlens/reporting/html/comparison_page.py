"""Comparisons as one self-contained HTML file: verdict first, sides, what differs, then every effect."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from twinlens.comparison.verdict import Comparison
from twinlens.reporting import display
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
from twinlens.reporting.wording.comparison import values_words
from twinlens.reporting.wording.finding import sentence_of
from twinlens.version import __version__


def comparison_page(comparisons: Sequence[Comparison], alone: Sequence[str] = ()) -> str:
    """The page as text; everything foreign is escaped by the template."""
    return environment().get_template("comparison.html.j2").render(
        version=__version__,
        comparisons=comparisons,
        alone=[display.clean(name, 80) for name in alone],
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


def write_comparison(comparisons: Sequence[Comparison], path: Path, alone: Sequence[str] = ()) -> Path:
    """Write the page. Raises BadInput (TL207) where the disk refuses it."""
    return write_page(comparison_page(comparisons, alone), path)
