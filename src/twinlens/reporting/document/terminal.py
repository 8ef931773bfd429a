"""A document on a terminal: a first screen of 24 lines of 80 columns, or the whole of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from textwrap import wrap

from rich.console import Group as Stack
from rich.console import RenderableType
from rich.text import Text

from twinlens.reporting.document.block import (
    DETAIL,
    Arithmetic,
    Bars,
    Beside,
    Block,
    Box,
    Brief,
    Cell,
    Document,
    Fold,
    Gap,
    Letters,
    Line,
    More,
    Notes,
    Row,
    Section,
    Shares,
    Table,
    Terms,
    Title,
    Tone,
)
from twinlens.reporting.document.block import whole as unbriefed
from twinlens.reporting.text.fitted import Fitted, FittedTable, shortest
from twinlens.reporting.text.footnote import Footnotes, hanging, in_lines
from twinlens.reporting.wording.planned.plan import figure_words, lawful_words

STYLES: dict[Tone, str] = {"": "", "good": "green", "bad": "red", "doubt": "yellow", "strong": "bold", "dim": "dim",
                           "part": "cyan", "struck": "strike"}  # fmt: skip
_MARK = 10
"""Width of a mark before what follows it; a sign, a letter or a figure takes less."""

_SHORTEST_NAME = 12
_NAME = 15
"""Width of a name in a table whose cells take two lines."""


def screen(document: Document, *, whole: bool = False) -> RenderableType:
    """What a terminal shows, once its width is known. `whole`: with every detail, however long."""
    if whole:
        return Fitted(lambda width: Stack(*_lines(unbriefed(document.blocks), width)))
    return Fitted(lambda width: shortest((Stack(*each) for each in _ever_less(document, width)), width))


def _ever_less(document: Document, width: int) -> Iterator[Sequence[RenderableType]]:
    """All but details, then without the largest rank, and so on; those of rank 0 stay. Tables shrink with them."""
    blocks = [each for each in document.blocks if each.rank < DETAIL]
    ranks = {each.rank for each in blocks} | (set(range(1, DETAIL)) if any(map(_shrinks, blocks)) else set())
    for gone in (DETAIL, *sorted(ranks - {0}, reverse=True)):
        most = None if gone == DETAIL else max(3, 2 * gone)
        kept = [each for each in blocks if each.rank < gone or isinstance(each, Brief)]
        more = sum(not isinstance(each, Gap) for each in blocks if each not in kept)
        more += sum(_cut(each, most) for each in kept)
        shown = [(each.block if each.rank < gone else each.brief) if isinstance(each, Brief) else each for each in kept]
        left = [Text(f"… {more} more line{'s' if more > 1 else ''}: {document.rest}", style="dim")]
        told = _Told()
        lines = [*_lines([each for each in shown if not isinstance(each, More)], width, False, most, told)]
        if document.rest and more:
            lines += left
        yield [*lines, *_lines([each for each in shown if isinstance(each, More)], width, False, most, told)]


def _shrinks(block: Block) -> bool:
    return isinstance(block, Table) and block.shrinks


def _cut(block: Block, most: int | None) -> int:
    """Rows of a table that shrinks and items of a row that a first screen of this much room leaves out."""
    if isinstance(block, Table):
        return len(block.rows) - len(_rows(block, False, most))
    return len(block.clauses) - len(block.short) if isinstance(block, Row) and block.apart and block.short else 0


def _rows(table: Table, whole: bool, most: int | None) -> tuple[tuple[Cell, ...], ...]:
    rows = table.rows if whole or table.short is None else table.short
    return rows[:most] if table.shrinks and not whole else rows


@dataclass(slots=True)
class _Told:
    """What was told so far: reasons with their numbers, and heads of columns that had no room."""

    notes: Footnotes = field(default_factory=Footnotes)
    left_out: dict[str, None] = field(default_factory=dict)


def _lines(
    blocks: Sequence[Block], width: int, whole: bool = True, most: int | None = None, told: _Told | None = None
) -> Iterator[RenderableType]:
    told = _Told() if told is None else told
    for block in blocks:
        match block:
            case Title():
                yield hanging("", block.text, "bold")
            case Line():
                text = block.text if whole else block.short or block.text
                yield hanging("", text, f"{'bold ' if block.is_lead else ''}{STYLES[block.tone]}".strip())
            case Letters():
                yield from map(Text, block.lines)
            case Gap():
                yield Text("")
            case Row():
                yield from _row(block, whole)
            case Table():
                yield from _table(block, width, whole, most, told)
            case Notes():
                yield from told.notes.folded() if block.folded else told.notes.listed_since()
            case Section() | Box() if whole:
                yield from (Text(""), hanging("", block.text, "bold"))
                yield from _lines(unbriefed(block.blocks), width, whole, most, told)
            case Beside() if whole:
                yield from _lines(block.boxes, width, whole, most, told)
            case Terms():
                yield from (hanging("", f"{', '.join(name for _, name, _ in each.names)}: {each.text}", "")
                            for each in block.terms)  # fmt: skip
            case Shares():
                parts = ", ".join(f"{each.name} {each.shown if whole else each.short}" for each in block.parts)
                yield from _row(Row(block.mark, (f"{block.what}: {parts}",)), whole)
            case Fold():
                yield from (hanging("  ", f"{head}: {text}", "dim") for head, text in block.entries)
            case Bars() if block.is_drawn:
                yield _bars(block, width)
            case Arithmetic():
                words, laws = lawful_words(block.whole)
                first = tuple(f"{name}: {figure_words(figure)}" for name, figure in block.first)
                yield from _row(Row(block.mark, words if whole else first, block.tone, apart=True), whole)
                if whole and laws:
                    yield from _row(Row("laws", (laws,), block.tone), whole)
            case More() if not whole:
                columns = "', '".join(told.left_out)
                narrow = f"left out here: column{'s' * (len(told.left_out) > 1)} '{columns}'; " if columns else ""
                besides = f"; {block.besides}" if block.besides and not narrow else ""
                yield hanging(block.mark.ljust(_MARK) if block.mark else "", f"{narrow}{block.text}{besides}", "dim")


def _row(row: Row, whole: bool) -> Iterator[RenderableType]:
    shown = row.clauses if whole or row.short is None else row.short
    wide = _MARK if len(row.mark) != 1 else 3 if row.mark.isalnum() else 2
    mark, style = f"{row.mark:<{wide - 1}} ", STYLES[row.tone]
    if row.apart:
        sign = len(row.mark) == 1  # a sign stands before each, a word before the first
        yield from (
            hanging(mark if sign or not place else " " * len(mark), one, style) for place, one in enumerate(shown)
        )
    elif shown:
        yield hanging(mark, "; ".join(shown), style)


def _table(table: Table, width: int, whole: bool, most: int | None, told: _Told) -> Iterator[RenderableType]:
    rows, notes = _rows(table, whole, most), told.notes
    if rows:
        heads, sides = _heads(table), table.sides or ("left", *["right"] * (len(rows[0]) - 1))
        shown = tuple(tuple(part for cell in row for part in _texts(cell, notes, table.is_split)) for row in rows)
        if table.is_split:
            sides = tuple(side for each in sides for side in (each, "left"))
        fitted = FittedTable(heads, sides, shown, table.gap, table.remarks)
        if table.is_split:
            fitted = fitted.without_empty()
        if fitted.width > width and whole and table.drop:
            fitted = _of_two_lines(table, rows, sides, notes)
        gone: list[int] = []
        for place in table.drop:
            if fitted.width > width:
                fitted = fitted.without(place - sum(each < place for each in gone))
                gone.append(place)
                told.left_out[table.heads[place].split("\n")[0]] = None
        if fitted.width > width and table.narrow:
            fitted = _in_lines(table, width)
        if fitted.width > width and has_notes(table):
            yield fitted.stacked()
        else:
            yield from [fitted.table()] if fitted.width <= width else _stacked(fitted)
    if rows and len(rows) < len(table.rows) and table.more:
        yield Text(table.more.format(len(table.rows) - len(rows)), style="dim")


def _stacked(table: FittedTable) -> Iterator[RenderableType]:
    """A name on its line, and what is known of it below, for a table that no columns can hold."""
    for name, *facts in table.rows:
        told = zip(table.heads[1:], (" ".join(each.plain.split()) for each in facts), strict=True)
        yield name
        described = (f"{' '.join(head.split())}: {fact}" if head else fact for head, fact in told if fact)
        yield hanging("  ", " · ".join(described), "")


def has_notes(table: Table) -> bool:
    """Whether its cells are figures, with what stands beside them or why they are absent."""
    return any(cell.beside or cell.why for row in table.rows for cell in row)


def _heads(table: Table) -> tuple[str, ...]:
    return tuple(head for each in table.heads for head in (each, "")) if table.is_split else table.heads


def _texts(cell: Cell, notes: Footnotes, is_split: bool) -> tuple[Text, ...]:
    """A number with what stands beside it, in one column or two."""
    style, beside = STYLES[cell.tone], _beside(cell, notes)
    if is_split:
        return Text(cell.text, style=style), Text(beside, style="dim")
    return (Text(f"{cell.text} {beside}".rstrip() if beside else cell.text, style=style),)


def _beside(cell: Cell, notes: Footnotes) -> str:
    return " ".join(filter(None, (cell.beside, notes.mark(cell.why) if cell.why else "")))


def _of_two_lines(table: Table, rows: Sequence[Sequence[Cell]], sides: Sequence[str], notes: Footnotes) -> FittedTable:
    """What stands beside each number below it, words of heads and names below each other."""
    lines = tuple(
        tuple(
            Text(f"{cell.text}\n{_beside(cell, notes)}".rstrip() if place else "\n".join(in_lines(cell.text, _NAME)),
                 style=STYLES[cell.tone])
            for place, cell in enumerate(row)
        )
        for row in rows
    )  # fmt: skip
    return FittedTable(tuple(head.replace(" ", "\n") for head in table.heads), tuple(sides), lines, 1)


def _in_lines(table: Table, width: int) -> FittedTable:
    """Its narrow rows, with the names in as many lines as they need."""
    rows = [[Text(cell.text, style=STYLES[cell.tone]) for cell in each] for each in table.narrow]
    sides = table.sides or ("left", *["right"] * (len(rows[0]) - 1))
    figures = FittedTable(table.heads[1:], sides[1:], tuple(tuple(each[1:]) for each in rows), table.gap)
    room = max(_SHORTEST_NAME, width - figures.width - table.gap)
    named = tuple((Text("\n".join(wrap(each[0].plain, room))), *each[1:]) for each in rows)
    return FittedTable(table.heads, sides, named, table.gap)


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
