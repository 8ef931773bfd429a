"""Sentences under a terminal table, and text that hangs from a mark."""

from __future__ import annotations

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

_MARKS = "abcdefghijklmnopqrstuvwxyz"


class Footnotes:
    """Sentences under a table, each with a letter; the same sentence keeps its letter."""

    def __init__(self) -> None:
        self.letters: dict[str, str] = {}

    def mark(self, sentence: str) -> str:
        """The letter of a sentence."""
        if sentence not in self.letters:
            count = len(self.letters)
            self.letters[sentence] = _MARKS[count] if count < len(_MARKS) else f"{count + 1}"
        return self.letters[sentence]

    def listed(self) -> list[RenderableType]:
        """Every sentence after its letter."""
        return [hanging(f"{letter}  ", sentence, "dim") for sentence, letter in self.letters.items()]


def hanging(mark: str, sentence: str, style: str) -> RenderableType:
    """A sentence that wraps beside its mark."""
    grid = Table.grid(padding=0)
    grid.add_column(no_wrap=True, width=len(mark)) if mark else None
    grid.add_column(overflow="fold")
    text = Text(sentence, style=style)
    grid.add_row(Text(mark, style=style), text) if mark else grid.add_row(text)
    return grid
