"""Tables that a phone shows as cards: each cell carries the head of its column, and style.css.j2 does the rest."""

from __future__ import annotations

from html import escape, unescape
from html.parser import HTMLParser

from markupsafe import Markup

_FEWEST = 4
"""Columns of a table that becomes cards; fewer fit side by side on a phone, with their words wrapped."""
Attributes = list[tuple[str, str | None]]


def with_cards(page: str) -> Markup:
    """A page of our own templates with heads in the cells of its tables; a cell over several columns has none."""
    before, *tables = page.split("<table>")
    parts = [before]
    for table in tables:
        body, end, after = table.partition("</table>")
        parts += [*_table(body), end, after]
    return Markup("".join(parts))  # every part is one of the page, in which foreign words are escaped


def _table(body: str) -> tuple[str, str]:
    """The tag that opens a table, and what stands in it."""
    cells = _Cells()
    cells.feed(body)
    cells.close()
    return ('<table class="cards">', "".join(cells.parts)) if len(cells.heads) >= _FEWEST else ("<table>", body)


class _Cells(HTMLParser):
    """A table's own text in `parts`, with the head of its column in each cell; `heads` of its columns."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=False)
        self.parts: list[str] = []
        self.heads: list[str] = []
        self.column = 0
        self.in_head = False

    def handle_starttag(self, tag: str, attrs: Attributes) -> None:
        text, known = self.get_starttag_text() or "", dict(attrs)
        if tag == "tr":
            self.column = 0
        elif tag == "th" and known.get("scope") == "col":
            self.heads.append("")
            self.in_head = True
        elif tag in ("td", "th"):
            if tag == "td" and self.column < len(self.heads) and "colspan" not in known:
                head = escape(" ".join(self.heads[self.column].split()))
                text = f'<td data-head="{head}"{text.removeprefix("<td")}'
            self.column += 1
        self.parts.append(text)

    def handle_startendtag(self, tag: str, attrs: Attributes) -> None:
        self.parts.append(self.get_starttag_text() or "")

    def handle_endtag(self, tag: str) -> None:
        self.in_head = self.in_head and tag != "th"
        self.parts.append(f"</{tag}>")

    def handle_data(self, data: str) -> None:
        self._words(data)

    def handle_entityref(self, name: str) -> None:
        self._words(f"&{name};")

    def handle_charref(self, name: str) -> None:
        self._words(f"&#{name};")

    def _words(self, text: str) -> None:
        if self.in_head:
            self.heads[-1] += unescape(text)
        self.parts.append(text)
