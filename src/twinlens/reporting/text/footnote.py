"""Sentences under a terminal table, each with a number, and text that hangs from a mark."""

from __future__ import annotations

import re
from itertools import count

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

_NUMBER = re.compile(r"\d[\d,.]*\d|\d")


class Footnotes:
    """Sentences under a table, each with a number from 1 on. Those that differ only in their numbers are one.

    Its numbers that differ are shown as N: how many values each figure rests on stands beside it, or in --json.
    """

    def __init__(self) -> None:
        self._alike: dict[str, list[list[str]]] = {}

    def __len__(self) -> int:
        return len(self._alike)

    def mark(self, sentence: str) -> str:
        """The mark of a sentence: "[1]"."""
        kind = _NUMBER.sub("\0", sentence)
        found = self._alike.setdefault(kind, [])
        numbers = _NUMBER.findall(sentence)
        if numbers not in found:
            found.append(numbers)
        return f"[{list(self._alike).index(kind) + 1}]"

    def sentences(self) -> list[str]:
        """Every sentence once, in the order of its marks."""
        return [_filled(kind, numbers) for kind, numbers in self._alike.items()]

    def listed(self) -> list[RenderableType]:
        """Every sentence after its mark."""
        return [hanging(f"[{place}] ", one, "dim") for place, one in zip(count(1), self.sentences(), strict=False)]

    def folded(self) -> list[RenderableType]:
        """One line in place of several sentences."""
        if len(self) < 2:
            return self.listed()
        return [hanging("", f"[1]–[{len(self)}] no interval, or no value: --all says why for each", "dim")]


def _filled(kind: str, numbers: list[list[str]]) -> str:
    shown = iter([alike[0] if len(set(alike)) == 1 else "N" for alike in zip(*numbers, strict=True)])
    return re.sub("\0", lambda _: next(shown), kind)


def hanging(mark: str, sentence: str, style: str) -> RenderableType:
    """A sentence that wraps beside its mark."""
    grid = Table.grid(padding=0)
    grid.add_column(no_wrap=True, width=len(mark)) if mark else None
    grid.add_column(overflow="fold")
    text = Text(sentence, style=style)
    grid.add_row(Text(mark, style=style), text) if mark else grid.add_row(text)
    return grid
