"""Results that show themselves: on a terminal, as a page, as Markdown and in a notebook, from one document."""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import RenderableType

    from twinlens.reporting.document.block import Document


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
        from twinlens.reporting.text.table import plain

        return plain(self.screen(), 80).rstrip("\n")

    def _repr_html_(self) -> str:
        return f'<pre style="line-height:1.25">{escape(repr(self))}</pre>'
