"""The widest layout that fits the terminal, so that no number is ever cut."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from io import StringIO

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

LINES, COLUMNS = 24, 80
_SENTENCE = 20
EVERY = "show --all: every metric and its method"
CHARTS = "twinlens report: charts"


def plain(renderable: RenderableType, width: int = COLUMNS) -> str:
    """A renderable as plain text of at most `width` columns, without colour."""
    out = StringIO()
    # In a notebook rich would otherwise display what it prints, and write nothing into the file.
    console = Console(
        file=out, width=width, color_system=None, force_terminal=False, force_jupyter=False, legacy_windows=False
    )
    console.print(renderable)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"


@dataclass(frozen=True, slots=True)
class Fitted:
    """A renderable that is made when its width is known."""

    build: Callable[[int], RenderableType]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield self.build(options.max_width)


@dataclass(frozen=True, slots=True)
class FittedTable:
    """A table before it has a width: heads, a side for each ("left" or "right"), and rows of cells of one line.

    `remarks`: its last column is of sentences, which may wrap; no other cell is ever wrapped or cut.
    """

    heads: tuple[str, ...]
    sides: tuple[str, ...]
    rows: tuple[tuple[Text, ...], ...]
    gap: int = 2
    remarks: bool = False

    @property
    def width(self) -> int:
        """The width that shows every cell whole, and a third of a line of a sentence."""
        widths = self._widths()
        if self.remarks:
            widths[-1] = min(widths[-1], _SENTENCE)
        return sum(widths) + self.gap * (len(self.sides) - 1)

    def without(self, place: int) -> FittedTable:
        """The same without one column."""
        heads, sides = ((*kept[:place], *kept[place + 1 :]) for kept in (self.heads, self.sides))
        return FittedTable(
            heads, sides, tuple((*row[:place], *row[place + 1 :]) for row in self.rows), self.gap, self.remarks
        )

    def without_empty(self) -> FittedTable:
        """The same without columns in which nothing stands."""
        empty = [n for n, head in enumerate(self.heads) if not head and not any(row[n].plain for row in self.rows)]
        fitted = self
        for place in reversed(empty):
            fitted = fitted.without(place)
        return fitted

    def stacked(self) -> RenderableType:
        """A table too wide for its terminal, a line for each cell: "TTFT p50  29.4 ms  25.3–34.7"."""
        lines: list[Text] = []
        for name, *cells in self.rows:
            items: list[list[Text]] = []
            for head, text in zip(self.heads[1:], cells, strict=True):
                if head or not items:
                    items.append([Text(f"{name.plain} {head}".replace("\n", " ").strip())])
                items[-1].append(text)
            shown = [[part for part in item if part.plain] for item in items]
            lines += [Text("  ").join(item) for item in shown if len(item) > 1]
        return Group(*lines)

    def table(self) -> Table:
        table = Table.grid(padding=(0, self.gap, 0, 0), pad_edge=False)
        for place, side in enumerate(self.sides, start=1):
            wraps = self.remarks and place == len(self.sides)
            table.add_column(justify=side, no_wrap=not wraps)  # type: ignore[arg-type]
        deep = max((head.count("\n") for head in self.heads), default=0)
        if any(self.heads):
            table.add_row(*(Text("\n" * (deep - head.count("\n")) + head, style="dim") for head in self.heads))
        for row in self.rows:
            table.add_row(*row)
        return table

    def _widths(self) -> list[int]:
        cells = [[Text(head) for head in self.heads], *self.rows]
        return [max(_wide(row[place]) for row in cells) for place in range(len(self.sides))]


def _wide(text: Text) -> int:
    return max((cell_len(line) for line in text.plain.splitlines()), default=0)


def shortest(choices: Iterable[RenderableType], width: int) -> RenderableType:
    """The first of some ever shorter choices that is no longer than a screen of this width, else the last one."""
    most = LINES * max(1.0, COLUMNS / width)
    kept: RenderableType = ""
    for kept in choices:
        if plain(kept, width).count("\n") <= most:
            break
    return kept
