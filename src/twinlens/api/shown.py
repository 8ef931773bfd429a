"""Text that a notebook shows as it is meant, instead of in quotes with its line ends as \\n."""

from __future__ import annotations

from html import escape


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
