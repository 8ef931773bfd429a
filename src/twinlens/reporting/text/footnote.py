"""Sentences under a terminal table, each with a number, and text that hangs from a mark."""

from __future__ import annotations

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text


class Footnotes:
    """Sentences under a table, each once and with a number from 1 on."""

    def __init__(self) -> None:
        self._places: dict[str, int] = {}
        self._told = 0

    def __len__(self) -> int:
        return len(self._places)

    def mark(self, sentence: str) -> str:
        """The mark of a sentence: "[1]"."""
        return f"[{self._places.setdefault(sentence, len(self._places) + 1)}]"

    def sentences(self) -> list[str]:
        """Every sentence once, in the order of its marks."""
        return list(self._places)

    def since(self) -> list[tuple[int, str]]:
        """The sentences that no earlier call has given, with their places: for tables with one count of marks."""
        told, self._told = self._told, len(self)
        return list(enumerate(self._places, start=1))[told:]

    def listed_since(self) -> list[RenderableType]:
        """The same, each after its mark."""
        return [hanging(f"[{place}] ", sentence, "dim") for place, sentence in self.since()]

    def folded(self) -> list[RenderableType]:
        """One line in place of several sentences."""
        if len(self) < 2:
            return self.listed_since()
        return [hanging("", f"[1]–[{len(self)}] no interval, or no value: --all says why for each", "dim")]


def hanging(mark: str, sentence: str, style: str) -> RenderableType:
    """A sentence that wraps beside its mark."""
    grid = Table.grid(padding=0)
    grid.add_column(no_wrap=True, width=len(mark)) if mark else None
    grid.add_column(overflow="fold")
    text = Text(sentence, style=style)
    grid.add_row(Text(mark, style=style), text) if mark else grid.add_row(text)
    return grid


def in_lines(name: str, width: int) -> list[str]:
    """A name in lines of at most `width`, broken after a hyphen or at a space where it has one: no end is lost."""
    lines = [""]
    for piece in name.replace(" ", " \0").replace("-", "-\0").split("\0"):
        if lines[-1] and len((lines[-1] + piece).rstrip()) > width:
            lines.append("")
        lines[-1] += piece
    return [line.rstrip() for line in lines]
