"""Values that a notebook shows as the command line prints them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from html import escape
from typing import Any, TypeVar

T = TypeVar("T")


class Shown(str):
    """A table of plain text; a str in every other respect."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        return f'<pre style="line-height:1.25">{escape(self)}</pre>'


class Page(str):
    """A page in Markdown; a str in every other respect."""

    __slots__ = ()

    def _repr_markdown_(self) -> str:
        return str(self)


class Found(tuple[T, ...]):
    """Several values that one verb found; a tuple in every other respect. A notebook shows the text of the screen."""

    _text: Callable[[], str]

    @classmethod
    def of(cls, items: Iterable[T], text: Callable[[], str]) -> Found[T]:
        """`text` is called when a notebook first shows the values."""
        found = cls(items)
        found._text = text
        return found

    def _repr_html_(self) -> str:
        return Shown(self._text())._repr_html_()

    def __reduce__(self) -> Any:
        return tuple, (tuple(self),)  # a copy is of the values
