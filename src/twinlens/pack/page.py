"""A page of a pack beside the one that its rows give. Drawings come from a renderer, whose versions draw the same
chart with other paths: of them the words, elements and attributes are compared, and other paths are only said."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Literal

_COUNTED = re.compile(r"-clip\d+")  # numbered by the renderer over all that it has drawn


def compared(packed: str, made: str) -> Literal["same", "drawn otherwise", "other"]:
    """How far two pages agree."""
    if _COUNTED.sub("", packed) == _COUNTED.sub("", made):
        return "same"
    ours, theirs = _Drawings(made), _Drawings(packed)
    same = _undrawn(packed) == _undrawn(made) and theirs.words == ours.words and theirs.marks <= ours.marks
    return "drawn otherwise" if same else "other"


def _undrawn(page: str) -> str:
    head, *parts = page.split("<svg")
    return head + "<svg".join(part.partition("</svg>")[2] for part in parts)


class _Drawings(HTMLParser):
    """`words`: the texts of all drawings; `marks`: their elements, each with every attribute that it has somewhere."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.words: list[str] = []
        self.marks: set[tuple[str, str]] = set()
        for part in page.split("<svg")[1:]:
            self.feed("<svg" + part.partition("</svg>")[0])
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.marks |= {(tag, name) for name in ("", *(name for name, _ in attrs))}

    def handle_data(self, data: str) -> None:
        self.words.append(data.strip())
