"""The texts of a document, which every way of showing it must hold."""

from __future__ import annotations

from collections.abc import Iterator

from twinlens.reporting.document.block import (
    Bars,
    Beside,
    Box,
    Document,
    Fold,
    Line,
    Row,
    Section,
    Shares,
    Table,
    Terms,
    Title,
    whole,
)


def texts(document: Document) -> Iterator[str]:
    """Every text that a reader of the whole document must find, whoever shows it."""
    for block in whole(document.blocks):
        match block:
            case Section(text=text, blocks=blocks) | Box(text=text, blocks=blocks):
                yield text
                yield from texts(Document("", "", blocks))
            case Beside(boxes=boxes):
                yield from texts(Document("", "", boxes))
            case Terms(terms=terms):
                yield from (text for each in terms for text in (*(name for _, name, _ in each.names), each.text))
            case Line(text=text) | Title(text=text):
                yield text
            case Row(clauses=clauses):
                yield from clauses
            case Table(rows=rows):
                yield from (part for each in rows for cell in each for part in (cell.text, cell.why) if part)
            case Shares(what=what, parts=parts):
                yield from (what, *(f"{each.name} {each.shown}" for each in parts))
            case Fold(entries=entries):
                yield from (text for _, text in entries)
            case Bars(bars=bars, is_drawn=True):
                yield from (each.name for each in bars)
                yield from (each.shown for each in bars)
