"""A page for every printed number, label, finding, error and term, as Markdown beside this file.

`metrics/`, `labels/`, `findings/`, `errors/`, `terms/` hold one page a file. A page opens with an optional front
matter whose `also:` line names the other words it answers to, then `# Title`, then one plain paragraph.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from typing import Literal, get_args

from twinlens.errors import BadInput, nearest

PageKind = Literal["metrics", "labels", "findings", "errors", "terms"]
KINDS: tuple[PageKind, ...] = get_args(PageKind)


@dataclass(frozen=True, slots=True)
class Page:
    """One page. `name` is the file's stem, `also` the other words it answers to, `text` Markdown from the title on."""

    kind: PageKind
    name: str
    title: str
    text: str
    also: tuple[str, ...] = ()


def find(word: str) -> Page:
    """The page of a metric, label, finding, error code or term.

    By exact id first, then by any other word it answers to, then by title; the last two whatever the case.
    Raises BadInput (TL212) with the nearest word.
    """
    asked = word.strip()
    for index in _indexes():
        page = index.get(asked) or index.get(_plain(asked))
        if page is not None:
            return page
    raise refusal(word)


def refusal(word: str, more: Iterable[str] = ()) -> BadInput:
    """The error for a word without a page, which names the nearest one; `more`: words that others have pages for."""
    known = dict.fromkeys((*_words(), *more))
    near = nearest(_plain(word), known)
    hint = "`twinlens explain` names all pages" if near.startswith("known: ") else near
    return BadInput(f"there is no page for {word.strip()[:60]!r}; {hint}", code="TL212")


def names(kind: PageKind) -> tuple[str, ...]:
    """The names of the pages of one kind, sorted."""
    return tuple(page.name for page in _pages() if page.kind == kind)


def index() -> str:
    """The names of all pages by kind, as Markdown: what `explain` answers to."""
    parts = [f"## {kind.capitalize()}\n\n{', '.join(names(kind))}\n" for kind in KINDS]
    return "\n".join(["# Pages\n\n`twinlens explain WORD` prints one of these.\n", *parts])


def first_paragraph(page: Page) -> str:
    """The first paragraph of a page, on one line and without markup: enough for a table or a tooltip."""
    paragraphs = (" ".join(part.split()) for part in page.text.split("\n\n"))
    paragraph = next((part for part in paragraphs if part and not part.startswith("#")), page.title)
    return paragraph.replace("`", "").replace("**", "")


def _words() -> tuple[str, ...]:
    return tuple(dict.fromkeys(key for index in _indexes() for key in index))


def _plain(word: str) -> str:
    return " ".join(word.casefold().split())


@lru_cache(maxsize=1)
def _indexes() -> tuple[dict[str, Page], ...]:
    """Words to pages, the closest meaning first: ids, other words, titles. The first page of a word keeps it."""
    by_id: dict[str, Page] = {}
    by_word: dict[str, Page] = {}
    by_title: dict[str, Page] = {}
    for page in _pages():
        by_id.setdefault(page.name, page)
        by_id.setdefault(_plain(page.name), page)
        for word in page.also:
            by_word.setdefault(_plain(word), page)
        by_title.setdefault(_plain(page.title), page)
    return by_id, by_word, by_title


@lru_cache(maxsize=1)
def _pages() -> tuple[Page, ...]:
    here = resources.files(__name__)
    return tuple(
        _read(kind, entry.name.removesuffix(".md"), entry.read_text(encoding="utf-8"))
        for kind in KINDS
        for entry in sorted((here / kind).iterdir(), key=lambda entry: entry.name)
        if entry.name.endswith(".md")
    )


def _read(kind: PageKind, name: str, source: str) -> Page:
    """A page from its source. Raises ValueError for one without a title: pages ship with the program."""
    front, text = "", source
    if source.startswith("---\n"):
        front, _, text = source.removeprefix("---\n").partition("\n---\n")
    text = text.strip() + "\n"
    first = text.partition("\n")[0]
    if not first.startswith("# "):
        raise ValueError(f"page {kind}/{name} has no title")
    line = next((line for line in front.splitlines() if line.startswith("also:")), "also:")
    also = tuple(word.strip() for word in line.removeprefix("also:").split(",") if word.strip())
    return Page(kind, name, first.removeprefix("# ").strip(), text, also)
