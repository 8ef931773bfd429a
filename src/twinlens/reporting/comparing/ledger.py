"""Document of a ledger: each step with what it changed, what it came to, and its ratio to the step before."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from twinlens.comparison.ledger import Ledger
from twinlens.reporting import display
from twinlens.reporting.comparison import short_name
from twinlens.reporting.document.block import DETAIL, Block, Document, Drawing, Line, Table, cells, row
from twinlens.reporting.ledger import (
    LEGEND,
    cells_of,
    changed,
    heads_of,
    in_all_words,
    latency_words,
    load_words,
    missing_words,
    remarks_of,
)

if TYPE_CHECKING:
    from twinlens.reporting.chart.figure import Figure as Chart

_MOST = 6
"""Findings on a first screen that has room for them."""


def ledger_document(ledger: Ledger) -> Document:
    """A ledger of up to four steps fits 24 lines at 80 columns, with as many findings as there is room for."""
    group = ledger.steps[0].side.group
    return Document.of(
        "Ledger", display.clean(f"{group.lens.capitalize()} · {group.model}", 120), _blocks(ledger), "--json"
    )


def _blocks(ledger: Ledger) -> Iterator[Block]:
    count = len(ledger.steps) - 1
    yield Line(in_all_words(ledger), is_lead=True)
    group = ledger.steps[0].side.group
    title = f"{group.lens.capitalize()} · {group.model} · {count} step{'s' * (count > 1)} from the baseline"
    yield Line(display.clean(title, 160))
    yield Line(display.clean(load_words(ledger), 160), "dim")
    yield _table(ledger)
    for place, step in enumerate(ledger.steps):
        yield row(str(place), [f"{short_name(step.side, 60)}: {changed(step)}"])
    for words in (latency_words(ledger), *missing_words(ledger)):
        yield Line(words, "dim")
    for place, words in enumerate(remarks_of(ledger)):
        yield row("!", [words], "doubt", rank=1 + place if place < _MOST else DETAIL)
    yield Drawing(partial(_charts, ledger))
    yield Line(f"{LEGEND} --json: every figure.", "dim")


def _table(ledger: Ledger) -> Table:
    """The figures of each step by its number: with names in it the table would not fit, and cells would be cut."""
    marks = [display.doubt_mark(step.side.group.validity) or "  " for step in ledger.steps]
    rows = tuple(
        cells((f"{marks[place]}{place}", *cells_of(ledger, step)[2:])) for place, step in enumerate(ledger.steps)
    )
    return Table("Each line is a step on top of those above it.", ("step", *heads_of(ledger)[2:]), rows)


def _charts(ledger: Ledger) -> Sequence[Chart]:
    from twinlens.reporting.chart.ledger_bars import ledger_charts  # charts are heavy

    return ledger_charts(ledger)
