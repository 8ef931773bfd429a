"""Blocks of a document. A subject makes them once; renderers know blocks and never subjects.

Each block has a rank. 0 is always shown. 1 to 8 leave a first screen of 24 lines, the largest first, until the rest
fits. `DETAIL` is for `--why`, `--all` and the folds of a page.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from twinlens.record.estimate import Estimate
from twinlens.record.finding import Finding, Validity
from twinlens.theory.figure import Figure

if TYPE_CHECKING:  # charts are heavy
    from twinlens.reporting.chart.figure import Figure as Chart

DETAIL = 9
Tone = Literal["", "good", "bad", "doubt", "strong", "dim", "part", "struck"]


@dataclass(frozen=True, slots=True)
class Cell:
    """Text of a table with its tone.

    `beside`: what stands with it in few letters, an interval as "±3.1%"; `bounds`: the same where there is room, on a
    page. `why`: the reason of what is absent, a note with a number. `colour`: of a line of the charts, by its name.
    """

    text: str
    tone: Tone = ""
    beside: str = ""
    why: str = ""
    bounds: str = ""
    colour: str = ""


@dataclass(frozen=True, slots=True)
class Title:
    """A heading. `level`: 2 of a part, 3 or 4 within one. A page lists those of level 2 that have an `anchor`."""

    text: str
    rank: int = 0
    level: int = 2
    anchor: str = ""


@dataclass(frozen=True, slots=True)
class Line:
    """A sentence. `is_lead`: it answers, in bold, before all else. `short`: in its place on a first screen."""

    text: str
    tone: Tone = ""
    rank: int = 0
    is_lead: bool = False
    short: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """Clauses after a mark, in one sentence or each on a line of its own (`apart`).

    `short`: clauses in their place on a first screen; None: the same.
    """

    mark: str
    clauses: tuple[str, ...]
    tone: Tone = ""
    rank: int = 0
    apart: bool = False
    short: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under heads; the first cell of a row names it. `caption`: for a page.

    `short`: the rows of a first screen, None for all; how many are left out, `more` says. `shrinks`: a first screen
    that is too long shows fewer of them. `narrow`: the same rows in more lines each, for a narrow terminal, where names
    wrap too. `drop`: columns that a narrow terminal does without, the first of them first. `remarks`: the last column
    is of sentences, which wrap. `keys`, `row_keys`: of each column or row the metric that a page links to, "" for none.
    `reasons`: the head of a column in which a page and Markdown say why, in place of notes. `is_split`: what stands
    beside a number has a column of its own.
    """

    caption: str
    heads: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    sides: tuple[str, ...] = ()
    rank: int = 0
    short: tuple[tuple[Cell, ...], ...] | None = None
    more: str = "… and {} more: --why"
    drop: tuple[int, ...] = ()
    gap: int = 2
    remarks: bool = False
    shrinks: bool = False
    narrow: tuple[tuple[Cell, ...], ...] = ()
    keys: tuple[str, ...] = ()
    row_keys: tuple[str, ...] = ()
    reasons: str = ""
    is_split: bool = False


@dataclass(frozen=True, slots=True)
class Notes:
    """The reasons of cells in the tables before it, each after its number; `folded`: in one line that counts them."""

    folded: bool = False
    rank: int = 0


@dataclass(frozen=True, slots=True)
class Share:
    """A part of a whole: how it is shown, and on a first screen. `place`: of its colour; None: it belongs to none."""

    name: str
    share: float
    shown: str
    short: str
    place: int | None


@dataclass(frozen=True, slots=True)
class Shares:
    """Parts that add up to all of `what`: a row of words, and one bar on a page."""

    mark: str
    what: str
    parts: tuple[Share, ...]
    rank: int = 0


@dataclass(frozen=True, slots=True)
class Fold:
    """What stands behind the row before it: pairs of a head and a text, which a page opens under `caption`."""

    caption: str
    entries: tuple[tuple[str, str], ...]
    rank: int = DETAIL


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar: its name, its figure, how that is shown, and its tone. `beside`: the interval in words; `state`: of what
    was measured; `colour`: of a line of the charts, by its name."""

    name: str
    figure: Figure | Estimate
    shown: str
    tone: Tone = "part"
    beside: str = ""
    state: Validity = "valid"
    colour: str = ""


@dataclass(frozen=True, slots=True)
class Bars:
    """Bars of one unit from 0, with a limit, each with its interval drawn. A page has them under `title`.

    `is_drawn`: a terminal shows them too. `is_apart`: of different quantities, each at a scale of its own.
    """

    bars: tuple[Bar, ...]
    title: str
    caption: str
    limit: float | None = None
    is_drawn: bool = False
    rank: int = 0
    is_apart: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Drawing:
    """Charts of a page, made when they are drawn: chart libraries are heavy. What they show stands in other blocks."""

    make: Callable[[], Sequence[Chart]]
    rank: int = 0


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """How figures were computed. A terminal says those of `first` with their names, or with `--why` those of `whole`;
    a page opens each of `tops` to its formula, its inputs and the figures that it rests on."""

    tops: tuple[Figure, ...]
    first: tuple[tuple[str, Figure], ...] = ()
    whole: tuple[tuple[str, Figure], ...] = ()
    mark: str = "computed"
    tone: Tone = ""
    rank: int = 0


@dataclass(frozen=True, slots=True)
class Letters:
    """Lines that keep their letters: a drawing for what has no charts, or with a `caption` a file, for a page too."""

    lines: tuple[str, ...]
    rank: int = 0
    caption: str = ""


@dataclass(frozen=True, slots=True)
class More:
    """A line of a first screen alone: what else there is, and how to see it. After `mark` stand the columns that a
    narrow terminal left out, and where there are none, `besides` at the end."""

    text: str
    mark: str = ""
    besides: str = ""
    rank: int = 0


@dataclass(frozen=True, slots=True)
class Gap:
    """An empty line of a terminal."""

    rank: int = 8


@dataclass(frozen=True, slots=True)
class Brief:
    """A block that is not left out of a first screen when those of its rank are, but said in fewer words."""

    block: Block
    brief: Block
    rank: int


@dataclass(frozen=True, slots=True)
class Section:
    """Blocks under a title that a page and Markdown open on demand; a terminal says them with all else.

    `level`, `anchor`: of a heading, as of `Title`; 0: its title is none. `on_paper`: printed though it is folded.
    """

    text: str
    blocks: tuple[Block, ...]
    rank: int = DETAIL
    level: int = 0
    anchor: str = ""
    on_paper: bool = True


@dataclass(frozen=True, slots=True)
class Box:
    """Blocks in a frame under a title, which stand out on a page."""

    text: str
    blocks: tuple[Block, ...]
    tone: Tone = ""
    anchor: str = ""
    rank: int = 0


@dataclass(frozen=True, slots=True)
class Beside:
    """Frames that stand side by side where there is room."""

    boxes: tuple[Box, ...]
    rank: int = 0


@dataclass(frozen=True, slots=True)
class Term:
    """What some metrics mean. `names`: the id of each, its label, and its lens where there is one."""

    names: tuple[tuple[str, str, str], ...]
    text: str


@dataclass(frozen=True, slots=True)
class Terms:
    """Definitions, to which the heads and names of tables link."""

    terms: tuple[Term, ...]
    rank: int = DETAIL


Block = (
    Title
    | Line
    | Letters
    | Row
    | Table
    | Notes
    | Gap
    | Brief
    | Shares
    | Fold
    | Section
    | Box
    | Beside
    | Terms
    | Bars
    | Drawing
    | Arithmetic
    | More
)


@dataclass(frozen=True, slots=True)
class Document:
    """An answer. `title`: what kind it is, "Plan: fit"; `subject`: what it is about, a line for each."""

    title: str
    subject: str
    blocks: tuple[Block, ...]
    rest: str = ""
    """How to see what a first screen left out: "--all". Where it is said, the lines left out are counted."""
    extent: str = ""
    """How much it is about, and when, for the head of a page."""

    @staticmethod
    def of(title: str, subject: str, blocks: Iterable[Block], rest: str = "", extent: str = "") -> Document:
        """Blocks without those that hold nothing."""
        return Document(title, subject, filled(blocks), rest, extent)


def row(mark: str, clauses: Sequence[str], tone: Tone = "", *, rank: int = 0, apart: bool = False,
        first: int | None = None, short: Sequence[str] | None = None) -> Row:  # fmt: skip
    """A row of the clauses that are not empty. `first`: as many of them, from the start, for a first screen."""
    told = tuple(each for each in clauses if each)
    return Row(mark, told, tone, rank, apart, told[:first] if short is None else tuple(short))


def cells(texts: Sequence[str], tone: Tone = "") -> tuple[Cell, ...]:
    """A row of a table in one tone."""
    return tuple(Cell(each, tone) for each in texts)


def assumed_row(findings: Sequence[Finding], words: Callable[[Finding], str]) -> Row:
    """What nobody said, each once."""
    return row("assumed", tuple(dict.fromkeys(map(words, findings))))


def filled(blocks: Iterable[Block]) -> tuple[Block, ...]:
    """Blocks without those that hold nothing."""
    return tuple(each for each in blocks if not _is_empty(each))


def whole(blocks: Sequence[Block]) -> tuple[Block, ...]:
    """Blocks that hold something, as whoever shows them all shows them."""
    return filled(each.block if isinstance(each, Brief) else each for each in blocks)


def _is_empty(block: Block) -> bool:
    held: Mapping[type, str] = {
        Title: "text", Line: "text", Letters: "lines", Row: "clauses", Table: "rows", Shares: "parts", Fold: "entries",
        Bars: "bars", Section: "blocks", Box: "blocks", Beside: "boxes", Terms: "terms", More: "text",
    }  # fmt: skip
    if isinstance(block, Brief):
        return _is_empty(block.block)
    return type(block) in held and not getattr(block, held[type(block)])
