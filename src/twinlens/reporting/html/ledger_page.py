"""A ledger as one self-contained HTML file: what all steps gave, the table, and a chart for each quantity."""

from __future__ import annotations

from pathlib import Path

from twinlens.comparison.ledger import Ledger
from twinlens.reporting import display
from twinlens.reporting.chart.ledger_bars import ledger_charts
from twinlens.reporting.html.render import environment, write_page
from twinlens.reporting.ledger import (
    LEGEND,
    cells_of,
    heads_of,
    in_all_words,
    latency_words,
    load_words,
    missing_words,
    remarks_of,
)
from twinlens.version import __version__


def ledger_page(ledger: Ledger) -> str:
    """The page as text; everything foreign is escaped by the template."""
    group = ledger.steps[0].side.group
    return environment().get_template("ledger.html.j2").render(
        version=__version__,
        answer=in_all_words(ledger),
        subject=display.clean(f"{group.lens.capitalize()} · {group.model}", 120),
        load=display.clean(load_words(ledger), 120),
        steps=len(ledger.steps) - 1,
        remarks=remarks_of(ledger),
        heads=[head.replace("\n", " ") for head in heads_of(ledger)],
        rows=[cells_of(ledger, step) for step in ledger.steps],
        missing=[*filter(None, [latency_words(ledger)]), *missing_words(ledger)],
        legend=LEGEND,
        charts=ledger_charts(ledger),
    )  # fmt: skip


def write_ledger(ledger: Ledger, path: str | Path) -> Path:
    """Write the page, making its folder. Raises BadInput (TL207) when the disk refuses it."""
    return write_page(ledger_page(ledger), path)
