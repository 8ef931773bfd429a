"""Results that show themselves: on a terminal, as a page, as Markdown and in a notebook, from one document."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from twinlens.record.codec import encode
from twinlens.record.finding import Finding
from twinlens.reporting.wording.finding import with_words
from twinlens.version import __version__

if TYPE_CHECKING:
    from rich.console import RenderableType

    from twinlens.reporting.document.block import Document

T = TypeVar("T")


class Documented:
    """A result of a verb. It gives a `document`; all ways to show it are the same for all results."""

    __slots__ = ()

    def document(self) -> Document:
        """The answer as blocks."""
        raise NotImplementedError

    def screen(self, *, why: bool = False) -> RenderableType:
        """What a terminal shows. `why`: with every detail."""
        from twinlens.reporting.document.terminal import screen

        return screen(self.document(), whole=why)

    def to_markdown(self) -> str:
        """The whole answer as Markdown."""
        from twinlens.reporting.document.markdown import markdown

        return markdown(self.document())

    def to_html(self) -> str:
        """The whole answer as one self-contained HTML file."""
        from twinlens.reporting.document.html import html

        return html(self.document())

    def write_html(self, path: str | Path) -> Path:
        """Write the page, making its folder. Raises BadInput (TL207) when the disk refuses it."""
        from twinlens.reporting.document.html import write

        return write(self.document(), path)

    def __repr__(self) -> str:
        """The first screen."""
        from twinlens.reporting.text.fitted import plain

        return plain(self.screen(), 80).rstrip("\n")

    def _repr_html_(self) -> str:
        return f'<pre style="line-height:1.25">{escape(repr(self))}</pre>'


class Answered(Documented):
    """A result of planning. `answer`: with all its arithmetic; `notes`: how words were read, and what was assumed."""

    __slots__ = ()
    answer: Any
    notes: tuple[Finding, ...]

    def why(self) -> dict[str, Any]:
        """The answer as plain data, every figure with its formula and its inputs."""
        found: dict[str, Any] = encode(self.answer)
        return found

    def to_json(self) -> dict[str, Any]:
        """The same with the notes, and every finding in words."""
        return as_json(self.why(), self.notes)


def as_json(why: Mapping[str, Any], notes: Sequence[Finding] = (), **more: Any) -> dict[str, Any]:
    """An answer of planning as plain data. `why`: its arithmetic; its findings, and `notes`, get their sentences."""
    told = [encode(each) for each in notes]
    return dict(with_words({"schema": 1, "twinlens": __version__, "notes": told, **why, **more}))


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


class Found(Documented, tuple[T, ...]):
    """Several values that one verb found; a tuple in every other respect. It shows itself as one document."""

    _document: Callable[[], Document]

    @classmethod
    def of(cls, items: Iterable[T], document: Callable[[], Document]) -> Found[T]:
        """`document` is called when the values are first shown."""
        found = cls(items)
        found._document = document
        return found

    def document(self) -> Document:
        return self._document()

    def __reduce__(self) -> Any:
        return tuple, (tuple(self),)  # a copy is of the values
