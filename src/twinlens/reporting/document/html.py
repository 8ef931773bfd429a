"""A document as one self-contained HTML file: the answer first, then what stands beside it, details folded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import count, groupby
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from twinlens.reporting.display import clean
from twinlens.reporting.document.block import (
    DETAIL,
    Arithmetic,
    Bar,
    Bars,
    Beside,
    Block,
    Box,
    Document,
    Drawing,
    Fold,
    Letters,
    Line,
    Row,
    Section,
    Shares,
    Table,
    Terms,
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

if TYPE_CHECKING:  # charts are heavy
    from twinlens.reporting.chart.figure import Figure as Chart

_LONG = 12
"""Rows of a table above which it is folded."""
_MANY = 6
"""Clauses above which a row is a list, and reasons below a table above which they are folded."""


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
class Length:
    """A bar in per cent of the width. `low` and `span`: of its interval, "" where an end of it is not known."""

    bar: Bar
    width: str
    low: str
    span: str


@dataclass(frozen=True, slots=True)
class Part:
    """One or several blocks as the template draws them, with the `parts` of a fold or a frame.

    `notes`: the reasons of a table's cells, in the order of their numbers; `place`: of the table on the page.
    """

    kind: str
    blocks: tuple[Block | Chart | Told | Length, ...]
    parts: tuple[Part, ...] = ()
    notes: tuple[str, ...] = ()
    place: int = 0
    limit: str = ""


@dataclass(frozen=True, slots=True)
class _Page:
    """What all parts of a page share: the metrics that it defines, how many tables it has, and how charts are drawn.

    `elsewhere`: where the meaning of all others stands; "" for a file, which is alone.
    """

    defined: frozenset[str]
    drawn: bool = True
    elsewhere: str = ""
    places: Iterator[int] = field(default_factory=lambda: count(1))


def html(document: Document, *, unfolded: bool = False) -> str:
    """The page as text; everything foreign is escaped by the template. `unfolded`: every fold is open."""
    page = _Page(frozenset(_defined(document.blocks)))
    text = environment().get_template("document.html.j2").render(
        version=__version__, document=document, parts=list(_parts(_below_head(document), page)), many=_MANY,
        links=links_of(document),
    )  # fmt: skip
    return text.replace("<details", "<details open") if unfolded else text


def links_of(document: Document) -> list[tuple[str, str]]:
    """Anchor and text of each part that a page lists at its head."""
    return [(each.anchor, each.text) for each in document.blocks
            if isinstance(each, Title | Section) and each.anchor and each.level == 2]  # fmt: skip


def fragment(document: Document, *, drawn: bool = True, elsewhere: str = "") -> str:
    """The blocks alone, for a page of a site. `drawn`: charts as SVG; else as specifications that the page draws.

    `elsewhere`: the address before the id of a metric that the document does not define; "": such have no link.
    """
    page = _Page(frozenset(_defined(document.blocks)), drawn, elsewhere)
    made = environment().get_template("blocks.html.j2").make_module()
    return str(made.body(list(_parts(_below_head(document), page)), _MANY))  # type: ignore[attr-defined]


def _below_head(document: Document) -> Sequence[Block]:
    """The blocks without a first line that says what the page's head has said: a terminal has no head."""
    first = document.blocks[0] if document.blocks else None
    return document.blocks[1:] if isinstance(first, Line) and first.text == document.subject else document.blocks


def write(document: Document, path: str | Path, *, unfolded: bool = False) -> Path:
    """Write the page, making its folder. Raises BadInput (TL207) when the disk refuses it."""
    return write_page(html(document, unfolded=unfolded), path)


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


def _defined(blocks: Sequence[Block]) -> Iterator[str]:
    """The metrics whose meaning stands on the page."""
    for each in whole(blocks):
        if isinstance(each, Terms):
            yield from (id for term in each.terms for id, _, _ in term.names)
        elif isinstance(each, Section):
            yield from _defined(each.blocks)


def _parts(blocks: Sequence[Block], page: _Page) -> Iterator[Part]:
    """Parts as the template draws them, neighbours of one kind together; arithmetic at the end."""
    blocks = whole(blocks)
    for kind, group in groupby((each for each in blocks if _kind(each)), _kind):
        alike = tuple(group)
        if kind == "charts":
            drawn = tuple(chart for each in alike if isinstance(each, Drawing) for chart in each.make())
            yield from [Part(kind if page.drawn else "live charts", drawn)] if drawn else []
        elif kind in _JOINED:
            yield Part(kind, alike)
        else:
            yield from (part for each in alike for part in _alone(kind, each, page))
    tops = tuple(told(each) for block in blocks if isinstance(block, Arithmetic) for each in block.tops)
    if tops:
        yield Part("arithmetic", tops)


def _alone(kind: str, block: Block, page: _Page) -> Iterator[Part]:
    """A block that stands by itself; a fold or a frame with what is in it, if there is anything."""
    if isinstance(block, Table):
        yield from _tables(block, page)
    elif isinstance(block, Bars):
        yield from _bars(block)
    elif isinstance(block, Section | Box):
        within = tuple(_parts(block.blocks, page))
        yield from [Part(kind, (block,), within)] if within else []
    elif isinstance(block, Beside):
        yield Part(kind, (block,), tuple(_parts(block.boxes, page)))


def _tables(table: Table, page: _Page) -> Iterator[Part]:
    """A table; of a long one the rows of a first screen, and the whole of it folded."""
    if len(table.rows) <= _LONG and table.rank < DETAIL:
        yield _table(table, page)
        return
    if table.short and table.rank < DETAIL:
        yield _table(replace(table, rows=table.short), page)
    fold = Section(f"{table.caption} {len(table.rows)} rows", ())
    yield Part("fold", (fold,), (_table(table, page),))


def _table(table: Table, page: _Page) -> Part:
    keys, row_keys = (tuple(_meaning(key, page) for key in each) for each in (table.keys, table.row_keys))
    notes = () if table.reasons else dict.fromkeys(cell.why for row in table.rows for cell in row if cell.why)
    return Part("table", (replace(table, keys=keys, row_keys=row_keys),), (), tuple(notes), next(page.places))


def _meaning(key: str, page: _Page) -> str:
    """The address of a metric's meaning; "" where there is none."""
    if key in page.defined:
        return f"#metric-{key}"
    return f"{page.elsewhere}{quote(key)}" if key and page.elsewhere else ""


_KINDS: dict[type, str] = {
    Title: "title",
    Line: "lines",
    Row: "rows",
    Fold: "rows",
    Shares: "shares",
    Section: "fold",
    Box: "box",
    Beside: "beside",
    Table: "table",
    Bars: "bars",
    Drawing: "charts",
    Terms: "terms",
}
_JOINED = ("title", "lines", "rows", "shares", "letters", "terms")
"""Blocks that the template draws as they are."""


def _kind(block: Block) -> str:
    return ("letters" if block.caption else "") if isinstance(block, Letters) else _KINDS.get(type(block), "")


def _bars(block: Bars) -> Iterator[Part]:
    """Bars from zero; nothing where no figure has a value."""
    known = [(each, float(each.figure.value)) for each in block.bars if each.figure.value is not None]
    ends = [max(value, float(each.figure.high or 0.0)) for each, value in known]
    most = max([*ends, block.limit or 0.0], default=0.0) or 1.0
    lengths = tuple(_length(each, value, (end or 1.0) if block.is_apart else most)
                    for (each, value), end in zip(known, ends, strict=True))  # fmt: skip
    if known:
        yield Part("bars", (block, *lengths), limit=_share(block.limit, most) if block.limit else "")


def _length(bar: Bar, value: float, most: float) -> Length:
    low, high = bar.figure.low, bar.figure.high
    if low is None or high is None:
        return Length(bar, _share(value, most), "", "")
    return Length(bar, _share(value, most), _share(float(low), most), _share(float(high) - float(low), most))


def _share(value: float, most: float) -> str:
    """A length in per cent of the longest, for a style."""
    return f"{100 * max(0.0, value) / most:.2f}"


def _value(figure: Figure) -> str:
    known = float(figure.value or 0)
    return counted(known, figure.unit) if figure.unit in COUNTED else amount(known, figure.unit)


def _band(figure: Figure) -> str:
    if figure.low is None or figure.high is None:
        return ""
    ends = span(float(figure.low), float(figure.high), figure.unit)
    return ends if figure.level is None else f"{ends} ({figure.level:.0%} band)"
