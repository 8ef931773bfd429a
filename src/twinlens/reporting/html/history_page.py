"""Histories as one self-contained HTML file: what changed, the chart, then every measurement."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from twinlens.comparison.history import History
from twinlens.record.estimate import Estimate
from twinlens.reporting import display
from twinlens.reporting.chart.history import history_chart
from twinlens.reporting.html.render import environment, write_page
from twinlens.reporting.screen.history import subject_words
from twinlens.reporting.wording.effect import label_of
from twinlens.reporting.wording.finding import sentence_of
from twinlens.reporting.wording.history import change_words, changed_at, date_of, head_words, quiet_words
from twinlens.version import __version__


def history_page(found: Sequence[History]) -> str:
    """The page as text; everything foreign is escaped by the template."""
    charts = [history_chart(each, f"history-{place}") for place, each in enumerate(found, start=1)]
    return environment().get_template("history.html.j2").render(
        version=__version__,
        histories=list(zip(found, charts, strict=True)),
        head_words=head_words,
        subject_words=subject_words,
        change_words=change_words,
        quiet_words=quiet_words,
        date_of=date_of,
        changed_at=changed_at,
        label_of=label_of,
        shown=_shown,
        sentence_of=sentence_of,
        clean=display.clean,
    )  # fmt: skip


def write_history(found: Sequence[History], path: Path) -> Path:
    """Write the page, making its folder. Raises BadInput (TL207) where the disk refuses it."""
    return write_page(history_page(found), path)


def _shown(history: History, place: int) -> str:
    return display.value(Estimate(history.entries[place].value, history.unit, "an entry", "derived"))
