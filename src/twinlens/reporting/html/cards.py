"""Tables that a phone shows as cards: each cell carries the head of its column, and style.css.j2 does the rest."""

from __future__ import annotations

import re

from markupsafe import Markup

_FEWEST = 4
"""Columns of a table that becomes cards; fewer fit side by side on a phone, with their words wrapped."""
_TABLE = re.compile(r"<table>(.*?)</table>", re.DOTALL)
_HEAD = re.compile(r'<th scope="col"[^>]*>(.*?)</th>', re.DOTALL)
_ROW = re.compile(r"<tr\b.*?</tr>", re.DOTALL)
_CELL = re.compile(r"<(td|th)\b(?=[ >])")
_TAG = re.compile(r"<[^>]*>")


def with_cards(page: str) -> Markup:
    """A page of our own templates, whose foreign words are escaped already, with heads in the cells of its tables.

    A head is the text of its column's `th`, as escaped there; a row over all columns has none.
    """
    return Markup(_TABLE.sub(_table, page))


def _table(found: re.Match[str]) -> str:
    heads = [" ".join(_TAG.sub("", head).split()) for head in _HEAD.findall(found[1])]
    if len(heads) < _FEWEST:
        return found[0]
    return f'<table class="cards">{_ROW.sub(lambda row: _row(row[0], heads), found[1])}</table>'


def _row(row: str, heads: list[str]) -> str:
    if 'scope="col"' in row or "colspan=" in row:
        return row
    left = iter(heads)

    def headed(cell: re.Match[str]) -> str:
        head = next(left, "")
        return f'<td data-head="{head}"' if cell[1] == "td" and head else cell[0]

    return _CELL.sub(headed, row)
