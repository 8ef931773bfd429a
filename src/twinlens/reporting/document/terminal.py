"""A document on a terminal: a first screen of 24 lines of 80 columns, or the whole of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate

from rich.console import Group as Stack
from rich.console import RenderableType
from rich.text import Text

from twinlens.reporting.document.block import DETAIL, Arithmetic, Bars, Block, Document, Line, More, Row, Table, Tone
from twinlens.reporting.text.fitted import Fitted, FittedTable, shortest
from twinlens.reporting.text.footnote import hanging
from twinlens.reporting.wording.plan import figure_words

STYLES: dict[Tone, str] = {"": "", "good": "green", "bad": "red", "doubt": "yellow", "strong": "bold", "dim": "dim",
                           "part": "cyan"}  # fmt: skip
_MARK = 10
"""Width of a mark before what follows it."""


def screen(document: Document, *, whole: bool = False) -> RenderableType:
    """What a terminal shows, once its width is known. `whole`: with every detail, however long."""
    if whole:
        return Fitted(lambda width: Stack(*_lines(document.blocks, width, True)))
    blocks = [each for each in document.blocks if each.rank < DETAIL]
    return Fitted(lambda width: shortest((Stack(*_lines(each, width, False)) for each in _ever_less(blocks)), width))


def _ever_less(blocks: Sequence[Block]) -> Iterator[Sequence[Block]]:
    """All blocks, then without the largest rank, and so on; those of rank 0 stay."""
    ranks = sorted({each.rank for each in blocks if each.rank}, reverse=True)
    for gone in accumulate(([rank] for rank in ranks), initial=list[int]()):
        yield [each for each in blocks if each.rank not in gone]


def _lines(blocks: Sequence[Block], width: int, whole: bool) -> Iterator[RenderableType]:
    for block in blocks:
        match block:
            case Line():
                text = block.text if whole else block.short or block.text
                yield hanging("", text, f"{'bold ' if block.is_lead else ''}{STYLES[block.tone]}".strip())
            case Row():
                yield from _row(block, whole)
            case Table():
                yield from _table(block, width, whole)
            case Bars() if block.is_drawn:
                yield _bars(block, width)
            case Arithmetic():
                told = block.whole if whole else block.first
                words = tuple(
                    f"{name}: {figure_words(figure)}" if name else figure_words(figure) for name, figure in told
                )
                yield from _row(Row(block.mark, words, block.tone, apart=True), whole)
            case More() if not whole:
                yield hanging("", block.text, "dim")


def _row(row: Row, whole: bool) -> Iterator[RenderableType]:
    shown = row.clauses if whole or row.short is None else row.short
    mark, style = f"{row.mark:<{_MARK - 1}} ", STYLES[row.tone]
    if row.apart:
        yield from (hanging(mark if place == 0 else " " * len(mark), each, style) for place, each in enumerate(shown))
    elif shown:
        yield hanging(mark, "; ".join(shown), style)


def _table(table: Table, width: int, whole: bool) -> Iterator[RenderableType]:
    rows = table.rows if whole or table.short is None else table.short
    if rows:
        shown = tuple(tuple(Text(cell.text, style=STYLES[cell.tone]) for cell in row) for row in rows)
        sides = table.sides or ("left", *["right"] * (len(rows[0]) - 1))
        fitted = FittedTable(table.heads, sides, shown, table.gap, table.remarks)
        for place in table.drop:
            fitted = fitted.without(place) if fitted.width > width else fitted
        yield fitted.table()
    if rows and len(rows) < len(table.rows) and table.more:
        yield Text(table.more.format(len(table.rows) - len(rows)), style="dim")


def _bars(bars: Bars, width: int) -> RenderableType:
    values = [None if each.figure.value is None else float(each.figure.value) for each in bars.bars]
    longest = max([bars.limit or 0.0, *(each or 0.0 for each in values)]) or 1.0
    wide = max(10, width - 34)
    rows = tuple(
        (Text(each.name), Text(each.shown),
         Text("" if value is None else "█" * round(wide * value / longest), style=STYLES[each.tone]))
        for each, value in zip(bars.bars, values, strict=True)
    )  # fmt: skip
    return FittedTable(("", "", ""), ("left", "right", "left"), rows).table()
