"""Templates of pages with everything foreign escaped, and the file that a page becomes."""

from __future__ import annotations

from functools import lru_cache
from html import escape, unescape
from html.parser import HTMLParser
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from twinlens.errors import BadInput
from twinlens.record.store import write_text
from twinlens.reporting.chart.figure import colour, part_colour


def write_page(text: str, path: str | Path) -> Path:
    """Write a page to `path`, making its folder; a page that was there stays until the new one is whole.

    Raises BadInput (TL207) when the disk refuses it.
    """
    target = Path(path)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.exists() and not target.is_file():
            target.write_text(text, encoding="utf-8")  # a device or a pipe, into which nothing can be renamed
        else:
            write_text(target, text)
    except OSError as error:
        raise BadInput(f"the report cannot be written to {target}: {error.strerror}", code="TL207") from None
    return target


@lru_cache(maxsize=1)
def environment() -> Environment:
    """The templates, with everything foreign escaped."""
    environment = Environment(
        loader=PackageLoader("twinlens.reporting.html"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    # The only text that is not escaped: SVG that figure.py parsed and found to hold drawing alone.
    environment.filters["drawn"] = Markup
    environment.filters["with_cards"] = with_cards
    environment.filters["capitalize_first"] = _capital
    environment.filters["part_colour"] = part_colour
    environment.filters["line_colour"] = colour
    return environment


def _capital(text: str) -> str:
    """With a capital letter, where it opens with a word and not with a name such as "h200-sxm-141gb"."""
    return text[:1].upper() + text[1:] if text.partition(" ")[0].rstrip(":,;").isalpha() else text


# Tables that a phone shows as cards: each cell carries the head of its column, and style.css.j2 does the rest.

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


def unfolded(page: str) -> str:
    """A page of our own templates with every fold open."""
    return "<details open".join(page.split("<details"))


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
