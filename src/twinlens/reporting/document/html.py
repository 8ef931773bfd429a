"""A document as one self-contained HTML file: the answer first, then what stands beside it, details folded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise
from pathlib import Path
from typing import Literal

from twinlens.reporting.chart.figure import Figure as Chart
from twinlens.reporting.display import clean
from twinlens.reporting.document.bars import bars_chart
from twinlens.reporting.document.block import (
    DETAIL,
    Arithmetic,
    Bars,
    Block,
    Document,
    Drawing,
    Fold,
    Letters,
    Line,
    Row,
    Section,
    Shares,
    Table,
    Title,
    whole,
)
from twinlens.reporting.document.environment import environment, write_page
from twinlens.reporting.wording.amount import NAMES as MONEY
from twinlens.reporting.wording.amount import amount, compared_name, span
from twinlens.reporting.wording.finding import clause_of
from twinlens.reporting.wording.planned.plan import COUNTED, NAMES, counted, figure_words, input_words
from twinlens.theory.figure import Figure, Input
from twinlens.theory.law import LAWS
from twinlens.version import __version__

_LONG = 12
"""Rows of a table above which it is folded."""
MANY = 6
"""Clauses above which a row is a list."""


Plain = Title | Line | Row | Fold | Letters | Shares
"""Blocks that the template draws as they are."""


@dataclass(frozen=True, slots=True)
class Told:
    """One figure in words, and those that it was computed from. `inputs`: name, value and source of plain numbers."""

    label: str
    value: str
    band: str
    arithmetic: str
    law: str
    source: str
    inputs: tuple[tuple[str, str, str], ...]
    parts: tuple[Told, ...]
    assumed: tuple[str, ...]
    inverse: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Part:
    """One or several blocks as the template draws them; a fold has its own `parts` under `caption`."""

    kind: Literal["title", "lines", "rows", "shares", "letters", "table", "charts", "arithmetic", "fold"]
    blocks: tuple[Plain | Table | Chart | Told, ...]
    caption: str = ""
    folded: bool = False
    parts: tuple[Part, ...] = ()


def html(document: Document) -> str:
    """The page as text; everything foreign is escaped by the template."""
    return environment().get_template("document.html.j2").render(
        version=__version__, document=document, parts=list(parts(document.blocks)), many=MANY
    )  # fmt: skip


def write(document: Document, path: str | Path) -> Path:
    """Write the page, making its folder. Raises BadInput (TL207) when the disk refuses it."""
    return write_page(html(document), path)


def told(figure: Figure) -> Told:
    """A figure and its whole tree in words."""
    known = figure.value is not None
    unknown = f"not known: {clause_of(figure.reason)}" if figure.reason else "not known"
    plain = [each for each in figure.inputs if isinstance(each, Input)]
    return Told(
        label_of(figure.name),
        _value(figure) if known else unknown,
        _band(figure) if known else "",
        figure_words(figure) if known and figure.formula and figure.inputs else "",
        f"{LAWS[figure.law].title}: twinlens explain {figure.law}" if known and figure.law else "",
        clean(figure.source, 200),
        tuple((label_of(each.name), input_words(each), clean(each.source, 120)) for each in plain),
        tuple(told(each) for each in figure.inputs if isinstance(each, Figure)),
        tuple(clause_of(each) for each in figure.assumptions),
        tuple(clause_of(each) for each in figure.inverse),
    )


def label_of(name: str) -> str:
    """A figure's or an input's name as a reader knows it."""
    return NAMES.get(name) or MONEY.get(name) or compared_name(name) or clean(name, 60).replace("-", " ")


def parts(blocks: Sequence[Block]) -> Iterator[Part]:
    """Parts as the template draws them: what stands under a title that is a detail is folded; arithmetic at the end."""
    blocks = whole(blocks)
    titles = [place for place, each in enumerate(blocks) if isinstance(each, Title)]
    for begin, end in pairwise([0, *titles, len(blocks)]):
        title = blocks[begin] if begin < end else None
        if isinstance(title, Title) and title.rank >= DETAIL:
            yield Part("fold", (), title.text, True, tuple(_open(blocks[begin + 1 : end])))
        else:
            yield from _open(blocks[begin:end])
    tops = tuple(told(each) for block in blocks if isinstance(block, Arithmetic) for each in block.tops)
    if tops:
        yield Part("arithmetic", tops)


def _open(blocks: Sequence[Block]) -> Iterator[Part]:
    """Neighbours of one kind together."""
    for kind, group in groupby((each for each in blocks if _kind(each)), _kind):
        alike = list(group)
        if kind == "table":
            yield from (part for each in alike if isinstance(each, Table) for part in _tables(each))
        elif kind == "charts":
            drawn = tuple(chart for each in alike for chart in _charts(each))
            yield from [Part("charts", drawn)] if drawn else []
        elif kind == "fold":
            yield from (Part("fold", (), each.text, True, tuple(parts(each.blocks))) for each in alike
                        if isinstance(each, Section))  # fmt: skip
        elif kind:
            yield Part(kind, tuple(each for each in alike if isinstance(each, Plain)))


def _tables(table: Table) -> Iterator[Part]:
    """A table; of a long one the rows of a first screen, and the whole of it folded."""
    if len(table.rows) <= _LONG or table.rank >= DETAIL:
        yield Part("table", (table,), table.caption, table.rank >= DETAIL)
        return
    if table.short:
        yield Part("table", (replace(table, rows=table.short),), table.caption)
    yield Part("table", (table,), table.caption, True)


def _kind(block: Block) -> Literal["", "title", "lines", "rows", "shares", "letters", "table", "charts", "fold"]:
    match block:
        case Title():
            return "title"
        case Line():
            return "lines"
        case Row() | Fold():
            return "rows"
        case Shares():
            return "shares"
        case Section():
            return "fold"
        case Letters() if block.caption:
            return "letters"
        case Table():
            return "table"
        case Bars() | Drawing():
            return "charts"
    return ""


def _charts(block: Block) -> Iterator[Chart]:
    if isinstance(block, Drawing):
        yield from block.make()
    elif isinstance(block, Bars) and (drawn := bars_chart(block)) is not None:
        yield drawn


def _value(figure: Figure) -> str:
    known = float(figure.value or 0)
    return counted(known, figure.unit) if figure.unit in COUNTED else amount(known, figure.unit)


def _band(figure: Figure) -> str:
    if figure.low is None or figure.high is None:
        return ""
    ends = span(float(figure.low), float(figure.high), figure.unit)
    return ends if figure.level is None else f"{ends} ({figure.level:.0%} band)"
